// SPDX-License-Identifier: Apache-2.0

// Package delivery sends data of a hook to a remote service that may be slow, away, overloaded or picky.
//
//	Client.Do ── attempt ── every response checked ──► done
//	   ▲            │ no connection, silence, half a response, 408, 425, 429, 5xx but 501
//	   └── pause ◄──┘ doubling, with jitter, at least Retry-After
//
//	Batcher ── Add, Add, … ── batch full ──► Send ──► all accepted
//	                                          ▲  │ some may be accepted later
//	                                          └──┘ those only, after a pause
//
// What it decides:
//
//   - Attempts and the time between the first and the last are bounded, more tightly until the remote service has responded
//     well once: a pod that fails shows the reason in its Scan, one that keeps retrying cannot. A service that asks for a
//     longer pause than a pod should wait ends the run; the hook's Job retries later.
//   - Silence is bounded, not the whole duration: every piece of the request that is sent resets the clock, and the response
//     must be complete within one timeout after the last piece.
//   - A request is the same in each attempt, so its body must be one that can be opened again. It carries an
//     Idempotency-Key made from the Scan, the hook and the content, never from a clock or a random number: a Job that is
//     started again after a kill sends the same keys.
//   - Redirects are not followed. Credentials would go to another host, and most redirects turn a POST into a GET.
//   - Errors name the remote service, its host, the status and a short excerpt of its response. They contain no credential of
//     the request: queries, user information, paths, headers and texts that look like a token are removed.
//   - Signatures follow Standard Webhooks 1.0 (webhook-id, webhook-timestamp, webhook-signature).
//   - Retries use the loop of podkit/retry, with a clock that tests supply.
package delivery
