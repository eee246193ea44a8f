// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"io"
	"time"

	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

const (
	// firstDrawn is how long a download runs without a meter: short ones need none.
	firstDrawn = time.Second
	redrawn    = 200 * time.Millisecond
	// eraseLine goes back to the beginning of the line and empties it.
	eraseLine = "\r\x1b[K"
)

// meter shows the progress of a download, if stderr is a terminal.
func (r *Reader) meter(body io.ReadCloser, size int64, what string) io.ReadCloser {
	if !r.session.Live {
		return body
	}
	now := r.session.Now()
	return &meter{ReadCloser: body, session: r.session, what: termsafe.Line(what), size: size, next: now.Add(firstDrawn)}
}

type meter struct {
	io.ReadCloser

	session *session.Session
	what    string
	size    int64
	done    int64
	next    time.Time
	drawn   bool
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.done += int64(n)
	if now := m.session.Now(); !now.Before(m.next) {
		m.next, m.drawn = now.Add(redrawn), true
		fmt.Fprint(m.session.ErrOut, m.session.Control(eraseLine), m.line())
	}
	if err != nil {
		m.erase()
	}
	return n, err
}

func (m *meter) line() string {
	if m.size <= 0 {
		return fmt.Sprintf("%s: %s", m.what, Bytes(m.done))
	}
	return fmt.Sprintf("%s: %s of %s, %d %%", m.what, Bytes(m.done), Bytes(m.size), 100*m.done/m.size)
}

func (m *meter) erase() {
	if m.drawn {
		fmt.Fprint(m.session.ErrOut, m.session.Control(eraseLine))
		m.drawn = false
	}
}

// Close ends the download, and the line of the meter.
func (m *meter) Close() error {
	m.erase()
	return m.ReadCloser.Close()
}

// Bytes returns a size for people.
func Bytes(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
