// SPDX-License-Identifier: Apache-2.0

// Package answer answers the questions of FindingQuery and ClusterFindingQuery from the rows of results and their rollups.
//
//	Input ─► question (findings/query) ─► ids of its texts ─► plan ─► counts │ daily │ history │ results ─► status
//
// What it decides:
//
//   - The scope of who asks bounds every statement, whatever the question says.
//   - What clients say are parameters of statements, never their text. Columns come from one table of names.
//   - Texts are compared by the number that the dictionary has for them; one that has none is in no finding.
//   - counts and daily answer where all fields, groups and aggregates of the question are theirs, results all else. A
//     trend is answered by daily only, because results do not tell what was there yesterday; what was fixed, and how long
//     that took, by history.
//   - An order is ended by the place of the row: namespace, object, index, in the direction of the last key, as indexes
//     have them. A page begins behind the values of the last row of the page before.
//   - A token of a next page belongs to one question and one scope. Since counts back from the time of the first page.
package answer
