// SPDX-License-Identifier: Apache-2.0

// Package report is what an engine has found, as the protocol wants it.
//
// What it decides:
//
//   - Documents are canonical: keys in order, no blanks. Equal content has equal bytes.
//   - Texts of databases are cut between two characters, and are always UTF-8.
//   - The score of a finding is the highest of the newest version of CVSS that there is.
//   - A layer is told only where its place in the image is known.
package report
