// SPDX-License-Identifier: Apache-2.0

// Package spdx is the parser of SPDX documents in JSON, versions 2.2, 2.3 and 3.0, result type spdx: one finding that
// counts what the document lists.
//
// What it decides:
//
//   - Packages are counted by their purpose, by ecosystem (the type of their package URL) and by licence: the concluded
//     one, else the declared one. NONE and NOASSERTION are not licences. The package that the document is about is a
//     package like the others in SPDX, and counted.
//   - In version 3.0 licences are elements of their own that relationships bring together with packages. They are not
//     counted: that would take all relationships in memory.
//   - The finding does not hold what changes with every run, such as the document's namespace and the time.
//   - Only JSON is read. Tag-value, RDF and YAML are refused.
//   - The document is read once, one element at a time.
package spdx
