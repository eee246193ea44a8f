// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"io/fs"
	"syscall"
	"time"
)

// usedAt is when a file was read last, as far as the file system keeps that, or written.
func usedAt(info fs.FileInfo) time.Time {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.ModTime()
	}
	if read := time.Unix(stat.Atim.Unix()); read.After(info.ModTime()) {
		return read
	}
	return info.ModTime()
}
