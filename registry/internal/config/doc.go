// SPDX-License-Identifier: Apache-2.0

// Package config reads the file that controller and workers share: what the installation allows and where its databases are.
//
//	chart's values ─► ConfigMap ─► --config FILE ──Read──► Config, checked once
//
// What it decides:
//
//   - An unknown key, a value that cannot be read or a bound below zero is refused, with the key: a program that starts with half of
//     what somebody wrote is worse than one that does not start.
//   - What the file leaves out has the default of the chart, so that an empty file is a good one.
package config
