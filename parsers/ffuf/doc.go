// SPDX-License-Identifier: Apache-2.0

// Package ffuf is the parser of ffuf's JSON report, result type ffuf-json: one finding per result.
//
// What it decides: every finding carries the time, the request body and the headers of the whole run. ffuf writes them
// around the results (config after them), so the report is read twice: once for these, passing over the results, and
// once for the results, one at a time. A report with results but without a valid time is unreadable.
package ffuf
