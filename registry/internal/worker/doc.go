// SPDX-License-Identifier: Apache-2.0

// Package worker does the work that messages name: it lists repositories, has adapters make SBOMs and match them, and writes what
// comes of it to the reports API.
//
//	message ─► read the item ─► item.Decide ─► claim ─► step ─► upload, which ends the claim
//	   ▲                            │                     └─► judge ─► item.After ─► state, reason, notBefore
//	   └── in progress, every 20 s  └─► nothing to do: acknowledge
//
// What it decides:
//
//   - The state of the item is the truth, and the message a hint. What is lost or doubled costs a read.
//   - Who does not hold the claim any more writes nothing: a result that nobody waits for is dropped.
//   - What fails is judged in one place, by the type of the error and never by its text.
//   - A match that has ended an adapter, or a worker, is tried again by itself, so that the blame is certain.
//   - A worker that ends gives back what it has not begun, and what is not done in time; neither counts as an attempt.
package worker
