// SPDX-License-Identifier: Apache-2.0

// Package manifest makes images of the documents that a registry gives for a reference: indexes, manifests, configs. It is pure:
// discovery and the preview ask the same function, which asks for documents by a function of theirs.
//
//	top digest ──Images──► index ─► entries ─► manifest ─► config ─► Image, or a Skipped with its reason
//
// What it decides:
//
//   - Documents come from strangers. Names of members are taken as they are written, a document has to have its digest, and sizes,
//     depths and numbers have bounds.
//   - A broken document is one skipped entry and a warning; its neighbours are images all the same.
//   - The platform that an index tells spares the document of one that is not selected; where the index tells none, the config does.
package manifest
