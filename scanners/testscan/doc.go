// SPDX-License-Identifier: Apache-2.0

// Package testscan is a scanner that scans nothing: it tries out an installation.
//
// It stands in for the command of the test-scan chart, "touch FILE", whose empty
// result its parser answers with two fixed findings. Parameters of a Scan show how
// other scanners behave: long ones, ones that fail, ones with large results.
package testscan
