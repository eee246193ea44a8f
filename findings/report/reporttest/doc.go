// SPDX-License-Identifier: Apache-2.0

// Package reporttest is what tests of reports share: the schema of SARIF as OASIS publishes it, findings as scanners
// make them, and findings that try to be more than text. Nothing but tests imports it.
package reporttest
