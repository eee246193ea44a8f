// SPDX-License-Identifier: Apache-2.0

// Package jsondoc reads the JSON reports of scanners whose formats are described by a schema or by structs, and not by
// what some program in another language makes of them.
//
// What it decides:
//
//   - What a finding cannot do without must be there and of the right type, else the report is an error. That is for
//     the parser to ask ([Need]).
//   - Anything else that is missing, null, or of another type than the schema says counts as not reported: [Text] is
//     "", [Objects] has none. A list's elements of the wrong type are passed over.
//   - What was not reported is not an attribute ([Set]).
package jsondoc
