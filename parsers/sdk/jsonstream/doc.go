// SPDX-License-Identifier: Apache-2.0

// Package jsonstream walks JSON documents and JSON lines of any size in bounded memory.
//
//	{"time": …, "results": [ {…}, {…} ]}       Reader.Object ──► Reader.Array ──► Reader.Value, one element at a time
//	{…}\n{…}\n                                 Lines.Next, one line at a time
//
// What it decides:
//
//   - A byte order mark at the start is dropped. Invalid UTF-8 is taken; package finding turns it into U+FFFD.
//   - What is decoded whole is bounded by [finding.Limits]; what is skipped is bounded by its longest string.
//   - A key that appears twice in an object that is walked is an error: what was made of the first value cannot be
//     taken back. In a value that is decoded whole the last one counts, as in ECMAScript.
//   - Errors say the byte, and where in the document it is as a JSON pointer (RFC 6901).
//
// The syntax is read by jsontext, what will be encoding/json/v2: it is the one streaming decoder that neither builds
// values nor grows with the document.
package jsonstream
