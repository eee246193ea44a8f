// SPDX-License-Identifier: Apache-2.0

// Package process decides whether a process id still means the process that
// was started. A pid alone is not enough: it may have been given to somebody
// else since. The start time that the kernel keeps makes the pair unique until
// the machine restarts, and the boot id covers that.
package process
