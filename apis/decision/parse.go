// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/scanyard/scanyard/apis/internal/jsontext"
)

// Parse reads one line. Input, Details and the values of Extra are parts of the line, which must not change as long as they are used.
// Names of keys are case-sensitive. Of a known key that comes twice the last one counts. The error is a *MalformedError.
func Parse(line []byte) (Record, error) {
	var r Record
	if err := checkJSON(line); err != nil {
		return r, err
	}
	members := walk{line: line}
	if !members.open() {
		return r, &MalformedError{Offset: members.at, Message: "a record is a JSON object"}
	}
	hasMessage := false
	for {
		key, value, more := members.next()
		if !more {
			break
		}
		field := r.field(key)
		switch {
		case key == "input":
			r.Input = value
		case key == "details":
			r.Details = value
		case field == nil:
			r.Extra = append(r.Extra, Member{Key: key, Value: value})
		case value[0] != '"':
			return r, &MalformedError{Key: key, Message: "must be a text"}
		default:
			*field = unquote(value)
			hasMessage = hasMessage || key == "message"
			if key != "message" && *field == "" && (key == "timeStamp" || key == "decisionId") {
				return r, &MalformedError{Key: key, Message: "must not be empty: leave the key out"}
			}
		}
	}
	if !hasMessage {
		return r, &MalformedError{Key: "message", Message: "is required"}
	}
	return r, r.Validate()
}

// Members lists the keys of a JSON object in their order; none of nil.
func Members(object []byte) ([]Member, error) {
	if object == nil {
		return nil, nil
	}
	if err := checkJSON(object); err != nil {
		return nil, err
	}
	members := walk{line: object}
	if !members.open() {
		return nil, &MalformedError{Offset: members.at, Message: "a JSON object is expected"}
	}
	var all []Member
	for {
		key, value, more := members.next()
		if !more {
			return all, nil
		}
		all = append(all, Member{Key: key, Value: value})
	}
}

// AppendMembers appends a JSON object of members, whose values must be JSON.
func AppendMembers(dst []byte, members []Member) []byte {
	start := len(dst)
	dst = append(dst, '{')
	for _, m := range members {
		dst = append(appendKey(dst, start, m.Key), m.Value...)
	}
	return append(dst, '}')
}

// checkJSON tells where a line ceases to be UTF-8 or JSON.
func checkJSON(line []byte) error {
	if !utf8.Valid(line) {
		at := 0
		for at < len(line) {
			r, size := utf8.DecodeRune(line[at:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		return &MalformedError{Offset: at, Message: "not UTF-8"}
	}
	if jsontext.Valid(line) {
		return nil
	}
	var raw json.RawMessage
	err := json.Unmarshal(line, &raw)
	offset := len(line)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = max(int(syntax.Offset)-1, 0) // encoding/json counts the byte that it refuses
		return &MalformedError{Offset: offset, Message: "not JSON: " + syntax.Error()}
	}
	return &MalformedError{Offset: offset, Message: "not JSON"}
}

// walk goes over the members of one object in text that is known to be JSON.
type walk struct {
	line []byte
	at   int
}

func (w *walk) space() {
	for w.at < len(w.line) && (w.line[w.at] == ' ' || w.line[w.at] == '\t' || w.line[w.at] == '\r' || w.line[w.at] == '\n') {
		w.at++
	}
}

// open steps into the object; false where the value is none.
func (w *walk) open() bool {
	w.space()
	if w.at == len(w.line) || w.line[w.at] != '{' {
		return false
	}
	w.at++
	return true
}

// next gives the next member, until there is none.
func (w *walk) next() (key string, value json.RawMessage, more bool) {
	w.space()
	if w.line[w.at] == ',' {
		w.at++
		w.space()
	}
	if w.line[w.at] == '}' {
		return "", nil, false
	}
	key = unquote(w.value())
	w.space()
	w.at++ // the colon
	w.space()
	return key, w.value(), true
}

// value steps over one value.
func (w *walk) value() []byte {
	start, depth := w.at, 0
	for w.at < len(w.line) {
		switch c := w.line[w.at]; c {
		case '"':
			w.text()
			if depth == 0 {
				return w.line[start:w.at]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']', ',', ' ', '\t', '\r', '\n', ':':
			if depth == 0 {
				return w.line[start:w.at] // after a number or a word
			}
			if c == '}' || c == ']' {
				if depth--; depth == 0 {
					w.at++
					return w.line[start:w.at]
				}
			}
		}
		w.at++
	}
	return w.line[start:w.at]
}

// text steps over a text in quotes.
func (w *walk) text() {
	for w.at++; w.at < len(w.line); w.at++ {
		switch w.line[w.at] {
		case '\\':
			w.at++
		case '"':
			w.at++
			return
		}
	}
}

// unquote reads a JSON text that is known to be one.
func unquote(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return string(inner) // cannot be: the line was checked
	}
	return s
}
