// SPDX-License-Identifier: Apache-2.0

// Package retry is the one loop by which programs in a scan's pod try again.
//
//	loop := policy.Begin()
//	for {
//		err := attempt()
//		if err == nil || !mayPass(err) {
//			return err
//		}
//		if err := loop.Wait(ctx, err, retryAfter); err != nil {
//			return err
//		}
//	}
//
// What it decides:
//
//   - Pauses double from the first to the longest. At least half of a pause is kept and the rest is chance, so that many
//     programs that failed together do not come back together.
//   - Attempts and time are bounded together. A pause that would end after the budget is not begun: waiting would delay the
//     error and could not help.
//   - A server that asks for a longer pause gets that pause, within the budget.
//   - Progress begins the count anew. A download of hours survives many short faults, and ends in one long fault.
//   - Which errors may pass is for the caller to say: a loop sees only errors for which trying again makes sense.
//
// The loop is not taken from cenkalti/backoff or hashicorp/go-retryablehttp. Their clocks are private, so faults could be
// tested only by waiting for them. Neither loop can be held open between two calls of Read, neither counts from the last
// progress, and in backoff a Retry-After replaces the pause and resets its growth. What would be left to take from them is
// the one line that doubles a number.
package retry
