// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"time"

	"github.com/scanyard/scanyard/cli/session"
)

const (
	// redrawn is how often a count is redrawn on a terminal, printed how often it is printed elsewhere.
	redrawn = 200 * time.Millisecond
	printed = 10 * time.Second
	// eraseLine goes back to the beginning of the line and empties it.
	eraseLine = "\r\x1b[K"
)

// progress prints the steps on stderr.
type progress struct {
	session *session.Session
	next    time.Time
	drawn   bool
}

// say prints a line.
func (p *progress) say(format string, args ...any) {
	p.erase()
	fmt.Fprintf(p.session.ErrOut, format+"\n", args...)
	p.next = p.session.Now().Add(printed)
	if p.session.Live {
		p.next = p.session.Now()
	}
}

// count prints the progress of a long step.
func (p *progress) count(what string, done, all int64) {
	now := p.session.Now()
	if now.Before(p.next) {
		return
	}
	line := fmt.Sprintf("  %s: %d", what, done)
	if all > 0 {
		line = fmt.Sprintf("  %s: %d of %d, %d %%", what, done, max(all, done), 100*done/max(all, done))
	}
	if !p.session.Live {
		p.next = now.Add(printed)
		fmt.Fprintln(p.session.ErrOut, line)
		return
	}
	p.next, p.drawn = now.Add(redrawn), true
	fmt.Fprint(p.session.ErrOut, p.session.Control(eraseLine), line)
}

func (p *progress) erase() {
	if p.drawn {
		fmt.Fprint(p.session.ErrOut, p.session.Control(eraseLine))
		p.drawn = false
	}
}
