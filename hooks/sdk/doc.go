// SPDX-License-Identifier: Apache-2.0

// Package sdk is the base of every hook. A hook is a container that the operator starts after parsing; the SDK turns the
// container's arguments and environment into a [Session] and the session's outcome into an exit code.
//
//	args: raw GET, findings GET [, raw PUT, findings PUT]     env: the Scan, the hook's own
//	                      │
//	  Run ── read Scan ──► Handler.Handle(Session) ──► exit 0, or one sentence on stderr and in the pod's status, exit 1
//	                         │ Findings       stream in
//	                         │ Deliver        stream in ─► batches ─► remote service, retried until all is accepted
//	                         │ EditFindings   stream in, stream out: count ─► PUT findings ─► report the counts
//	                         └ UpdateRawResult                                 PUT raw result, status untouched
//
// What it decides:
//
//   - Nothing is held whole in memory. Storage needs the length before the first byte, and the pod has no disk; so findings
//     that fit into a small buffer are sent from there, and larger ones are made twice: once to count and once to send. The
//     two must be equal byte for byte, which a checksum proves.
//   - The operator hands the Scan over in the environment, and reads counts and conditions from the container's termination
//     message (packages handover and outcome). Then no request goes to the Kubernetes API. If the environment has no Scan, as
//     under secureCodeBox's operator, the Scan is read by the API, and counts are a merge patch of its status.
//   - Findings of a Scan that was handed over must have the digest that the operator knows, see [ErrFindingsChanged]. Up to a
//     megabyte is checked before the first finding is handed out, more while it is read. A hook that may write findings does
//     not check: an earlier try of its own may have written, and then been killed.
//   - Status counters are written after the upload, never before, and categories that are gone are set to null, since a
//     merge patch would keep them for ever.
//   - A status other than success of a download or an upload is an error. A hook without an upload URL that writes
//     nevertheless fails with [ErrReadOnly].
//   - The API server may be away for minutes; reads and patches are retried until it is back. Package delivery retries the
//     hook's own requests to third parties, through [Session.Sender] and [Session.Deliver].
//   - A killed Job starts the hook from the beginning. No state says how far the hook came, since only the remote service
//     knows what arrived; instead everything that is sent has the same name each time: [Session.FindingID] for document ids,
//     [Session.Key] for idempotency keys. Remote services that use either accept each finding once, others at least once.
//   - [Session.Compare] finds what is new by the findings of the previous run, which the operator names in
//     PREVIOUS_FINDINGS_URL: a hook may read its own Scan only and cannot reach others.
//   - Credentials come from variables or, with _FILE after the name, from files; see [Env.Secret].
//   - URLs in arguments are credentials. They never reach a log, an error or the pod's status with their query.
package sdk
