// SPDX-License-Identifier: Apache-2.0

package mapping

import (
	"unicode/utf8"

	"github.com/scanyard/scanyard/apis/finding"
)

// member is one key of an object with the bytes of its value. Both lie in the object's own bytes where they can.
type member struct {
	key string
	// rawKey has the quotes.
	rawKey, value []byte
	// said is true where a field of the Result says all of it.
	said bool
}

// appendMembers appends the members of a JSON object whose syntax is checked. A repeated key keeps its first place and its last value.
func appendMembers(list []member, object []byte) []member {
	from := len(list)
	i := skipSpace(object, 0) + 1
	for {
		i = skipSpace(object, i)
		switch object[i] {
		case '}':
			return dedupe(list, from)
		case ',':
			i = skipSpace(object, i+1)
		}
		keyEnd := endOfValue(object, i)
		m := member{key: textOf(object[i:keyEnd]), rawKey: object[i:keyEnd]}
		start := skipSpace(object, skipSpace(object, keyEnd)+1)
		i = endOfValue(object, start)
		m.value = object[start:i]
		list = put(list, from, m)
	}
}

// indexFrom is the size of objects beyond which repeated keys are not looked for one by one.
const indexFrom = 64

// put appends a member, or gives the one with its key the new value.
func put(list []member, from int, m member) []member {
	if len(list)-from < indexFrom {
		for i := from; i < len(list); i++ {
			if list[i].key == m.key {
				list[i].value = m.value
				return list
			}
		}
	}
	return append(list, m)
}

// dedupe does for large objects what put does for others.
func dedupe(list []member, from int) []member {
	if len(list)-from <= indexFrom {
		return list
	}
	place := make(map[string]int, len(list)-from)
	kept := list[:from]
	for _, m := range list[from:] {
		if i, seen := place[m.key]; seen {
			kept[i].value = m.value
			continue
		}
		place[m.key] = len(kept)
		kept = append(kept, m)
	}
	return kept
}

func skipSpace(data []byte, i int) int {
	for data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t' {
		i++
	}
	return i
}

// endOfValue is the index behind the value that begins at i.
func endOfValue(data []byte, i int) int {
	switch data[i] {
	case '"':
		return endOfString(data, i)
	case '{', '[':
		return endOfNested(data, i)
	}
	for i < len(data) {
		switch data[i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			return i
		}
		i++
	}
	return i
}

func endOfString(data []byte, i int) int {
	for i++; data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func endOfNested(data []byte, i int) int {
	depth := 0
	for {
		switch data[i] {
		case '"':
			i = endOfString(data, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
		if depth == 0 {
			return i
		}
	}
}

// textOf is the text of a JSON string. A lone surrogate makes it invalid UTF-8, as in package finding.
func textOf(raw []byte) string {
	for _, c := range raw[1 : len(raw)-1] {
		if c == '\\' || c >= utf8.RuneSelf {
			value, err := finding.DecodeValue(raw, 0)
			if text, ok := value.(string); ok && err == nil {
				return text
			}
			return ""
		}
	}
	return string(raw[1 : len(raw)-1])
}

// isString tells whether a raw value is a string.
func isString(raw []byte) bool { return raw[0] == '"' }

// isNull tells whether a raw value is null.
func isNull(raw []byte) bool { return raw[0] == 'n' }
