// SPDX-License-Identifier: Apache-2.0

// Package config is the configuration of the auto-discovery in a cluster: its file, and what is made of the file.
//
//	file ──Load──► Compiled: defaults filled in, everything validated, templates and selectors parsed
//
// What it decides:
//
//   - Names and defaults are those of secureCodeBox's auto-discovery. All mistakes of a file are reported together, each with its line.
//   - Templates are tried on sample arguments, which are here as well: what a template may name is part of the configuration.
package config
