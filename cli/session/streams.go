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

// stream is where a session prints to. What comes from the cluster, from logs and from findings is text that somebody
// else has written: no character of it that a terminal acts upon passes, whichever command prints it and however. Our own
// colours and moves of the cursor bear the mark of the session.
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

// streams are those of a session that are to be flushed at its end.
type streams struct {
	mark string
	all  []*stream
}

// guarded makes a stream, the mark for the session with the first one.
func (s *streams) guarded(to io.Writer, mode termsafe.Mode) io.Writer {
	if s.mark == "" {
		// No colour has a NUL, and no character begins with one.
		s.mark = "\x00" + rand.Text()
	}
	made := newStream(to, mode, s.mark)
	s.all = append(s.all, made)
	return made
}

// Flush passes on what was held back: the beginning of a character without its end.
func (s *Session) Flush() error {
	var err error
	if s.streams != nil {
		for _, one := range s.streams.all {
			err = errors.Join(err, one.flush())
		}
	}
	return err
}

// Data is stdout for what is data and not text for people: results as they are stored, objects as JSON and YAML, logs.
// A pipe gets it byte for byte. On a terminal it is guarded as all else, in the way of its format.
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

// Control is a sequence of our own for a terminal, such as a move of the cursor. Other such sequences do not pass.
func (s *Session) Control(sequence string) string {
	if s.streams == nil {
		return sequence
	}
	return termsafe.Marked(s.streams.mark, sequence)
}

// file is what a stream ends in.
func file(w io.Writer) (*os.File, bool) {
	if s, ok := w.(*stream); ok {
		w = s.to
	}
	f, ok := w.(*os.File)
	return f, ok
}

// IsTerminal says whether a stream is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := file(w)
	return ok && term.IsTerminal(int(f.Fd()))
}
