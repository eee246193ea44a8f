// SPDX-License-Identifier: Apache-2.0

// Package sinks puts our sinks into a program: a line for each.
package sinks
