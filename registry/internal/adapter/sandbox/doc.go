// SPDX-License-Identifier: Apache-2.0

// Package sandbox starts a program that can do less than the one that starts it. An adapter looks at what strangers have made, and must
// be taken for theirs.
//
//	worker ── starts itself: adapter-exec POLICY PROGRAM ──► limits, no_new_privs, Landlock ── execve ──► adapter
//
// What it decides:
//
//   - A Go program cannot run code of its own between fork and exec, so the worker's own program comes first, confines itself, and
//     becomes the adapter.
//   - With Landlock a program reads, writes and connects only as its policy says. It does not reach the token of the pod's account.
//   - Kernels without Landlock, or with one that knows no TCP, confine nothing (Prefer), or the program does not start (Require).
//   - Landlock holds plain TCP only. A filter of system calls takes all other sockets: MPTCP, UDP, those with a file.
package sandbox
