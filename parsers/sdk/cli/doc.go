// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of the parser binary: parse, list, version, and the container mode, which two URLs
// as arguments start.
//
// It decides how a run ends: 0 or 1, and the last line on standard error is one sentence that says what went wrong. In
// a pod the same sentence goes to the termination log, where the operator finds it for the Scan's condition.
package cli
