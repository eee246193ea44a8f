// SPDX-License-Identifier: Apache-2.0

// Package sandbox turns a fresh process into a container: it builds the
// container's view of files inside new namespaces, gives up rights, and
// executes the container's program as process 1.
//
//	agent ──clone(mount, pid, ipc, uts)──► this program, named ProcessName
//	        spec on fd 3 ───────────────►   mounts, pivot_root, limits, user
//	        errors on fd 4 ◄────────────    or: exec ─► the container's program
//
// The package imports next to nothing, and does its work in an init function:
// Go initializes packages whose imports are ready in the order of their paths,
// so a container starts before the far heavier Kubernetes packages of the same
// binary are initialized.
package sandbox
