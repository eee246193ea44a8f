// SPDX-License-Identifier: Apache-2.0

// Package export writes the findings of a Registry's images as one document, the raw result of a Scan.
//
//	Registry ─► its present Images, by name ─► the findings of each report, streamed ─► {"schema", "registry", "images": [{…, "findings": […]}]}
//
// What it decides:
//
//   - What is held in memory is a line for each image, never a finding: a document of any size takes the same.
//   - What is said of an image comes before its findings, so that whoever reads the document reads it once.
//   - Findings that an exception or a VEX statement accepts are left out; the server of reports has decided that.
//   - A report that somebody deletes meanwhile is one without findings. Any other error ends the export: half a document would say
//     that the rest is fixed.
package export
