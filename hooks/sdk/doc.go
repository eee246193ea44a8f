// SPDX-License-Identifier: Apache-2.0

// Package sdk is what every hook is built on. A hook is a container that the operator starts after parsing; the SDK
// turns its arguments and environment into a [Session] and the session's outcome into an exit code.
//
//	args: raw GET, findings GET [, raw PUT, findings PUT]     env: the Scan, the hook's own
//	                      │
//	  Run ── read Scan ──► Handler.Handle(Session) ──► exit 0, or one sentence on stderr and in the pod's status, exit 1
//	                         │ Findings       stream in
//	                         │ Deliver        stream in ─► batches ─► far end, again and again until it has them
//	                         │ EditFindings   stream in, stream out: count ─► PUT findings ─► tell the counts
//	                         └ UpdateRawResult                                 PUT raw result, status untouched
//
// What it decides:
//
//   - Nothing is held whole in memory. Storage wants to know the length before the first byte, and the pod has no disk
//     to write to; so findings that fit in a small buffer go out from there, and larger ones are made twice: once to
//     count and once to send. The two must be byte for byte the same, which a checksum holds.
//   - The operator hands the Scan over in the environment, and is told counts and conditions by the container's last words
//     (packages handover and outcome). Then nothing is asked of the Kubernetes API. Where the environment has no Scan, as
//     under secureCodeBox's operator, the Scan is read by the API, and counts are a merge patch of its status.
//   - Findings of a Scan that was handed over must be those bytes that the operator was told, see [ErrFindingsChanged].
//     What fits into a megabyte is checked before the first finding is handed out, more while it is read. A hook that
//     may write them does not check: an earlier try of its own may have written, and then been killed.
//   - Status counters are written after the upload, never before, and categories that are gone are set to null, since a
//     merge patch would keep them for ever.
//   - A status other than success of a download or an upload is an error. A hook that the operator gave no upload URL
//     and that writes nevertheless fails with [ErrReadOnly].
//   - The API server may be away for minutes; reads and patches are repeated until it is back. What the hook itself
//     does to third parties is repeated by package delivery, through [Session.Sender] and [Session.Deliver].
//   - A Job that is killed starts the hook from the beginning. There is no memory of how far it came, since nothing but
//     the far end knows what arrived; instead everything that is sent has the same name each time: [Session.FindingID]
//     for document ids, [Session.Key] for idempotency keys. Far ends that know either take each finding once, others at
//     least once.
//   - What is new is told by [Session.Compare] from the findings of the previous run, which the operator names in
//     PREVIOUS_FINDINGS_URL: a hook may read its own Scan only and has no way to others.
//   - Credentials come from variables or, with _FILE after the name, from files; see [Env.Secret].
//   - URLs in arguments are credentials. They never reach a log, an error or the pod's status with their query.
package sdk
