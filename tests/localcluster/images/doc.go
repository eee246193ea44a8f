// SPDX-License-Identifier: Apache-2.0

// Package images decides what an image name stands for on this machine:
//
//	mapping file ──► the machine's own programs, under an image's name
//	images folder ─► OCI layouts and docker archives, unpacked once per digest
//	neither ───────► ErrNotFound, which a pod shows as ErrImagePull
//
// The mapping wins, so that a name can be replaced without touching archives.
package images
