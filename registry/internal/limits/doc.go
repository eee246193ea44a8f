// SPDX-License-Identifier: Apache-2.0

// Package limits decides how fast a host may be asked, and when not at all. It is pure but for a lock: the time and the chance are
// arguments.
//
//	request ──Item.Next──► wait | PausedError (the step ends, notBefore)
//	answer  ──Item.Observe, Throttled, Failed──► what the next request has to wait for
//
// What it decides:
//
//   - An item in flight has a share of its host as a token bucket of its own. A worker that hears nothing for 30 s takes an eighth
//     of the host, the least share that an item may have, so that silence never makes a host busier.
//   - What a registry asks for by 429 or 503 holds for all items of the account: up to a minute is waited for, longer ends the step.
//   - Near the end of an allowance GETs of manifests are spread over the rest of its window, and stop where nothing is left. HEADs do
//     not count there and go on.
package limits
