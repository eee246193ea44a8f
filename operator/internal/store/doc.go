// SPDX-License-Identifier: Apache-2.0

// Package store keeps the results of Scans in S3-compatible object storage.
//
// It decides the key of each object (Layout), presigns URLs for the pods of a Scan, removes the
// objects of a deleted Scan, and checks whether the storage can be used at all. The operator never
// reads an object's content.
package store
