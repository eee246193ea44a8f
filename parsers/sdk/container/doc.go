// SPDX-License-Identifier: Apache-2.0

// Package container runs a parser in the pod of a Scan, as the operator starts it: two presigned URLs as arguments and
// the Scan in the environment. Operators that do not hand the Scan over, as that of secureCodeBox, give its name and
// namespace instead, and a token of the service account "parser" to read and patch it.
//
//	Scan ──► pick parser by status.rawResultType ──► parse (count) ──► upload findings ──► termination message (or patch status)
//	                                                    │ small: kept          ▲
//	                                                    └ large: ──── parse again, as the upload's source
//
// What it decides:
//
//   - Nothing is written to disk; the root file system is read-only. Findings up to Config.BufferLimit are kept in
//     memory. Beyond it the result is parsed once to learn the size, since a presigned PUT wants a Content-Length, and
//     once more while it is sent. What a parser encrypts differs in the second run, but not in size or id: a PUT stores
//     all of one run or nothing, so what is stored is whole.
//   - The findings are stored before the status counts them, so that a retry never leaves counters without findings.
//     Counters of categories that an earlier run had and this one has not are removed.
//   - With a Scan that was handed over, no request goes to the Kubernetes API: the counts, and the digest of the stored
//     bytes, are in the container's termination message, which the operator reads from the pod's status (package outcome).
//   - Faults of the API server and the store are retried for minutes. Permanent errors end the run at once, with one
//     sentence that says what to do.
//   - No ParseDefinition is read. The only thing it could say is that the raw result is binary, and here every raw
//     result is a stream of bytes. So the same image works for namespaced and cluster-wide Scans.
//   - Neither URL is ever printed.
package container
