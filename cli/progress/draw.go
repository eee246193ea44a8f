// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"fmt"
	"strings"
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/cli/view"
	"github.com/scanyard/scanyard/findings/scanview"
)

// mark is the sign of a phase on a terminal.
var marks = map[scanview.Progress]struct {
	sign  string
	paint session.Paint
}{
	scanview.Pending: {"·", session.Quiet},
	scanview.Waiting: {"!", session.Warn},
	scanview.Running: {"●", session.Note},
	scanview.Done:    {"✓", session.Good},
	scanview.Failed:  {"✗", session.Bad},
	scanview.Skipped: {"-", session.Quiet},
}

// block is the drawing of a Scan: its state, then a line for each phase. Lines are cut to the width of
// the terminal, since a wrapped line could not be redrawn.
func block(s *executionv1.Scan, now time.Time, width int, paint func(session.Paint, string) string) []string {
	state := scanview.State(s)
	if d := scanview.Lifetime(s, now); d > 0 {
		state += "  " + view.Short(d)
	}
	lines := []string{cut(fmt.Sprintf("%s  %s", s.Name, state), width)}
	for _, p := range scanview.Phases(s) {
		m := marks[p.Progress]
		took := ""
		if d := p.Duration(now); d > 0 {
			took = view.Short(d)
		}
		rest := strings.TrimRight(fmt.Sprintf(" %-8s %5s  %s", p.Name, took, termsafe.Line(p.Message)), " ")
		lines = append(lines, "  "+paint(m.paint, m.sign)+cut(rest, width-3))
	}
	if len(scanview.Ready(s).Reason) == 0 { // the status has nothing more
		lines = append(lines, cut("  "+scanview.Says(s), width))
	}
	return lines
}

// line is a change in one line, for pipelines.
func line(s *executionv1.Scan) string {
	return strings.TrimRight(fmt.Sprintf("%s  %-14s  %s", s.Name, scanview.State(s), termsafe.Line(scanview.Says(s))), " ")
}

// cut shortens text to a number of columns; 0 and less mean no bound.
func cut(text string, columns int) string {
	if columns <= 0 {
		return text
	}
	return termsafe.Fit(text, columns)
}
