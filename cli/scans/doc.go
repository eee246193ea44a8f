// SPDX-License-Identifier: Apache-2.0

// Package scans has the commands that start Scans, wait for them, show them and change them: scan, wait,
// get, describe, logs, trigger, suspend, resume, cancel, retry, delete.
//
// Commands wait by watches, over restarts of the operator and of the API server. Ctrl-C never leaves a
// change half done: a write that has begun is finished, the Scan continues, and the last line says which
// command continues with it.
package scans
