// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// plain tells the bytes that a JSON string holds as they are.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// AppendString appends s as a JSON string: nothing escaped that need not be, invalid UTF-8 as U+FFFD, a lone
// surrogate (see the package comment) as its escape.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = append(dst, s[from:i]...)
			dst = appendEscape(dst, c)
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r != utf8.RuneError || size > 1 {
			i += size
			continue
		}
		dst = append(dst, s[from:i]...)
		if isSurrogateAt(s, i) {
			u := 0xD000 | uint16(s[i+1]&0x3F)<<6 | uint16(s[i+2]&0x3F)
			dst = append(dst, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
			i += 3
		} else {
			dst = utf8.AppendRune(dst, utf8.RuneError)
			i++
		}
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// isSurrogateAt reports whether a surrogate stands at i in generalized UTF-8.
func isSurrogateAt(s string, i int) bool {
	return len(s)-i >= 3 && s[i] == 0xED && s[i+1]&0xE0 == 0xA0 && s[i+2]&0xC0 == 0x80
}

// AppendNumber appends f as ECMAScript's JSON.stringify writes it: the shortest digits that read back as f, an
// exponent only below 1e-6 and from 1e21 on, -0 as 0, and null for what is not a finite number.
func AppendNumber(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return append(dst, "null"...)
	case f == 0:
		return append(dst, '0')
	}
	if i := int64(f); float64(i) == f && i < 1<<53 && i > -1<<53 {
		return strconv.AppendInt(dst, i, 10)
	}
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') { // 1e-07 is 1e-7
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// AppendValue appends a value of any type that an Object may hold.
func AppendValue(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case string:
		return AppendString(dst, v), nil
	case Text:
		if v.state != textString {
			return append(dst, "null"...), nil
		}
		return AppendString(dst, v.value), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case float64:
		return AppendNumber(dst, v), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case []string:
		return appendStrings(dst, v), nil
	case []any:
		return appendList(dst, v, AppendValue)
	case Object:
		return appendObject(dst, v)
	case []Object:
		return appendList(dst, v, appendObject)
	case Raw:
		return append(dst, v...), nil
	case map[string]any:
		return appendMap(dst, v)
	}
	return appendOther(dst, v)
}

func appendStrings(dst []byte, list []string) []byte {
	if list == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, s)
	}
	return append(dst, ']')
}

func appendList[T any](dst []byte, list []T, one func([]byte, T) ([]byte, error)) ([]byte, error) {
	if list == nil {
		return append(dst, "null"...), nil
	}
	dst = append(dst, '[')
	var err error
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = one(dst, v); err != nil {
			return dst, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return append(dst, ']'), nil
}

// appendObject writes a nil Object as {}: whether a nil Object is written at all is its holder's business.
func appendObject(dst []byte, o Object) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	var err error
	for i := range o {
		if t, ok := o[i].Value.(Text); ok && t.IsAbsent() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = AppendString(dst, o[i].Key)
		dst = append(dst, ':')
		if dst, err = AppendValue(dst, o[i].Value); err != nil {
			return dst, fmt.Errorf("%s: %w", o[i].Key, err)
		}
	}
	return append(dst, '}'), nil
}

func appendMap(dst []byte, m map[string]any) ([]byte, error) {
	if m == nil {
		return append(dst, "null"...), nil
	}
	o := make(Object, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		o = append(o, Member{k, m[k]})
	}
	return appendObject(dst, o)
}

func appendOther(dst []byte, v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return dst, fmt.Errorf("write a %T: %w", v, err)
	}
	if v, err = DecodeValue(raw, defaultMaxDepth); err != nil {
		return dst, err
	}
	return AppendValue(dst, v)
}

// MarshalJSON writes the object in the order of its keys.
func (o Object) MarshalJSON() ([]byte, error) {
	if o == nil {
		return []byte("null"), nil
	}
	return appendObject(nil, o)
}

// UnmarshalJSON reads one JSON object in the order of its keys.
func (o *Object) UnmarshalJSON(data []byte) error {
	v, err := DecodeValue(data, defaultMaxDepth)
	if err != nil {
		return err
	}
	if v == nil {
		*o = nil
		return nil
	}
	got, ok := v.(Object)
	if !ok {
		return fmt.Errorf("is %s, must be an object", kindOf(v))
	}
	*o = got
	return nil
}
