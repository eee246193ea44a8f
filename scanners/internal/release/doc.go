// SPDX-License-Identifier: Apache-2.0

// Package release decides what a release is made of: which files, images and charts there are, what they are called, what stands in the
// changelog and in the charts, and what is in the way. It has no client, no clock and no environment; cmd/release observes and acts.
package release
