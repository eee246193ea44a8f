// SPDX-License-Identifier: Apache-2.0

// Package query reads the questions of FindingQuery and ClusterFindingQuery, and answers them over findings in memory.
//
//	spec.filter ─► Parse ─┐
//	spec.where ─► Where ──┼─► New ─► Question ─► Answer: rows or groups of findings in memory
//	since, after, kinds … ┘              └─────► SQL, by who has a database
//
// What it decides:
//
//   - An expression is a tree of And, Or, Not and Term. Its leaves are checked while they are read: a Term has a known
//     field, an operator that the field has, and values of the field's type. What reads a tree meets no other.
//   - A comparison with an absent value is false, also !=; has tests whether a value is present. An empty text counts as
//     absent. Not has two values: !(cvss > 8) is true for a finding without a score.
//   - Severities compare by their rank. In an order, an absent value is least.
//   - A mistake is reported with its position and what was expected there. Length, depth, terms and lists are bounded, so
//     that a question cannot cost more than its text shows.
//   - Printing an expression and reading it again gives the same one.
package query
