// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line: the root command, with its groups and global flags,
// and what turns an error into a message and an exit code. Each group of commands is a
// package below it; all stand on package session.
package cli
