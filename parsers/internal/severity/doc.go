// SPDX-License-Identifier: Apache-2.0

// Package severity turns the words and scores that scanners rate with into the four severities of a finding.
//
// What it decides:
//
//   - Scores are CVSS: 7.0 and more is HIGH, 4.0 and more MEDIUM, anything above 0 LOW, 0 INFORMATIONAL. Those are the
//     bands of CVSS 3 and 4 (and of GitHub's code scanning), whose critical has no counterpart here and is HIGH too.
//   - "Negligible", "none", "info" and "unknown" are INFORMATIONAL: no source says that there is a danger.
package severity
