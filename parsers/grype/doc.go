// SPDX-License-Identifier: Apache-2.0

// Package grype is the parser of grype's JSON report (grype -o json), result type grype-json: one finding per match of
// a vulnerability with a package.
//
// What it decides:
//
//   - What was scanned stands behind the matches, so the report is read twice: once for the source, passing over the
//     matches, and once for them, one at a time.
//   - Severity is the word that grype writes, which is that of the vulnerability's data source (the distributor's own
//     rating, if the package is a distributor's): Critical and High are HIGH, Negligible is INFORMATIONAL. Where it is
//     Unknown or missing, the highest CVSS base score decides. Without one a malicious package (MAL-…) is HIGH, and
//     anything else INFORMATIONAL.
//   - Attributes hold the highest CVSS score with its vector. Matches on one's ignore list (ignoredMatches) are no
//     findings.
package grype
