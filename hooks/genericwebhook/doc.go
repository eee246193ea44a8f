// SPDX-License-Identifier: Apache-2.0

// Package genericwebhook is a ReadOnly hook that POSTs a finished Scan with its findings to an address:
// `{"scan": …, "findings": […]}`, both exactly as they are stored.
//
// What it decides:
//
//   - The body is streamed and has a Content-Length; memory does not grow with the findings. WEBHOOK_BATCH_SIZE sends
//     several smaller ones instead, WEBHOOK_TEMPLATE makes something else of them.
//   - A header with an API key wins over basic authentication; half of either counts as none.
//   - Any answer but 2xx is a failure. What may pass is tried again, see package delivery. Redirects are not followed:
//     after most of them the body would be lost while the answer looks like success.
//   - A request has the same Idempotency-Key in every attempt, also after a restart of the Job, so that a receiver
//     that remembers keys takes each finding once. For one that does not, it is at least once.
//   - With a signing secret each attempt is signed as Standard Webhooks 1.0 says.
//   - No address is printed beyond its host, since many carry a secret in their path.
package genericwebhook
