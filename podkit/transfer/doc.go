// SPDX-License-Identifier: Apache-2.0

// Package transfer moves raw results and findings between a container of a Scan and the object store, by the
// presigned URLs that the container was given. The lurker, the parser SDK and the hook SDK use it.
//
// What it decides:
//
//   - A presigned URL is a secret. [URL] prints without its query, and no error of this package carries one.
//   - Passing faults are retried: connection errors, 5xx, 408, 429 and their S3 kin, with growing, jittered pauses until the
//     patience is used up. Permanent faults (403, 404, a bad certificate) fail at once.
//   - A download that breaks off continues where it was (Range), only if the object is still the same (If-Match).
//     Every byte of progress resets the patience.
//   - An upload has an exact Content-Length, also 0, is never chunked, and sends "content-type" with an empty value, as the
//     presigned URLs of the contract require. Its source is opened again for each attempt.
//   - There is no limit on the whole duration; silence on the wire is limited instead.
package transfer
