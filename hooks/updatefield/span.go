// SPDX-License-Identifier: Apache-2.0

package updatefield

import (
	"bytes"
	"encoding/json"
)

// span is a value's place in a document. An empty one is where a missing value would go.
type span struct {
	start, end int
	// first says that the container around it is empty.
	first bool
}

// separator comes before a value that is added.
func (s span) separator() []byte {
	if s.first {
		return nil
	}
	return []byte(",")
}

// splice puts parts into the place of a span.
func splice(document []byte, at span, parts ...[]byte) []byte {
	size := len(document) - (at.end - at.start)
	for _, part := range parts {
		size += len(part)
	}
	out := append(make([]byte, 0, size), document[:at.start]...)
	for _, part := range parts {
		out = append(out, part...)
	}
	return append(out, document[at.end:]...)
}

// kindOf is the first character of a value, 0 if there is none.
func kindOf(document []byte) byte {
	i := skipSpace(document, 0)
	if i == len(document) {
		return 0
	}
	return document[i]
}

// findMember finds the value of a member. Of members with the same name the last one counts, as in every JSON reader.
// Where there is none, the span is empty and lies before the closing brace.
func findMember(object []byte, name string) (at span, found bool) {
	i := skipSpace(object, 0) + 1 // behind the brace
	for at.first = true; ; at.first = false {
		i = skipSpace(object, i)
		if i >= len(object) || object[i] == '}' {
			break
		}
		if object[i] == ',' {
			i = skipSpace(object, i+1)
		}
		keyEnd := skipString(object, i)
		start := skipSpace(object, skipSpace(object, keyEnd)+1) // behind the colon
		end := skipValue(object, start)
		if isText(object[i:keyEnd], name) {
			at.start, at.end, found = start, end, true
		}
		i = end
	}
	if !found {
		at.start, at.end = min(i, len(object)), min(i, len(object))
	}
	return at, found
}

// findElement finds an element of a list. Where there is none, missing says how many come in between, and the span is
// empty and lies before the closing bracket; otherwise missing is -1.
func findElement(list []byte, wanted int) (at span, missing int) {
	i := skipSpace(list, 0) + 1 // behind the bracket
	n := 0
	for ; ; n++ {
		i = skipSpace(list, i)
		if i >= len(list) || list[i] == ']' {
			break
		}
		if list[i] == ',' {
			i = skipSpace(list, i+1)
		}
		end := skipValue(list, i)
		if n == wanted {
			return span{start: i, end: end}, -1
		}
		i = end
	}
	i = min(i, len(list))
	return span{start: i, end: i, first: n == 0}, wanted - n
}

// isText compares a JSON string with a text. Most have no escapes and need no decoding.
func isText(quoted []byte, text string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return len(quoted) == len(text)+2 && string(quoted[1:len(quoted)-1]) == text
	}
	var decoded string
	return json.Unmarshal(quoted, &decoded) == nil && decoded == text
}

func skipSpace(document []byte, i int) int {
	for i < len(document) && (document[i] == ' ' || document[i] == '\t' || document[i] == '\r' || document[i] == '\n') {
		i++
	}
	return i
}

// skipString is the place behind the string that begins at i.
func skipString(document []byte, i int) int {
	for i++; i < len(document); i++ {
		switch document[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(document)
}

// skipValue is the place behind the value that begins at i.
func skipValue(document []byte, i int) int {
	for depth := 0; i < len(document); i++ {
		switch document[i] {
		case '"':
			i = skipString(document, i) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1 // behind a string or a closed container
		}
	}
	return len(document)
}
