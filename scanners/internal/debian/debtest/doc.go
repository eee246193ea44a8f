// SPDX-License-Identifier: Apache-2.0

// Package debtest makes Debian packages and a signed Debian archive for tests, and serves it on this machine, so that
// tests need no mirror. What it makes is as real as it gets without dpkg: ar, compressed tar, Packages, InRelease with
// an OpenPGP signature by a key of its own.
package debtest
