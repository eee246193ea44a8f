// SPDX-License-Identifier: Apache-2.0

// Package jsontext tells quickly whether text is JSON. It agrees with json.Valid in everything, and takes a small part of its time: records of decisions
// are mostly texts, of which eight bytes are looked at at once.
package jsontext

import "encoding/binary"

// maxDepth is how deep encoding/json reads.
const maxDepth = 10_000

// none is the end of what is not JSON.
const none = -1

// Valid tells whether text is one JSON value. As with encoding/json, texts in it may hold bytes that are not UTF-8.
func Valid(text []byte) bool {
	end := value(text, space(text, 0), 0)
	return end != none && space(text, end) == len(text)
}

// space gives the first place from i on that is not white space.
func space(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// value gives the end of the value that begins at i.
func value(text []byte, i, depth int) int {
	if i >= len(text) {
		return none
	}
	switch c := text[i]; c {
	case '"':
		return quoted(text, i)
	case '{', '[':
		return nested(text, i, depth+1)
	case 't':
		return word(text, i, "true")
	case 'f':
		return word(text, i, "false")
	case 'n':
		return word(text, i, "null")
	default:
		return number(text, i)
	}
}

func word(text []byte, i int, want string) int {
	if end := i + len(want); end <= len(text) && string(text[i:end]) == want {
		return end
	}
	return none
}

// nested gives the end of the object or array that begins at i.
func nested(text []byte, i, depth int) int {
	if depth > maxDepth {
		return none
	}
	object := text[i] == '{'
	closing := text[i] + 2 // as ASCII has it
	if i = space(text, i+1); i < len(text) && text[i] == closing {
		return i + 1
	}
	for {
		if object {
			if i = member(text, i); i == none {
				return none
			}
		}
		if i = value(text, i, depth); i == none {
			return none
		}
		switch i = space(text, i); {
		case i >= len(text):
			return none
		case text[i] == closing:
			return i + 1
		case text[i] != ',':
			return none
		}
		i = space(text, i+1)
	}
}

// member gives where the value of the member begins whose name begins at i.
func member(text []byte, i int) int {
	if i >= len(text) || text[i] != '"' {
		return none
	}
	if i = quoted(text, i); i == none {
		return none
	}
	if i = space(text, i); i >= len(text) || text[i] != ':' {
		return none
	}
	return space(text, i+1)
}

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// zeros has a bit set if a byte of x is zero.
func zeros(x uint64) uint64 { return (x - ones) & ^x & highs }

// Plain tells whether eight bytes stand in a JSON text as they are: ASCII without quotes, backslashes and control characters.
func Plain(eight string) bool {
	_ = eight[7]
	x := uint64(eight[0]) | uint64(eight[1])<<8 | uint64(eight[2])<<16 | uint64(eight[3])<<24 |
		uint64(eight[4])<<32 | uint64(eight[5])<<40 | uint64(eight[6])<<48 | uint64(eight[7])<<56
	return x&highs == 0 && zeros(x^('"'*ones))|zeros(x^('\\'*ones))|(x-' '*ones)&highs == 0
}

// quoted gives the end of the text in quotes that begins at i.
func quoted(text []byte, i int) int {
	for i++; i < len(text); {
		if i+8 <= len(text) {
			x := binary.LittleEndian.Uint64(text[i:])
			if zeros(x^('"'*ones))|zeros(x^('\\'*ones))|(x-' '*ones)&^x&highs == 0 {
				i += 8
				continue
			}
		}
		for end := min(i+8, len(text)); i < end; {
			switch c := text[i]; {
			case c == '"':
				return i + 1
			case c < ' ':
				return none
			case c == '\\':
				if i = escaped(text, i+1); i == none {
					return none
				}
			default:
				i++
			}
		}
	}
	return none
}

// escaped gives the end of what follows a backslash.
func escaped(text []byte, i int) int {
	if i >= len(text) {
		return none
	}
	switch text[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		const digits = 4
		if i+digits >= len(text) {
			return none
		}
		for _, c := range text[i+1 : i+1+digits] {
			if (c < '0' || c > '9') && (c|' ' < 'a' || c|' ' > 'f') {
				return none
			}
		}
		return i + 1 + digits
	}
	return none
}

// number gives the end of the number that begins at i.
func number(text []byte, i int) int {
	if i < len(text) && text[i] == '-' {
		i++
	}
	switch {
	case i >= len(text) || !digit(text[i]):
		return none
	case text[i] == '0':
		i++
	default:
		i = digits(text, i)
	}
	if i < len(text) && text[i] == '.' {
		if i = digits(text, i+1); i == none {
			return none
		}
	}
	if i < len(text) && text[i]|' ' == 'e' {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		return digits(text, i)
	}
	return i
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// digits gives the end of at least one digit.
func digits(text []byte, i int) int {
	start := i
	for i < len(text) && digit(text[i]) {
		i++
	}
	if i == start {
		return none
	}
	return i
}
