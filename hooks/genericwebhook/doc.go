// SPDX-License-Identifier: Apache-2.0

// Package genericwebhook is a ReadOnly hook that POSTs a finished Scan with its findings to an address:
// `{"scan": …, "findings": […]}`, both exactly as they are stored.
//
// What it decides:
//
//   - The body is streamed and has a Content-Length; memory does not grow with the findings.
//   - A header with an API key wins over basic authentication; half of either counts as none.
//   - Any answer but 2xx is a failure. Redirects are not followed: after most of them the body would be lost while the
//     answer looks like success.
//   - A receiver that is away for a moment is tried again, three times at most: no connection, 429, 502, 503 and 504.
//     Other answers come from the receiver itself and end the run at once; the Job tries again later. A receiver may
//     therefore get the same Scan more than once.
//   - No address is printed beyond its host, since many carry a secret in their path.
package genericwebhook
