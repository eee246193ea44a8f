// SPDX-License-Identifier: Apache-2.0

// Package findingqueries serves FindingQuery and ClusterFindingQuery: kinds that are created and never stored. The answer
// is the created object with its status.
//
//	POST ─► admission ─► shelf ─► gate: 4 at once, 1 waiting for each user ─► answer.Answerer ─► status, 201
//
// What it decides:
//
//   - A FindingQuery is answered from the namespace of its request only, a ClusterFindingQuery from all.
//   - A question that cannot be answered as it is: 422 with the field, and the position within an expression. One that
//     takes too long: 504 with the terms that no index serves. More questions than may wait: 429.
//   - A dry run reads the question and answers nothing.
//   - Who asks for what another one waits for already waits for the same answer. One that took 5 ms or more is given again as long as nothing is
//     written, to whoever asks the same about the same scope: a large database is not counted anew for each of those who look at once. Groups
//     and trends of 50 ms or more are given again after a write, too, for a hundred times as long as they took, half a minute at the most.
//     status.asOf says of which state an answer is. Who may ask is decided with each request, before this. Further pages, and rows beyond 100,
//     are always asked for.
//   - Both kinds share one gate, so that a tenant cannot get around its bound by asking the other kind.
package findingqueries
