// SPDX-License-Identifier: Apache-2.0

package session

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/scanyard/scanyard/cli/termsafe"
)

// stream is an output stream of a session. Text from the cluster, from logs and from findings was written by others: no
// character of it that a terminal acts upon passes, whichever command prints it and however. Our own colors and moves of the
// cursor bear the mark of the session.
type stream struct {
	mu    sync.Mutex
	guard *termsafe.Writer
	to    io.Writer
}

func newStream(to io.Writer, mode termsafe.Mode, mark string) *stream {
	guard := termsafe.NewWriter(to, mode)
	guard.Trust(mark)
	return &stream{guard: guard, to: to}
}

// Write passes text on without active characters.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guard.Write(p)
}

func (s *stream) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guard.Flush()
}

// streams are the streams of a session to flush at its end.
type streams struct {
	mark string
	all  []*stream
}

// guarded makes a stream, and with the first one the mark of the session.
func (s *streams) guarded(to io.Writer, mode termsafe.Mode) io.Writer {
	if s.mark == "" {
		// No color has a NUL, and no character begins with one.
		s.mark = "\x00" + rand.Text()
	}
	made := newStream(to, mode, s.mark)
	s.all = append(s.all, made)
	return made
}

// Flush passes on the bytes that were held back: the beginning of a character without its end.
func (s *Session) Flush() error {
	var err error
	if s.streams != nil {
		for _, one := range s.streams.all {
			err = errors.Join(err, one.flush())
		}
	}
	return err
}

// Data is stdout for data that is not text for people: results as they are stored, objects as JSON and YAML, logs. A pipe
// gets the data byte for byte. On a terminal the data is guarded like other text, in the way of its format.
func (s *Session) Data(mode termsafe.Mode) io.Writer {
	to, ok := s.Out.(*stream)
	if !ok {
		return s.Out
	}
	if !IsTerminal(to) && !s.Color {
		return to.to
	}
	return s.streams.guarded(to.to, mode)
}

// Control is a control sequence of our own for a terminal, such as a move of the cursor. Other sequences do not pass.
func (s *Session) Control(sequence string) string {
	if s.streams == nil {
		return sequence
	}
	return termsafe.Marked(s.streams.mark, sequence)
}

// file is the final destination of a stream.
func file(w io.Writer) (*os.File, bool) {
	if s, ok := w.(*stream); ok {
		w = s.to
	}
	f, ok := w.(*os.File)
	return f, ok
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := file(w)
	return ok && term.IsTerminal(int(f.Fd()))
}
