// SPDX-License-Identifier: Apache-2.0

// Package objectstore runs the cluster's S3 server: versitygw's API over a
// plain folder, with one root account and one bucket that exists from the
// start. Metadata goes into extended attributes where the file system has
// them, and into a folder beside the objects where it does not.
package objectstore
