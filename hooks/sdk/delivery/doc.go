// SPDX-License-Identifier: Apache-2.0

// Package delivery sends what a hook has to say to a far end that may be slow, away, overloaded or picky.
//
//	Client.Do ── attempt ── every answer checked ──► done
//	   ▲            │ no connection, silence, half an answer, 408, 425, 429, 5xx but 501
//	   └── pause ◄──┘ doubling, with jitter, at least Retry-After
//
//	Batcher ── Add, Add, … ── batch full ──► Send ──► all taken
//	                                          ▲  │ some may be taken later
//	                                          └──┘ those only, after a pause
//
// What it decides:
//
//   - Attempts and the time spent between the first and the last are bounded, closely so until the far end has answered well
//     once: a pod that fails tells its Scan why, one that goes on trying cannot. A far end that asks to be left alone for
//     longer than a pod should wait ends the run; the hook's Job comes again later.
//   - Silence is bounded, not the whole duration: every piece of the request that goes out sets the clock back, and the
//     answer must come as a whole within one timeout after the last piece.
//   - A request is the same each time, so its body is something that can be opened again. It carries an Idempotency-Key
//     made of what the Scan, the hook and the content are, never of a clock or of chance: a Job that is started again
//     after a kill sends the same keys.
//   - Redirects are not followed. Credentials would go to another host, and most redirects turn a POST into a GET.
//   - Errors name the far end, its host, the status and a short excerpt of what it said. Nothing that was sent as a
//     credential is in them: queries, user information, paths, headers and what looks like a token are taken out.
//   - Signatures follow Standard Webhooks 1.0 (webhook-id, webhook-timestamp, webhook-signature).
//   - Trying again is the loop of podkit/retry, whose clock tests supply.
package delivery
