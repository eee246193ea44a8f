// SPDX-License-Identifier: Apache-2.0

// Package item decides what a worker does with an item that a message names, and what becomes of the item after a try. It is pure:
// the item's state decides, never the message, and never what the worker remembers.
//
//	Observation ──Decide──► Decision: a row of the table, an action    (before a try; first row that fits)
//	Tried    ──After───► Next: state, counts, when it may begin     (after a try)
//
// The states of an image are Pending → GeneratingSBOM → WaitingForMatch → Matching → Scanned, those of a repository
// Waiting → Working → Done; aside are Failed, Quarantined and Skipped.
//
// What it decides:
//
//   - A claim whose holder has not spoken is taken over, and counts as lost before anything else is decided: an item that its
//     workers do not survive is quarantined by whoever sees it next, not tried once more.
//   - What is away (database, quota, host) is not a try: the item stays as it is, and the controller asks again.
//   - A refusal by 401 or 403 and a limit of requests give the try back: they are not a fault of the item.
package item
