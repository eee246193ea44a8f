// SPDX-License-Identifier: Apache-2.0

package finding

import "unicode/utf8"

// AppendUTF8 appends src with every ill-formed sequence replaced by one U+FFFD, in the way of the WHATWG encoding
// standard: as much of a broken sequence as could have begun a good one counts as one.
func AppendUTF8(dst, src []byte) []byte {
	for len(src) > 0 {
		if c := src[0]; c < utf8.RuneSelf {
			dst = append(dst, c)
			src = src[1:]
			continue
		}
		r, size := utf8.DecodeRune(src)
		if r == utf8.RuneError && size <= 1 {
			size = brokenLength(src)
		}
		dst = utf8.AppendRune(dst, r)
		src = src[size:]
	}
	return dst
}

// brokenLength returns how many bytes of an ill-formed sequence belong together.
func brokenLength(b []byte) int {
	need, low, high := 0, byte(0x80), byte(0xBF)
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		switch c {
		case 0xE0:
			low = 0xA0
		case 0xED:
			high = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		switch c {
		case 0xF0:
			low = 0x90
		case 0xF4:
			high = 0x8F
		}
	}
	n := 1
	for n <= need && n < len(b) && b[n] >= low && b[n] <= high {
		low, high = 0x80, 0xBF
		n++
	}
	return n
}
