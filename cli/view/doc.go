// SPDX-License-Identifier: Apache-2.0

// Package view decides what is shown of a Scan: pure functions from objects of the API to phases with
// their times, findings by severity, and the next steps of the user. The commands only print the result.
package view
