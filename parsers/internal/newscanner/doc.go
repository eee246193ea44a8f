// SPDX-License-Identifier: Apache-2.0

// Command newscanner begins a new scanner: its parser with a test that fails until the parser is written, the
// parser's line in the registry, and a chart. docs/add-a-scanner.md goes on from there.
//
// Usage: newscanner ROOT NAME
package main
