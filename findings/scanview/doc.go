// SPDX-License-Identifier: Apache-2.0

// Package scanview decides what people are shown of a Scan: pure functions from objects of the API to a state in a word, the
// most important sentence, phases with their times, and findings by severity. The command line and the console show the same.
//
// What it decides:
//
//	State, Says, Place    where a Scan is, in a word, a sentence and a place in the queue
//	Phases, Detailed      scanner, parser and hooks, with or without their Jobs
//	Reached, Unreached    whether the scanner reached its targets
//	Counts, Total         findings by severity, and their sum
//	Series, Latest        which Scans are runs of the same scan
//
// Its sentences hold text of other programs as it was written. Who shows them escapes them for the terminal or the page.
package scanview
