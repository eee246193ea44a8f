// SPDX-License-Identifier: Apache-2.0

// Package site completes what Hugo has made of the documentation: it finds links that lead nowhere, makes the index that the pages search
// in, and decides which versions there are. It reads and writes no files; cmd/site does.
package site
