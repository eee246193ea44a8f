// SPDX-License-Identifier: Apache-2.0

// Package registry keeps Registries: whether one may be worked for, when its jobs start, and which ended ones go.
//
// A pass has three parts: observe reads, Decide (pure) decides, act writes. Nothing polls: a pass is brought by a change, or by the time
// at which a job becomes due.
//
// What it decides:
//
//   - What can be seen in the spec alone is checked here again, since the webhook fails open: Ready is False with the field.
//   - A Registry that cannot work starts no job. One that waits for the reports API or for the queue does: its jobs say what they wait for.
//   - Registries beyond the namespace's quota wait, the youngest first.
package registry
