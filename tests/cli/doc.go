// SPDX-License-Identifier: Apache-2.0

// Package cli tests the command line as a user types it: the built binary, a whole local
// cluster with the operator installed by Helm, a user with the shipped roles of a team,
// with pipes and on a pseudo terminal. What it prints is compared with files, in which
// times, UIDs and hashes are replaced.
package cli
