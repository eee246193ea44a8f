// SPDX-License-Identifier: Apache-2.0

// Command newscanner begins a new scanner: its parser with a test that fails until the parser is written, the
// parser's line in the registry, and a chart. docs/add-a-scanner.md goes on from there.
//
// With a RESULT-TYPE that is read already it begins the chart only.
//
// Usage: newscanner ROOT NAME [RESULT-TYPE]
package main
