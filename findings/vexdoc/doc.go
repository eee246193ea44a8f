// SPDX-License-Identifier: Apache-2.0

// Package vexdoc reads exceptions from VEX documents, OpenVEX and CycloneDX, and writes them.
//
//	document ──► Read ──► Statements ──► exceptions        exceptions ──► Write ──► document
//
// What it decides:
//
//   - not_affected is NotAffected, fixed and resolved are Mitigated, under_investigation and in_triage are UnderInvestigation,
//     false_positive is FalsePositive. What is affected is not an exception: it is told.
//   - A statement is one exception. Its vulnerability and their aliases are references; each of its products is an entry: package
//     URLs are packages, those of type oci are products by their digest.
//   - What cannot be read is told with the number of its statement; the rest is read.
//   - An exception of ours has its name in the id of its statement, and its reason and end with it, so that what was written is
//     read as the same. Another statement is named after what it says.
//   - Texts are one line of harmless characters.
package vexdoc
