// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line: the root command, with its groups and global flags, and the code that
// turns an error into a message and an exit code. Each group of commands is a package below it; all use
// package session.
package cli
