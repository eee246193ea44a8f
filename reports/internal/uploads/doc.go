// SPDX-License-Identifier: Apache-2.0

// Package uploads serves the documents of images as sub-resources that are streamed, and the sharing of what is there already.
//
//	PUT sboms/NAME/document ──────► staged ─► one transaction: content, packages, SBOM, status of the Image
//	PUT …reports/NAME/findings ───► staged ─► one transaction: content, rows, keys, report, status of the Image
//	POST images/NAME/reuse ─────────────────► one transaction: SBOM, report, status of the Image
//	GET document | findings | sarif | tags ─► chunk by chunk
//
// What it decides:
//
//   - An upload ends the claim of the worker in the transaction that makes the result visible. Where the claim is not the
//     stored one, nothing is visible.
//   - A report is never replaced by one of older data; without a claim, not by one of the same data either.
//   - What is attached by reuse carries nothing of the namespace where it was made.
//   - Memory does not grow with a document: a chunk, a value, and the rows of findings are all that is held.
package uploads
