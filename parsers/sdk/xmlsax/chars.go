// SPDX-License-Identifier: Apache-2.0

package xmlsax

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// nameByte says of ASCII characters whether a name may contain (1) or begin with (2 and more) them.
var nameByte = func() (t [utf8.RuneSelf]uint8) {
	for c := range t {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == ':':
			t[c] = 2
		case c >= '0' && c <= '9', c == '-', c == '.':
			t[c] = 1
		}
	}
	return t
}()

// nameLength returns the length of the name that b begins with, 0 if with none.
func nameLength(b []byte) int {
	n := 0
	for n < len(b) {
		c := b[n]
		if c < utf8.RuneSelf {
			if class := nameByte[c]; class == 0 || n == 0 && class < 2 {
				return n
			}
			n++
			continue
		}
		char, size := utf8.DecodeRune(b[n:])
		if !isNameStart(char) && (n == 0 || !isNameBody(char)) {
			return n
		}
		n += size
	}
	return n
}

func isNameStart(c rune) bool {
	switch {
	case c < 0xC0, c == 0xD7, c == 0xF7, c > 0xFFFD:
		return false
	case c <= 0x2FF, c >= 0x370 && c <= 0x37D, c >= 0x37F && c <= 0x1FFF, c == 0x200C, c == 0x200D,
		c >= 0x2070 && c <= 0x218F, c >= 0x2C00 && c <= 0x2FEF, c >= 0x3001 && c <= 0xD7FF,
		c >= 0xF900 && c <= 0xFDCF, c >= 0xFDF0:
		return true
	}
	return false
}

func isNameBody(c rune) bool {
	return c == 0xB7 || c >= 0x300 && c <= 0x36F || c == 0x203F || c == 0x2040
}

// appendEntity appends what &name; stands for.
func appendEntity(dst, name []byte) ([]byte, error) {
	switch string(name) {
	case "lt":
		return append(dst, '<'), nil
	case "gt":
		return append(dst, '>'), nil
	case "amp":
		return append(dst, '&'), nil
	case "quot":
		return append(dst, '"'), nil
	case "apos":
		return append(dst, '\''), nil
	}
	if len(name) > 1 && name[0] == '#' {
		return appendReference(dst, name)
	}
	if text, ok := xml.HTMLEntity[string(name)]; ok {
		return append(dst, text...), nil
	}
	lower := bytes.ToLower(name)
	if text, ok := xml.HTMLEntity[string(lower)]; ok {
		return append(dst, text...), nil
	}
	if string(lower) == "apos" {
		return append(dst, '\''), nil
	}
	return nil, fmt.Errorf("unknown entity &%s;", sample(name))
}

// appendReference appends the character of &#10; or &#xA;. Leading zeros are fine, the number 0 is not.
func appendReference(dst, name []byte) ([]byte, error) {
	digits, base := string(name[1:]), 10
	if digits[0] == 'x' || digits[0] == 'X' {
		digits, base = digits[1:], 16
	}
	digits = strings.TrimLeft(digits, "0")
	code, err := strconv.ParseUint(digits, base, 32)
	if err != nil || code > utf8.MaxRune {
		return nil, fmt.Errorf("invalid character reference &%s;", sample(name))
	}
	c := rune(code)
	if utf16.IsSurrogate(c) {
		return append(dst, 0xE0|byte(c>>12), 0x80|byte(c>>6)&0x3F, 0x80|byte(c)&0x3F), nil
	}
	return utf8.AppendRune(dst, c), nil
}
