// SPDX-License-Identifier: Apache-2.0

// Package finding holds the contract between parsers, hooks and everybody who reads findings.json:
// one finding ([Finding]), an array of them as a stream ([Reader], [Writer]), the counters that a Scan's
// status shows ([Stats]), and the JSON schema ([Schema], [Validate]).
//
//	parser ──Finding──► Stamp ──bytes──► Writer ──► findings.json ──► Reader ──bytes──► hook
//	                      └──► Stats ──StatusPatch──► Scan.status.findings
//
// What it decides:
//
//   - A key that is absent, a key that is null and a key with a value are three different things on the wire;
//     [Text] and [References] keep them apart.
//   - Nothing a finding carries is lost on the way through: keys this package does not know, and known keys with
//     a value of an unexpected type, stay in [Finding.Extra].
//   - Numbers are IEEE doubles and print as ECMAScript prints them, since every other implementation of this
//     format is written in JavaScript.
//   - Strings print as UTF-8. Invalid bytes become U+FFFD. A lone surrogate, which JSON can write as an escape
//     but UTF-8 cannot hold, is kept in a Go string as its three-byte generalized UTF-8 form and prints as the
//     escape again.
//   - The id of a finding is derived from its content, see [ID].
//   - Nobody holds more than one element in memory, and no element beyond [Limits] is read.
package finding
