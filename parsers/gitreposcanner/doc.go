// SPDX-License-Identifier: Apache-2.0

// Package gitreposcanner is the parser of git-repo-scanner's results, result type git-repo-scanner-json: the scanner
// writes findings, and they are passed on as they are.
//
// What it decides: the document must be an array of objects; what the objects hold is the scanner's business. A
// document that says nothing (null, false, 0, "") holds no findings; an empty file is not a document.
package gitreposcanner
