// SPDX-License-Identifier: Apache-2.0

package session

// Paint is a colour of text on a terminal.
type Paint string

// Colours by meaning, so that the same thing looks the same in every command.
const (
	Good    Paint = "\x1b[32m" // done, open, fixed
	Bad     Paint = "\x1b[31m" // errored, HIGH
	Warn    Paint = "\x1b[33m" // waits, MEDIUM
	Note    Paint = "\x1b[36m" // LOW, what to type
	Quiet   Paint = "\x1b[02m" // what matters less
	Heading Paint = "\x1b[01m" // titles
	reset         = "\x1b[0m"
)

// Paint colours text where stdout takes colours, and leaves it alone elsewhere.
func (s *Session) Paint(p Paint, text string) string {
	if !s.Color || text == "" {
		return text
	}
	return s.Control(string(p)) + text + s.Control(reset)
}
