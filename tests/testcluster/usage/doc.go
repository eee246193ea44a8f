// SPDX-License-Identifier: Apache-2.0

// Package usage tells what a process has used: CPU time and memory, as Linux counts them (proc(5)).
package usage
