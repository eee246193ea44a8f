// SPDX-License-Identifier: Apache-2.0

// Package persistencedefectdojo is a hook that imports results into DefectDojo and, where it may write, brings back
// what DefectDojo knows about the findings.
//
//	annotations ─► product type ─► product ─► engagement ─► test ◄─ reimport ─ raw result, or findings as generic import
//	 of the Scan    (found by name, made where missing)      │
//	                                                         └─► its findings ─► attributes of ours
//
// What it decides:
//
//   - Every run of a ScheduledScan is reimported into the same test, so DefectDojo sees what is new, what is there again
//     and what is gone, instead of the same findings once per run. A test belongs to one target: children of a cascade
//     get one each, named by rule and parameters, since a reimport closes what the report does not hold.
//   - What is made is looked for first, after every failed attempt too, so that an answer lost on the way makes nothing
//     twice. Where two hooks made the same at the same time, both take the older one.
//   - The raw result goes up where DefectDojo has a parser for it, by the exact name of the ScanType. Everything else
//     goes up as a generic import. Both are streamed.
//   - Findings stay what they are when DefectDojo's view of them is brought back: attributes are added, nothing is
//     taken away, so cascading rules still match. Findings that cannot be recognized do not change.
//   - An import may take minutes; it has a patience of its own.
package persistencedefectdojo
