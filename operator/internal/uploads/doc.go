// SPDX-License-Identifier: Apache-2.0

// Package uploads gives a lurker a fresh upload URL when its first one has expired.
//
// A presigned URL is in the arguments of a scanner pod from its start, and lives as long as
// URL_EXPIRATION_SCAN, or as the session of temporary credentials. A scan may take days. The endpoint of
// this package takes the token that the API server bound to a pod, has the token reviewed, and responds
// with a URL for the raw result of the one Scan that the pod works for, and only while that Scan is being
// scanned.
package uploads
