// SPDX-License-Identifier: Apache-2.0

// Package command is the command line of reports-apiserver.
//
//	reports-apiserver [serve] ─┬─► in a cluster: kube-apiserver says who may do what
//	                           └─► --standalone: a door on this machine, for tests and for trying
//
// What it decides:
//
//   - The name of a database with its password comes from a file or from REPORTS_DSN, never from a flag.
//   - The stand-alone door is on an address of this machine only.
//   - The exit code tells why the database cannot be used: 1 unusable, 3 in use by another process, 4 of a newer program.
//     A check that has found something wrong, and left it so, ends with 2.
package command
