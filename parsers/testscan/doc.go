// SPDX-License-Identifier: Apache-2.0

// Package testscan is the parser of the test-scan scanner, result type test-txt. It does not read the raw result and
// always makes the same two findings, so that hooks and installations can be tried out.
package testscan
