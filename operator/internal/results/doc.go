// SPDX-License-Identifier: Apache-2.0

// Package results answers those who forward results of Scans: where a file can be read.
//
// Buckets, prefixes and credentials of tenants stay where they are understood. Who may ask is said by RBAC, by the right on
// scans/results in the namespace of the Scan:
//
//	token ─► TokenReview ─► SubjectAccessReview ─► Scan, by UID ─► storage
//
// What is answered is in no log, since whoever has such a URL reads the results.
package results
