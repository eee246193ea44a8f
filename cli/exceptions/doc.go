// SPDX-License-Identifier: Apache-2.0

// Package exceptions has the commands of FindingExceptions, and reads which of them hold for a Scan for the commands that
// print findings.
package exceptions
