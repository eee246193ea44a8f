// SPDX-License-Identifier: Apache-2.0

// Package source is how an adapter reads what a worker gives it: the documents and layers of an image, the artifact of a database.
//
//	worker's proxy or OCI layout ─► bytes with the digest ─► gzip, zstd, or plain ─► within the bounds ─► archive with the diffID
//
// What it decides:
//
//   - Nothing is believed before its sum is right: a document is read whole first; what an engine has made of a layer counts only when
//     the blob had its digest, and the archive its diffID.
//   - The form of a layer is told by its first bytes, whatever its media type says.
//   - The bounds of hostile content hold while it is read: bytes, ratio, files, length of paths. A broken image is InvalidInput, which is
//     for good; a proxy that does not answer is not.
//   - A name of an archive is a name only. One that leads out of the image is none.
//   - A database is a directory of one version: made aside and renamed, so it is complete or not there.
package source
