// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// The reasons of a crash.
const (
	ProtocolError  = "ProtocolError"
	MemoryExceeded = "MemoryExceeded"
	// Exited: by a signal, or with another code than 0.
	Exited = "Exited"
)

// CrashError is an adapter that ended over a request, or had to be ended.
type CrashError struct {
	Reason, Message string
	// ExitCode is -1, or Signal is set, where the process was ended by a signal.
	ExitCode int
	Signal   string
	// PeakBytes is the most memory that the process had.
	PeakBytes int64
	// Log is the end of what the process wrote to standard error.
	Log string
}

// Error tells the reason and what is known of the end.
func (e *CrashError) Error() string {
	text := e.Reason
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Signal != "" {
		text += ": signal " + e.Signal
	} else if e.ExitCode != 0 {
		text += fmt.Sprintf(": exit code %d", e.ExitCode)
	}
	return text
}

// IsCrash tells whether an error counts as a crash of the item.
func IsCrash(err error) bool {
	_, crashed := errors.AsType[*CrashError](err)
	return crashed
}

// maxLog is how much of standard error is kept.
const maxLog = 64 << 10

// tail keeps the end of what is written.
type tail struct {
	mutex sync.Mutex
	text  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text = append(t.text, p...)
	if len(t.text) > 2*maxLog {
		t.text = append(t.text[:0], t.text[len(t.text)-maxLog:]...)
	}
	return len(p), nil
}

// readFrom takes all that comes. A read that fails is the end of it.
func (t *tail) readFrom(r io.Reader) {
	if _, err := io.Copy(t, r); err != nil {
		fmt.Fprintf(t, "\nread standard error: %v", err)
	}
}

// String gives the last 64 KiB with control characters and those of direction escaped, line ends excepted.
func (t *tail) String() string {
	t.mutex.Lock()
	text := bytes.Clone(t.text[max(0, len(t.text)-maxLog):])
	t.mutex.Unlock()
	var b strings.Builder
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		switch {
		case c == '\n':
			b.WriteByte('\n')
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsControl(c), unicode.Is(unicode.Cf, c), unicode.Is(unicode.Zl, c), unicode.Is(unicode.Zp, c):
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
		text = text[size:]
	}
	return b.String()
}
