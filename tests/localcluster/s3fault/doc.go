// SPDX-License-Identifier: Apache-2.0

// Package s3fault stands between clients and an S3 server and, while switched
// on, answers every request with 503, as a store does that is overloaded or
// down. While off it passes requests on unchanged: the Host header stays the
// one that clients signed, so that signatures and presigned URLs hold.
package s3fault
