// SPDX-License-Identifier: Apache-2.0

// Package store keeps the results of Scans in S3-compatible object storage.
//
// It decides where each object lies (Layout), hands out presigned URLs to the pods
// of a Scan, removes what a deleted Scan leaves, and tells whether the storage can be
// used at all. The operator never reads an object's content.
package store
