// SPDX-License-Identifier: Apache-2.0

// Package persistencestaticreport is a ReadOnly hook that writes reports of a Scan beside its findings: one page of HTML
// that works by itself, SARIF, JUnit, CSV and Markdown.
//
//	findings ─► survey: counts, what fits in the page ─► each format: once to learn its length, once to PUT it
//
// What it decides:
//
//   - Where reports go is told by the operator: OUTPUT_URLS maps names of objects to presigned URLs. A hook asks for
//     them with its spec.outputs.
//   - Nothing is held whole. The page has the first findings by severity, up to a number and a size; SARIF, JUnit and CSV
//     have all.
//   - Everything in findings is hostile. The page holds it as data that is no script, shows it as text only, and its
//     policy forbids every script, style and request that is not its own. Cells of CSV that a spreadsheet would calculate
//     begin with an apostrophe. What XML and Markdown give a meaning is escaped.
//   - The same findings make the same reports, so that writing them again after a retry changes nothing.
package persistencestaticreport
