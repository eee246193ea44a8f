// SPDX-License-Identifier: Apache-2.0

// Package view decides what is shown of a Scan: pure functions from objects of the API to
// phases with their times, to the findings by severity, to what is to be done next. The
// commands only print what it says.
package view
