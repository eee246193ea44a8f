// SPDX-License-Identifier: Apache-2.0

// Package results answers those who forward results of Scans: where a file can be read, and whether results may go.
//
// Buckets, prefixes and credentials of tenants stay where they are understood. Who may ask is said by RBAC, by the right on
// scans/results in the namespace of the Scan:
//
//	token ─► TokenReview ─► SubjectAccessReview ─► Scan, by UID ─► storage
//
// Results go only where everything that can be read says so at that moment, and what is read is read from the API server and
// from storage. What is judged is a pure function of that. The annotation that is written then is the point of no return: the
// life of the Scan does the rest.
//
// What is answered is in no log, since whoever has such a URL reads the results.
package results
