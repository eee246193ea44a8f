// SPDX-License-Identifier: Apache-2.0

// Package exception says which findings are excepted: accepted for a time, false, not exploitable, mitigated, or looked into.
//
//	FindingExceptions of the namespace ─┐
//	ClusterFindingExceptions ───────────┴► Compile ─► Matcher ─► For(scan) ─► Selection ─► Match(finding) ─► Mark
//
// An exception never removes evidence: findings.json stays as it is. What is made of findings (counts, verdicts, hooks,
// reports, pages) asks here, so that all places answer alike.
//
// What it decides:
//
//   - The first exception that matches wins: one of the namespace before one of the cluster, one that names the finding's
//     fingerprint before a broader one, then by name.
//   - An entry of spec.match.anyOf is met where each of its fields is met, and a list where one of its elements is.
//     Texts are compared as a whole; globs have * for any run of characters and ? for one; references and severities are
//     compared without their case.
//   - What holds is decided once, by the time that [Compile] is given: an end that passes during a run changes nothing.
//   - An exception that does not compile matches nothing and fails nothing. [Matcher.Problems] names it and the field.
//   - Packages are those of attributes.purl. Products are attributes.digest, a digest in the location, and the location
//     without its scheme.
//
// Exceptions are found by hash where they name fingerprints, references or whole texts, by their literal beginning where
// they have globs; CEL comes last. 1,000 exceptions cost a finding about as much as one: see BenchmarkMatch.
package exception
