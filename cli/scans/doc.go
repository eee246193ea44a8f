// SPDX-License-Identifier: Apache-2.0

// Package scans has the commands that start Scans, wait for them, tell about them and
// change them: scan, wait, get, describe, logs, trigger, suspend, resume, cancel, retry,
// delete.
//
// What waits goes by watches, over restarts of the operator and of the API server. Ctrl-C
// never leaves anything half done: a write that has begun is brought to its end, the Scan
// goes on, and the last line says how to go on with it.
package scans
