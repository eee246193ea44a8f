// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/view"
)

// Reporter shows the progress of one Scan. Its methods may be called concurrently.
type Reporter struct {
	session *session.Session
	out     io.Writer
	live    bool
	began   time.Time

	mu    sync.Mutex
	scan  *executionv1.Scan
	said  string
	drawn int
}

// New makes a Reporter that writes to out: a block that is redrawn if live, else a line for each change.
func New(s *session.Session, out io.Writer, live bool) *Reporter {
	return &Reporter{session: s, out: out, live: live, began: s.Now()}
}

// Update shows a Scan in its present version.
func (r *Reporter) Update(s *executionv1.Scan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scan = s
	if r.live {
		r.draw()
		return
	}
	if l := line(s); l != r.said {
		r.said = l
		r.print(l)
	}
}

// Note prints a line beside the progress.
func (r *Reporter) Note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.erase()
	r.print(text)
	r.draw()
}

func (r *Reporter) print(text string) {
	if r.live {
		fmt.Fprintln(r.out, text)
		return
	}
	fmt.Fprintf(r.out, "%5s  %s\n", view.Short(r.session.Now().Sub(r.began)), text)
}

// Away is for follow.Feed: it reports that the API server is away, and that it is back.
func (r *Reporter) Away(err error) {
	if err != nil {
		r.Note(fmt.Sprintf("The API server is away, trying again: %v", r.session.Explain(err)))
		return
	}
	r.Note("The API server is back.")
}

// tick is how often durations move on a terminal.
const tick = time.Second

// Run redraws every second on a terminal until ctx ends, and does nothing elsewhere.
func (r *Reporter) Run(ctx context.Context) {
	if !r.live {
		return
	}
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			r.mu.Lock()
			r.draw()
			r.mu.Unlock()
		}
	}
}

// draw draws the block over the one before. On its way up the cursor goes to the first
// line of the old block; all below it is erased.
func (r *Reporter) draw() {
	if !r.live || r.scan == nil {
		return
	}
	lines := block(r.scan, r.session.Now(), r.session.Width(), r.session.Paint)
	r.erase()
	fmt.Fprint(r.out, strings.Join(lines, "\n")+"\n")
	r.drawn = len(lines)
}

func (r *Reporter) erase() {
	if r.drawn > 0 {
		fmt.Fprint(r.out, r.session.Control(fmt.Sprintf("\x1b[%dA\x1b[J", r.drawn)))
		r.drawn = 0
	}
}
