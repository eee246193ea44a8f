// SPDX-License-Identifier: Apache-2.0

// Package retry is the one loop with which programs in a scan's pod retry.
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
//   - Pauses double from the first to the longest. At least half of a pause is kept and the rest is random, so that many
//     programs that failed together do not come back together.
//   - Attempts and time are bounded together. A pause that would end after the budget does not begin: waiting would delay
//     the error and could not help.
//   - A server that asks for a longer pause gets that pause, within the budget.
//   - Progress resets the count. A download of hours survives many short faults, and ends with one long fault.
//   - The caller decides which errors may pass: a loop gets only errors for which a retry makes sense.
//
// The loop is not from cenkalti/backoff or hashicorp/go-retryablehttp. Their clocks are private, so tests of faults would
// have to wait. Neither loop can be held open between two calls of Read, neither counts from the last progress, and in
// backoff a Retry-After replaces the pause and resets its growth. Only the line that doubles a number would be left to take
// from them.
package retry
