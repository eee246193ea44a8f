// SPDX-License-Identifier: Apache-2.0

// Package gobuild decides how Go programs are built for images: static, for the image's platform, without paths
// or times of the machine, so that the same source and the same Go release give the same bytes.
//
// Programs of this repository are built in its workspace; tools come from the Go module proxy at the version of
// a recipe, and are held against the checksum in its lock.
package gobuild
