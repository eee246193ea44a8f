// SPDX-License-Identifier: Apache-2.0

// Package junit is the parser of JUnit XML reports, result type junit-xml, which many scanners and all test runners can
// write: one finding per failure and per error.
//
// What it decides:
//
//   - Passed and skipped tests are not findings, nor are runs that failed before a test passed after all (flakyFailure,
//     rerunFailure). Whether the tests were enough is not checked: a report without tests makes no findings.
//   - The format has no severity. Scanners write theirs in the type of a failure, or in brackets in front of the test's
//     name ("[HIGH] CVE-…"): where it is a word that means one, that counts. Otherwise a failure is MEDIUM, as it says
//     that something is not as its author wants it, and an error is LOW: the test could not be done.
//   - The format has no schema that all tools follow. testsuites, testsuite and testcase may be nested in any way; what
//     else there is is passed over, such as what the tests have printed. That can hold secrets, and is large.
//   - The text of a failure is kept up to 64 KiB.
//   - The suite's hostname is that of the machine that ran the tests. It is not an attribute: cascading rules would scan
//     that machine.
//   - The report is read once, tag by tag.
package junit
