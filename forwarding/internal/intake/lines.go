// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// hopeless is how many times the bound a line may be before the connection is given up.
const hopeless = 64

var errLineTooLong = errors.New("the line is too long")

// tooLargeError is a line over the bound that was skipped to its end.
type tooLargeError struct{ size, limit int }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the record has %d bytes, and may have %d", e.size, e.limit)
}

// lines reads lines in constant memory.
type lines struct {
	r     *bufio.Reader
	limit int
	long  []byte
}

func newLines(r io.Reader, limit int) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// pending is true while another whole line is in memory.
func (l *lines) pending() bool {
	buffered, _ := l.r.Peek(l.r.Buffered()) // what is buffered can be looked at
	return bytes.IndexByte(buffered, '\n') >= 0
}

// next gives a line without its end, valid until the next call. ended is false for a line that the end of the stream cut.
func (l *lines) next() (line []byte, ended bool, err error) {
	l.long = l.long[:0]
	size := 0
	for {
		part, err := l.r.ReadSlice('\n')
		size += len(part)
		if whole := err == nil && len(l.long) == 0; !whole && size <= l.limit+2 {
			l.long = append(l.long, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if size > hopeless*l.limit {
				return nil, false, errLineTooLong
			}
			continue
		case err != nil && (!errors.Is(err, io.EOF) || size == 0):
			return nil, false, err
		}
		if len(l.long) > 0 {
			part = l.long
		}
		return l.finish(part, size, err == nil)
	}
}

func (l *lines) finish(line []byte, size int, ended bool) ([]byte, bool, error) {
	if ended {
		size--
	}
	if size > hopeless*l.limit {
		return nil, false, errLineTooLong
	}
	if size > l.limit+1 || len(line) < size { // the second: what did not fit was not kept
		return nil, ended, &tooLargeError{size: size, limit: l.limit}
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	if ended {
		line = bytes.TrimSuffix(line, []byte("\r"))
	}
	if len(line) > l.limit {
		return nil, ended, &tooLargeError{size: len(line), limit: l.limit}
	}
	return line, ended, nil
}
