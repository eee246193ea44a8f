// SPDX-License-Identifier: Apache-2.0

// Package persistencestaticreport is a ReadOnly hook that writes reports of a Scan beside its findings: one page of HTML
// that works by itself, SARIF, JUnit, CSV and Markdown.
//
//	findings ─► findings/report: counts, what fits in the page ─► each format: once to learn its length, once to PUT it
//
// What it decides:
//
//   - The operator says where reports go: OUTPUT_URLS maps names of objects to presigned URLs. A hook asks for
//     them with its spec.outputs.
//   - REPORT_ variables say which reports are written, and how. What is in them, and how what is hostile in
//     findings is kept from meaning anything, is decided by package report, which the command line uses as well.
//   - The same findings make the same reports, so that writing them again after a retry changes nothing.
package persistencestaticreport
