// SPDX-License-Identifier: Apache-2.0

// Package nuclei is the parser of nuclei's JSON lines (-jsonl), result type nuclei-json: one finding per line.
//
// What it decides: CRITICAL is HIGH and UNKNOWN is LOW; a severity that nuclei does not have stays as it is. The host
// name is what the WHATWG URL standard makes of the host, where that is a URL. CWE and CVE become references. A line
// that is not a result, also one of white space only, makes the whole report unreadable.
//
// Lines are independent, so one line is in memory at a time.
package nuclei
