// SPDX-License-Identifier: Apache-2.0

// Package begin begins what contributors add: a scanner or a hook. It writes a package with a test that fails until somebody has written the rest, the
// package's line in the list of its kind, and a chart. docs/add-a-scanner.md and docs/add-a-hook.md go on from there.
//
// It reads and writes files only, so that it knows parsers and hooks by their lists in the repository and not by importing them.
package begin
