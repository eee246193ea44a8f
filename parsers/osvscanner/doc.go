// SPDX-License-Identifier: Apache-2.0

// Package osvscanner is the parser of osv-scanner's JSON report (--format json), result type osv-scanner-json.
//
// What it decides:
//
//   - One finding per package and group: osv-scanner groups the advisories that speak of the same vulnerability (a GHSA
//     and its CVE), and counts them as one itself. An advisory that is in no group makes a finding of its own.
//   - A package with licences that are not allowed, and one that is deprecated, make one finding each, if osv-scanner was
//     asked to look for them.
//   - Severity is that of the group's max_severity, a CVSS score; else of the highest score that the CVSS vectors of its
//     advisories give; else the word in their database_specific.severity; else HIGH if it is an advisory of a malicious
//     package (MAL-…); else INFORMATIONAL, since it has no rating. A licence that is not allowed is LOW: it is no
//     danger, but a user has to decide. A deprecated package is INFORMATIONAL.
//   - What osv-scanner's call analysis says is an attribute and does not change the severity.
//   - The lock file of packages can come behind them (tools that sort keys do that), so the report is read twice: once
//     for the sources, up to Limits.MaxHeld, and once for the packages, one at a time.
package osvscanner
