// SPDX-License-Identifier: Apache-2.0

package jsonstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/scanyard/scanyard/apis/finding"
)

// LineError says at which line reading ended. Lines count from 1.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// Lines reads a text line by line. Lines end at LF; the last one needs no end. It decides nothing about empty lines:
// formats differ there.
type Lines struct {
	in     *bufio.Reader
	values *finding.Decoder
	limits finding.Limits
	line   int
	buf    []byte
}

// NewLines returns the Lines of r. Limits that are zero take the defaults of finding.Limits.
func NewLines(r io.Reader, limits finding.Limits) *Lines {
	limits = limits.WithDefaults()
	return &Lines{in: bufio.NewReaderSize(r, readAhead), values: finding.NewDecoder(limits.MaxDepth), limits: limits}
}

// Next returns the next line without its LF; a CR stays. The bytes are valid until the next call. An unwrapped io.EOF is
// the end of the text.
func (l *Lines) Next() ([]byte, error) {
	l.line++
	l.buf = l.buf[:0]
	for {
		piece, err := l.in.ReadSlice('\n')
		if len(l.buf)+len(piece) > l.limits.MaxElement {
			return nil, l.Fail(fmt.Errorf("%w: more than %d bytes", ErrTooLarge, l.limits.MaxElement))
		}
		if err == nil && len(l.buf) == 0 {
			return l.trim(piece), nil
		}
		l.buf = append(l.buf, piece...)
		switch {
		case err == nil:
			return l.trim(l.buf), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			if len(l.buf) == 0 {
				return nil, io.EOF
			}
			return l.trim(l.buf), nil
		default:
			return nil, l.Fail(err)
		}
	}
}

// trim takes off what does not belong to the line.
func (l *Lines) trim(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if l.line == 1 {
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	return line
}

// Line is the number of the line that Next has returned last, from 1.
func (l *Lines) Line() int { return l.line }

// Decode decodes a line as one JSON value, see Reader.Value.
func (l *Lines) Decode(line []byte) (any, error) {
	v, err := l.values.Value(line)
	if err != nil {
		return nil, l.Fail(err)
	}
	return v, nil
}

// Fail says of an error that it came up in the current line.
func (l *Lines) Fail(err error) error { return &LineError{Line: l.line, Err: err} }
