// SPDX-License-Identifier: Apache-2.0

// Package semgrep is the parser of semgrep's JSON report, result type semgrep-json: one finding per result.
//
// What it decides: the severity comes from the rule's (ERROR, WARNING, else informational), the category from the
// rule's metadata. The number of the weakness is what stands at the fifth and sixth character of cwe, which clients of
// the format know: CWE-94 is 94, but CWE-1234 is 12. Results are read one at a time. A result without place, extra or
// metadata makes the report unreadable; a report without results holds no findings.
package semgrep
