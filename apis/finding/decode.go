// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// defaultMaxDepth is far beyond what scanners write and far below what hurts the stack.
const defaultMaxDepth = 512

// SyntaxError says where and why a text is not the JSON it should be.
type SyntaxError struct {
	// Offset is the byte, counted from the start of the decoded text, at which it was noticed.
	Offset int64
	// Problem is what is wrong there.
	Problem string
}

func (e *SyntaxError) Error() string {
	return "invalid JSON at byte " + strconv.FormatInt(e.Offset, 10) + ": " + e.Problem
}

// DecodeValue reads exactly one JSON value, white space around it allowed. Objects keep the order of their keys; a
// repeated key keeps its first place and its last value. A maxDepth of 0 is the default of 512.
func DecodeValue(data []byte, maxDepth int) (any, error) {
	return newDecoder(data, maxDepth).decode(nil)
}

// Decoder decodes one value after the other. It does what DecodeValue does and is faster, since it remembers the keys
// that it has seen. What it returns does not hold on to the data. It is for one goroutine.
type Decoder struct{ decoder }

// NewDecoder returns a Decoder. A maxDepth of 0 is the default of 512.
func NewDecoder(maxDepth int) *Decoder {
	d := &Decoder{*newDecoder(nil, maxDepth)}
	d.keys = map[string]string{}
	return d
}

// Value decodes a value as DecodeValue does.
func (d *Decoder) Value(data []byte) (any, error) { return d.Pick(data, nil) }

// Pick decodes a value. If that is an object it leaves out the members that wanted does not hold; their syntax is
// checked. A nil wanted holds everything.
func (d *Decoder) Pick(data []byte, wanted map[string]bool) (any, error) {
	d.data, d.pos = data, 0
	v, err := d.decode(wanted)
	d.data = nil
	clear(d.fields) // of an object that broke off
	clear(d.values)
	d.fields, d.values = d.fields[:0], d.values[:0]
	return v, err
}

// CheckValue holds data to the same rules as DecodeValue, without building anything.
func CheckValue(data []byte, maxDepth int) error {
	d := newDecoder(data, maxDepth)
	d.space()
	if err := d.skip(0); err != nil {
		return err
	}
	return d.end()
}

// ToString makes a text of a decoded value in the way JavaScript does where it composes texts: null prints null,
// an array prints its elements joined by commas (null elements as nothing), an object prints [object Object].
func ToString(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return v
	case Text:
		if v.IsAbsent() {
			return "undefined"
		}
		return v.Or("null")
	case bool:
		return strconv.FormatBool(v)
	case float64:
		switch {
		case math.IsNaN(v):
			return "NaN"
		case math.IsInf(v, 1):
			return "Infinity"
		case math.IsInf(v, -1):
			return "-Infinity"
		}
		return string(AppendNumber(nil, v))
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			if e != nil {
				parts[i] = ToString(e)
			}
		}
		return strings.Join(parts, ",")
	case []string:
		return strings.Join(v, ",")
	case Object, map[string]any:
		return "[object Object]"
	}
	return fmt.Sprint(v)
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case float64:
		return "a number"
	case []any:
		return "an array"
	case Object:
		return "an object"
	}
	return fmt.Sprintf("a %T", v)
}

type decoder struct {
	data     []byte
	pos      int
	maxDepth int
	// keys holds keys that were seen, so that they are allocated once.
	keys map[string]string
	// fields and values are stacks of what is gathered of open objects and arrays, which are made when their size is
	// known.
	fields []Member
	values []any
}

const (
	// maxKeys and maxKeyLength bound the keys that are remembered.
	maxKeys      = 1000
	maxKeyLength = 64
)

func newDecoder(data []byte, maxDepth int) *decoder {
	if maxDepth <= 0 {
		maxDepth = defaultMaxDepth
	}
	return &decoder{data: data, maxDepth: maxDepth}
}

// decode reads the one value of data.
func (d *decoder) decode(wanted map[string]bool) (v any, err error) {
	d.space()
	if wanted != nil && d.peek() == '{' {
		v, err = d.object(0, wanted)
	} else {
		v, err = d.value(0)
	}
	if err != nil {
		return nil, err
	}
	return v, d.end()
}

func (d *decoder) fail(problem string) error {
	return &SyntaxError{Offset: int64(d.pos), Problem: problem}
}

// unexpected names the byte in the way, or the end.
func (d *decoder) unexpected(wanted string) error {
	if d.pos >= len(d.data) {
		return d.fail("it ends where " + wanted + " was expected")
	}
	return d.fail(fmt.Sprintf("%q where %s was expected", d.data[d.pos], wanted))
}

func (d *decoder) space() {
	for d.pos < len(d.data) && isSpace(d.data[d.pos]) {
		d.pos++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func (d *decoder) peek() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

func (d *decoder) end() error {
	d.space()
	if d.pos < len(d.data) {
		return d.unexpected("the end")
	}
	return nil
}

func (d *decoder) value(depth int) (any, error) {
	switch c := d.peek(); {
	case c == '{':
		return d.object(depth, nil)
	case c == '[':
		return d.array(depth)
	case c == '"':
		return d.str()
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	}
	word, err := d.word()
	if err != nil {
		return nil, err
	}
	switch word {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return nil, nil
}

func (d *decoder) word() (string, error) {
	for _, w := range []string{"null", "true", "false"} {
		if len(d.data)-d.pos >= len(w) && string(d.data[d.pos:d.pos+len(w)]) == w {
			d.pos += len(w)
			return w, nil
		}
	}
	return "", d.unexpected("a value")
}

func (d *decoder) object(depth int, wanted map[string]bool) (Object, error) {
	base := len(d.fields)
	seen := uint64(0) // a bit for every key, perhaps shared
	err := d.members(depth, func(raw []byte, asItIs bool) error {
		if wanted != nil && asItIs && !wanted[string(raw)] {
			return d.skip(depth + 1)
		}
		key := d.key(raw, asItIs)
		if wanted != nil && !wanted[key] {
			return d.skip(depth + 1)
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return err
		}
		bit := bitOf(key)
		d.put(base, key, v, seen&bit != 0)
		seen |= bit
		return nil
	})
	o := make(Object, len(d.fields)-base)
	copy(o, d.fields[base:])
	clear(d.fields[base:])
	d.fields = d.fields[:base]
	return o.dedupe(), err
}

// key is the text of a key, the same one every time if it can be remembered.
func (d *decoder) key(raw []byte, asItIs bool) string {
	if !asItIs || len(raw) > maxKeyLength {
		return textOf(raw, asItIs)
	}
	if key, ok := d.keys[string(raw)]; ok {
		return key
	}
	key := string(raw)
	if d.keys != nil && len(d.keys) < maxKeys {
		d.keys[key] = key
	}
	return key
}

// bitOf spreads keys over the bits of a word by what costs nothing to look at.
func bitOf(key string) uint64 {
	if key == "" {
		return 1
	}
	return 1 << ((uint(len(key))*7 + uint(key[0])*3 + uint(key[len(key)-1])) & 63)
}

// indexFrom is the size beyond which a linear search per key would let hostile input take quadratic time.
const indexFrom = 64

// put adds a member to the object whose members begin at base, or gives the one that is there another value.
func (d *decoder) put(base int, key string, v any, perhapsThere bool) {
	open := d.fields[base:]
	if perhapsThere && len(open) < indexFrom {
		for i := range open {
			if open[i].Key == key {
				open[i].Value = v
				return
			}
		}
	}
	d.fields = append(d.fields, Member{key, v})
}

// dedupe gives repeated keys of a large object their first place and last value.
func (o Object) dedupe() Object {
	if len(o) <= indexFrom {
		return o
	}
	place := make(map[string]int, len(o))
	kept := o[:0]
	for _, m := range o {
		if i, ok := place[m.Key]; ok {
			kept[i].Value = m.Value
			continue
		}
		place[m.Key] = len(kept)
		kept = append(kept, m)
	}
	return kept
}

// members walks over an object; one reads or skips the value of a key.
func (d *decoder) members(depth int, one func(key []byte, asItIs bool) error) error {
	if depth >= d.maxDepth {
		return d.fail("nested deeper than " + strconv.Itoa(d.maxDepth) + " levels")
	}
	d.pos++
	d.space()
	if d.peek() == '}' {
		d.pos++
		return nil
	}
	for {
		if d.peek() != '"' {
			return d.unexpected("a key")
		}
		key, asItIs, err := d.rawString()
		if err != nil {
			return err
		}
		d.space()
		if d.peek() != ':' {
			return d.unexpected("':'")
		}
		d.pos++
		d.space()
		if err := one(key, asItIs); err != nil {
			return err
		}
		d.space()
		switch d.peek() {
		case ',':
			d.pos++
			d.space()
		case '}':
			d.pos++
			return nil
		default:
			return d.unexpected("',' or '}'")
		}
	}
}

func (d *decoder) array(depth int) ([]any, error) {
	base := len(d.values)
	err := d.elements(depth, func() error {
		v, err := d.value(depth + 1)
		d.values = append(d.values, v)
		return err
	})
	list := make([]any, len(d.values)-base)
	copy(list, d.values[base:])
	clear(d.values[base:])
	d.values = d.values[:base]
	return list, err
}

func (d *decoder) elements(depth int, one func() error) error {
	if depth >= d.maxDepth {
		return d.fail("nested deeper than " + strconv.Itoa(d.maxDepth) + " levels")
	}
	d.pos++
	d.space()
	if d.peek() == ']' {
		d.pos++
		return nil
	}
	for {
		if err := one(); err != nil {
			return err
		}
		d.space()
		switch d.peek() {
		case ',':
			d.pos++
			d.space()
		case ']':
			d.pos++
			return nil
		default:
			return d.unexpected("',' or ']'")
		}
	}
}

// skip passes over one value and checks its syntax.
func (d *decoder) skip(depth int) error {
	switch c := d.peek(); {
	case c == '{':
		return d.members(depth, func([]byte, bool) error { return d.skip(depth + 1) })
	case c == '[':
		return d.elements(depth, func() error { return d.skip(depth + 1) })
	case c == '"':
		_, _, err := d.rawString()
		return err
	case c == '-' || c >= '0' && c <= '9':
		_, err := d.rawNumber()
		return err
	}
	_, err := d.word()
	return err
}

func (d *decoder) number() (float64, error) {
	raw, err := d.rawNumber()
	if err != nil {
		return 0, err
	}
	if n, ok := smallInteger(raw); ok {
		return float64(n), nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range is ±Inf, as in JavaScript
		return 0, d.fail(err.Error())
	}
	return f, nil
}

// smallInteger reads what most numbers are.
func smallInteger(raw []byte) (n int64, ok bool) {
	if len(raw) > 15 {
		return 0, false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

func (d *decoder) digits() bool {
	from := d.pos
	for d.pos < len(d.data) && d.data[d.pos] >= '0' && d.data[d.pos] <= '9' {
		d.pos++
	}
	return d.pos > from
}

func (d *decoder) rawNumber() ([]byte, error) {
	from := d.pos
	if d.peek() == '-' {
		d.pos++
	}
	if d.peek() == '0' {
		d.pos++
	} else if !d.digits() {
		return nil, d.unexpected("a digit")
	}
	if d.peek() == '.' {
		d.pos++
		if !d.digits() {
			return nil, d.unexpected("a digit")
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		d.pos++
		if c := d.peek(); c == '+' || c == '-' {
			d.pos++
		}
		if !d.digits() {
			return nil, d.unexpected("a digit")
		}
	}
	return d.data[from:d.pos], nil
}

// rawString passes over a string and tells whether it can be taken as it stands between its quotes.
func (d *decoder) rawString() (raw []byte, asItIs bool, err error) {
	asItIs = true
	from := d.pos + 1
	for d.pos = from; d.pos < len(d.data); {
		c := d.data[d.pos]
		switch {
		case plain[c]:
			d.pos++
		case c == '"':
			d.pos++
			return d.data[from : d.pos-1], asItIs, nil
		case c == '\\':
			asItIs = false
			if err := d.escape(); err != nil {
				return nil, false, err
			}
		case c < 0x20:
			return nil, false, d.fail("a control character inside a string")
		default:
			asItIs = false
			d.pos++
		}
	}
	return nil, false, d.fail("it ends inside a string")
}

func (d *decoder) escape() error {
	d.pos++
	switch d.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		d.pos++
		return nil
	case 'u':
		for range 4 {
			d.pos++
			if _, ok := hexValue(d.peek()); !ok {
				return d.unexpected("a hexadecimal digit")
			}
		}
		d.pos++
		return nil
	}
	return d.unexpected("an escape")
}

func (d *decoder) str() (string, error) {
	raw, asItIs, err := d.rawString()
	if err != nil {
		return "", err
	}
	return textOf(raw, asItIs), nil
}

func textOf(raw []byte, asItIs bool) string {
	if asItIs {
		return string(raw)
	}
	return unescape(raw)
}

// unescape resolves the escapes of a string whose syntax has been checked.
func unescape(raw []byte) string {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\':
			i++
			if raw[i] == 'u' {
				var n int
				out, n = appendUnit(out, raw[i-1:])
				i += n - 1
				continue
			}
			out = append(out, unescaped(raw[i]))
			i++
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			end := i + 1
			for end < len(raw) && raw[end] >= utf8.RuneSelf {
				end++
			}
			out = AppendUTF8(out, raw[i:end])
			i = end
		}
	}
	return string(out)
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// appendUnit resolves \uXXXX, or the two of a surrogate pair, at the start of raw and returns how many bytes it took.
func appendUnit(out, raw []byte) ([]byte, int) {
	u := unitOf(raw)
	if !utf16.IsSurrogate(u) {
		return utf8.AppendRune(out, u), 6
	}
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		if r := utf16.DecodeRune(u, unitOf(raw[6:])); r != utf8.RuneError {
			return utf8.AppendRune(out, r), 12
		}
	}
	return append(out, 0xE0|byte(u>>12), 0x80|byte(u>>6)&0x3F, 0x80|byte(u)&0x3F), 6
}

func unitOf(raw []byte) (u rune) {
	for _, c := range raw[2:6] {
		v, _ := hexValue(c) // checked before
		u = u<<4 | rune(v)
	}
	return u
}

func hexValue(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
