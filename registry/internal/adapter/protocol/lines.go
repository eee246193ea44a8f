// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

const (
	// MaxLine is the most that a line may have, in bytes, without its end.
	MaxLine = 1 << 20
	// maxDepth is how deep JSON may be nested.
	maxDepth = 64
	// maxID is the most that the id of a request may have.
	maxID = 128
)

// The errors of lines.
var (
	ErrLineTooLong = errors.New("a line has more than 1 MiB")
	ErrNotAnObject = errors.New("a line is not a JSON object")
	ErrVersion     = errors.New("a line has another version than 1")
)

// Reader gives the lines of a stream. What is wrong with one line leaves the next ones readable.
type Reader struct{ buffer *bufio.Reader }

// NewReader reads from a stream.
func NewReader(r io.Reader) *Reader { return &Reader{buffer: bufio.NewReaderSize(r, 64<<10)} }

// Line gives the next line without its end. The error is ErrLineTooLong, then the line was passed over; io.EOF; or that of the stream. A
// line that the stream's end cuts off counts as a line.
func (r *Reader) Line() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.buffer.ReadSlice('\n')
		if !long && len(line)+len(bytes.TrimSuffix(part, []byte("\n"))) > MaxLine {
			long, line = true, nil
		}
		if !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(line) > 0 || long):
		case err != nil:
			return nil, err
		}
		if long {
			return nil, ErrLineTooLong
		}
		return bytes.TrimSuffix(line, []byte("\n")), nil
	}
}

// object reads one JSON object and nothing beside it.
func object(line []byte, into any) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' || !utf8.Valid(line) || !shallow(line) {
		return ErrNotAnObject
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("%w: %w", ErrNotAnObject, err)
	}
	return nil
}

// shallow tells whether brackets outside of strings are nested at most maxDepth deep.
func shallow(text []byte) bool {
	depth, quoted, escaped := 0, false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			if depth++; depth > maxDepth {
				return false
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return true
}

// ReadRequest reads a line to an adapter. A request whose id could be read comes with the error, so that it can be answered.
func ReadRequest(line []byte) (Request, error) {
	var r Request
	switch err := object(line, &r); {
	case err != nil:
		return Request{ID: idOf(line)}, err
	case r.V != Version:
		return r, ErrVersion
	case r.ID == "" || len(r.ID) > maxID:
		return r, fmt.Errorf("a request needs an id of at most %d bytes", maxID)
	}
	return r, nil
}

// idOf looks for the id in what is not a request.
func idOf(line []byte) string {
	var o map[string]json.RawMessage
	var id string
	if json.Unmarshal(line, &o) != nil || json.Unmarshal(o["id"], &id) != nil || len(id) > maxID {
		return ""
	}
	return id
}

// ReadAnswer reads a line of an adapter.
func ReadAnswer(line []byte) (Answer, error) {
	var a Answer
	if err := object(line, &a); err != nil {
		return Answer{}, err
	}
	switch {
	case a.V != Version:
		return a, ErrVersion
	case a.ID == "":
		return a, errors.New("an answer has no id")
	}
	switch a.Type {
	case TypeProgress:
		return a, nil
	case TypeResult:
		if !bytes.HasPrefix(bytes.TrimSpace(a.Result), []byte("{")) {
			return a, errors.New("a result is not a JSON object")
		}
		return a, nil
	case TypeError:
		if a.Error == nil {
			return a, errors.New("an answer of the type error has no error")
		}
		return a, a.Error.check()
	}
	return a, fmt.Errorf("an answer has the type %q, which the protocol does not know", a.Type)
}

// Line encodes a message as a line with its end.
func Line(message any) ([]byte, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode line: %w", err)
	}
	if len(text) > MaxLine {
		return nil, ErrLineTooLong
	}
	return append(text, '\n'), nil
}
