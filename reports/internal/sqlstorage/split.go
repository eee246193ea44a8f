// SPDX-License-Identifier: Apache-2.0

package sqlstorage

import (
	"bytes"
	"errors"
	"slices"
	"strings"
)

// errJSON is a text that the codec cannot have written.
var errJSON = errors.New("not the JSON of an object")

// member is a member of a JSON object: the places of its key, with quotes, and of its value.
type member struct {
	keyStart, keyEnd     int
	valueStart, valueEnd int
}

// members finds the members of the object that begins at start, and where the object ends.
func members(data []byte, start int) ([]member, int, error) {
	at := skipSpace(data, start)
	if at >= len(data) || data[at] != '{' {
		return nil, 0, errJSON
	}
	at = skipSpace(data, at+1)
	var found []member
	for {
		switch {
		case at >= len(data):
			return nil, 0, errJSON
		case data[at] == '}':
			return found, at + 1, nil
		case data[at] == ',':
			at = skipSpace(data, at+1)
		}
		m := member{keyStart: at}
		var err error
		if m.keyEnd, err = skipString(data, at); err != nil {
			return nil, 0, err
		}
		at = skipSpace(data, m.keyEnd)
		if at >= len(data) || data[at] != ':' {
			return nil, 0, errJSON
		}
		m.valueStart = skipSpace(data, at+1)
		if m.valueEnd, err = skipValue(data, m.valueStart); err != nil {
			return nil, 0, err
		}
		found = append(found, m)
		at = skipSpace(data, m.valueEnd)
	}
}

func skipSpace(data []byte, at int) int {
	for at < len(data) && (data[at] == ' ' || data[at] == '\n' || data[at] == '\t' || data[at] == '\r') {
		at++
	}
	return at
}

// skipString returns the place behind the string that begins at a quote.
func skipString(data []byte, at int) (int, error) {
	if at >= len(data) || data[at] != '"' {
		return 0, errJSON
	}
	for at++; at < len(data); at++ {
		switch data[at] {
		case '\\':
			at++
		case '"':
			return at + 1, nil
		}
	}
	return 0, errJSON
}

// skipValue returns the place behind a value. Nesting is counted, not recursed into.
func skipValue(data []byte, at int) (int, error) {
	depth := 0
	for at < len(data) {
		switch data[at] {
		case '"':
			end, err := skipString(data, at)
			if err != nil {
				return 0, err
			}
			at = end
		case '{', '[':
			depth++
			at++
		case '}', ']':
			depth--
			at++
		case ',', ':', ' ', '\n', '\t', '\r':
			at++
			continue
		default:
			for at < len(data) && !strings.ContainsRune(",:]} \n\t\r", rune(data[at])) {
				at++
			}
		}
		if depth == 0 {
			return at, nil
		}
	}
	return 0, errJSON
}

// split takes the member at a path, such as report.results, out of the JSON of an object. The payload is nil if the
// object has no such member.
func split(data []byte, path string) (head, payload []byte, err error) {
	start := 0
	names := strings.Split(path, ".")
	for i, name := range names {
		found, _, err := members(data, start)
		if err != nil {
			return nil, nil, err
		}
		at := slices.IndexFunc(found, func(m member) bool { return string(data[m.keyStart+1:m.keyEnd-1]) == name })
		if at < 0 {
			return data, nil, nil
		}
		m := found[at]
		if i < len(names)-1 {
			if data[m.valueStart] != '{' {
				return data, nil, nil
			}
			start = m.valueStart
			continue
		}
		from, to := m.keyStart, m.valueEnd
		switch {
		case at > 0: // with the comma before it
			from = found[at-1].valueEnd
		case len(found) > 1: // with the comma behind it
			to = found[1].keyStart
		}
		return slices.Concat(data[:from], data[to:]), data[m.valueStart:m.valueEnd], nil
	}
	return data, nil, nil
}

// join puts the member at a path back, as the last of its object.
func join(head, payload []byte, path string) ([]byte, error) {
	start := 0
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		found, _, err := members(head, start)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(found, func(m member) bool { return string(head[m.keyStart+1:m.keyEnd-1]) == name })
		if at < 0 {
			return nil, errJSON
		}
		start = found[at].valueStart
	}
	found, end, err := members(head, start)
	if err != nil {
		return nil, err
	}
	name := `"` + names[len(names)-1] + `":`
	if len(found) > 0 {
		name = "," + name
	}
	return slices.Concat(head[:end-1], []byte(name), payload, head[end-1:]), nil
}

// canonical writes a JSON value with the members of its objects sorted by their keys and without space; numbers and
// strings stay as they were sent. The same content in another order is the same blob.
func canonical(value []byte) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(len(value))
	if err := writeCanonical(&out, bytes.TrimSpace(value), 0); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// maxDepth is how deep a value is sorted. Each level reads its part of the text again, so that a value of thousands of
// levels would take minutes; what lies deeper is kept as it was sent.
const maxDepth = 64

func writeCanonical(out *bytes.Buffer, value []byte, depth int) error {
	switch {
	case len(value) == 0:
		return errJSON
	case depth > maxDepth:
	case value[0] == '{':
		return writeObject(out, value, depth)
	case value[0] == '[':
		return writeArray(out, value, depth)
	}
	out.Write(value)
	return nil
}

func writeObject(out *bytes.Buffer, value []byte, depth int) error {
	found, _, err := members(value, 0)
	if err != nil {
		return err
	}
	slices.SortStableFunc(found, func(a, b member) int {
		return bytes.Compare(value[a.keyStart:a.keyEnd], value[b.keyStart:b.keyEnd])
	})
	out.WriteByte('{')
	for i, m := range found {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(value[m.keyStart:m.keyEnd])
		out.WriteByte(':')
		if err := writeCanonical(out, value[m.valueStart:m.valueEnd], depth+1); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func writeArray(out *bytes.Buffer, value []byte, depth int) error {
	out.WriteByte('[')
	for at, n := skipSpace(value, 1), 0; at < len(value) && value[at] != ']'; n++ {
		if value[at] == ',' {
			at = skipSpace(value, at+1)
		}
		end, err := skipValue(value, at)
		if err != nil {
			return err
		}
		if n > 0 {
			out.WriteByte(',')
		}
		if err := writeCanonical(out, value[at:end], depth+1); err != nil {
			return err
		}
		at = skipSpace(value, end)
	}
	out.WriteByte(']')
	return nil
}
