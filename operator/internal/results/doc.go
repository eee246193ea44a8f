// SPDX-License-Identifier: Apache-2.0

// Package results serves callers that forward results of Scans: it answers with the URL of a file, and decides whether results may be removed.
//
// Only the operator knows buckets, prefixes and credentials of tenants. RBAC decides who may call, by the right on scans/results in the
// namespace of the Scan:
//
//	token ─► TokenReview ─► SubjectAccessReview ─► Scan, by UID ─► storage
//
// For each request to remove results the handler reads the Scan, settings and storage anew, without a cache; a pure function of what was read
// decides. The annotation that is written then is the point of no return: the life of the Scan removes the results.
//
// Answers are not logged, since a URL in an answer gives access to the results.
package results
