// SPDX-License-Identifier: Apache-2.0

// Package sarif is the parser of SARIF 2.1.0 logs, result type sarif: one finding per result, whatever tool wrote it.
//
//	pass 1   rules, tool, artifacts and invocations of each run ──► index
//	pass 2   results ──► findings, one at a time
//
// What it decides:
//
//   - A rule can come after the results that it describes, so the log is read twice. What the first pass keeps of rules
//     is bounded by Limits.MaxHeld: its id, heading, tags and links, never its help, which is enough for some 10,000 rules.
//     Rules that need more are an error. Half as much is kept of artifacts; if they need more, that is an error only if a
//     result has no other way to name its file.
//   - Severity: the CVSS score in the property security-severity of the result or of its rule, as GitHub reads it; else
//     the level: error is HIGH, warning MEDIUM, note LOW, none INFORMATIONAL. A result without a level has that of the
//     invocation's override, else of the rule's configuration, else warning, as the standard says (3.27.10).
//   - Kind: pass and notApplicable are not findings. informational is INFORMATIONAL. open and review are findings, with
//     the level none that the standard gives them.
//   - A result that is suppressed, or that a baseline comparison reports as absent, is not a finding.
//   - The fingerprint comes from the tool's own ones, if it writes any. Those that do not distinguish results of one rule in
//     one file apart (gitleaks writes the commit there) are taken together with the message.
//   - A run that was not successful and has no results is an error, not a clean bill.
package sarif
