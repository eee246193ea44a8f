// SPDX-License-Identifier: Apache-2.0

// Package sdktest tests parsers: against folders of cases, against hostile input, and for speed.
//
// A folder of cases holds, per case,
//
//	NAME.raw.EXT              the raw result
//	NAME.expected.json        the findings, without id, parsed_at and scan
//	NAME.expected-error.json  instead, {"error": "…"}, where parsing must fail
//	NAME.context.json         what else the parser is given, if anything: "scan" and "env"
//
// Findings are compared as JSON values: the order of keys does not count, everything else does. That parsing fails is
// what an expected error asks for; its text need not be the same.
package sdktest
