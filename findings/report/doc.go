// SPDX-License-Identifier: Apache-2.0

// Package report makes reports of the findings of a Scan: a page of HTML that works by itself, SARIF, JUnit, CSV and
// Markdown. The hook persistence-static-report stores them, the command line prints them.
//
//	Input (source, Scan, comparison) ─► New: counts, what fits in the page ─► Write: one format, any number of times
//
// What it decides:
//
//   - Nothing is held whole: a source is read once by New and once more by each format. The page has the first findings
//     by severity, up to a number and a size; SARIF, JUnit and CSV have all; Markdown, which is for reading, the worst.
//   - Everything in findings is hostile. The page holds it as data, not as script, shows it as text only, and its
//     policy forbids every script, style and request that is not its own. Cells of CSV that a spreadsheet would calculate
//     begin with an apostrophe, see [Inert]. What XML and Markdown give a meaning is escaped, see [Plain].
//   - A filter (Keep) takes effect before anything is counted, so that a report and its sums agree.
//   - The same findings make the same reports, so that writing them again after a retry changes nothing.
package report
