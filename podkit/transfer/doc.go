// SPDX-License-Identifier: Apache-2.0

// Package transfer moves raw results and findings between a container of a Scan and the object store, by the
// presigned URLs that the container was given. The lurker, the parser SDK and the hook SDK use it.
//
// What it decides:
//
//   - A presigned URL is a secret. [URL] prints without its query, and no error of this package carries one.
//   - A passing fault is waited out: connection errors, 5xx, 408, 429 and their S3 kin are tried again with growing,
//     jittered pauses until the patience is used up. What cannot get better (403, 404, a bad certificate) fails at once.
//   - A download that breaks off goes on where it was (Range), only if the object is still the same (If-Match).
//     The patience starts anew with every byte of progress.
//   - An upload has an exact Content-Length, also 0, is never chunked, and sends "content-type" with an empty value,
//     which is what the presigned URLs of the contract expect. Its source is opened anew for each attempt.
//   - There is no limit on the whole duration; silence on the wire is limited instead.
package transfer
