// SPDX-License-Identifier: Apache-2.0

package jsonstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/scanyard/scanyard/apis/finding"
)

// Kind is the kind of a value before the value is read.
type Kind string

// The kinds. Nothing is an input without a byte, which some formats take for an empty result; white space alone is no
// document. In an error's text a Kind reads as words.
const (
	Nothing Kind = "nothing"
	Null    Kind = "null"
	Bool    Kind = "a boolean"
	String  Kind = "a string"
	Number  Kind = "a number"
	Object  Kind = "an object"
	Array   Kind = "an array"
)

const (
	readAhead = 64 << 10
	// maxKeys bounds the memory for the keys of an object that is walked.
	maxKeys = 10_000
	// maxPointer bounds what an error says of a place: a hostile document can be nested deeply.
	maxPointer = 200
)

// ErrTooLarge says that one value is larger than Limits.MaxElement.
var ErrTooLarge = finding.ErrTooLarge

// Error says where in a document reading ended.
type Error struct {
	// Offset is the byte in the input.
	Offset int64
	// Pointer is the place in the document, a JSON pointer; "" is the document itself.
	Pointer string
	// Err is the reason.
	Err error
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("byte %d, at %s: %v", e.Offset, e.Pointer, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Reader walks one document from its first byte to its last. What a callback of Object or Array does not read is
// skipped. After an error every call returns that error.
type Reader struct {
	in     *bounded
	json   *jsontext.Decoder
	values *finding.Decoder
	limits finding.Limits
	err    error
}

// NewReader returns a Reader of the document in r. Limits that are zero take the defaults of finding.Limits.
func NewReader(r io.Reader, limits finding.Limits) *Reader {
	limits = limits.WithDefaults()
	in := &bounded{in: bufio.NewReaderSize(r, readAhead), limit: int64(limits.MaxElement)}
	in.skipMark()
	in.json = jsontext.NewDecoder(in, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return &Reader{in: in, json: in.json, values: finding.NewDecoder(limits.MaxDepth), limits: limits}
}

// bounded refuses to read on while one token or value takes more than the limit.
type bounded struct {
	in    *bufio.Reader
	json  *jsontext.Decoder
	given int64 // bytes handed to json
	mark  int64 // bytes of the byte order mark
	limit int64
	err   error // what reading ended with, if not at the end
}

func (b *bounded) skipMark() {
	const mark = "\uFEFF"
	if start, err := b.in.Peek(len(mark)); err == nil && string(start) == mark {
		n, _ := b.in.Discard(len(mark)) // it was just seen
		b.mark = int64(n)
	}
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.given-b.json.InputOffset() > b.limit {
		b.err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.limit)
		return 0, b.err
	}
	n, err := b.in.Read(p)
	b.given += int64(n)
	if !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// Kind returns the kind of the next value without reading it.
func (r *Reader) Kind() (Kind, error) {
	if r.err != nil {
		return "", r.err
	}
	switch k := r.json.PeekKind(); k {
	case 'n':
		return Null, nil
	case 't', 'f':
		return Bool, nil
	case '"':
		return String, nil
	case '0':
		return Number, nil
	case '{':
		return Object, nil
	case '[':
		return Array, nil
	case 0:
		_, err := r.json.ReadToken()
		if errors.Is(err, io.EOF) && r.in.given == 0 {
			return Nothing, nil
		}
		return "", r.fail(err)
	default:
		return "", r.fail(fmt.Errorf("'%c' where a value was expected", k))
	}
}

// Object walks the members of the object that comes next. The key belongs to the callback; the value is what the
// Reader reads next.
func (r *Reader) Object(member func(key string) error) error {
	if err := r.expect(Object); err != nil {
		return err
	}
	seen := map[string]bool{}
	return r.each('}', func() error {
		token, err := r.json.ReadToken()
		if err != nil {
			return r.fail(err)
		}
		key := token.String()
		if seen[key] {
			return r.fail(fmt.Errorf("key %q appears twice", key))
		}
		if len(seen) == maxKeys {
			return r.fail(fmt.Errorf("more than %d keys", maxKeys))
		}
		seen[key] = true
		return r.consume(func() error { return member(key) })
	})
}

// Array walks the elements of the array that comes next. The index counts from zero.
func (r *Reader) Array(element func(index int) error) error {
	if err := r.expect(Array); err != nil {
		return err
	}
	index := 0
	return r.each(']', func() error {
		err := r.consume(func() error { return element(index) })
		index++
		return err
	})
}

// each calls one until the end of the open object or array, and reads that end.
func (r *Reader) each(end jsontext.Kind, one func() error) error {
	for r.json.PeekKind() != end {
		if err := one(); err != nil {
			return err
		}
	}
	if _, err := r.json.ReadToken(); err != nil {
		return r.fail(err)
	}
	return nil
}

// consume calls a callback, and skips the value that it leaves.
func (r *Reader) consume(callback func() error) error {
	before, depth := r.json.InputOffset(), r.json.StackDepth()
	if r.json.PeekKind() == 0 { // broken here; report it before the value is used
		_, err := r.json.ReadToken()
		return r.fail(err)
	}
	if err := callback(); err != nil {
		return err
	}
	if r.err != nil {
		return r.err
	}
	if r.json.StackDepth() == depth && r.json.InputOffset() == before {
		return r.Skip()
	}
	return nil
}

// expect reads the start of an object or array.
func (r *Reader) expect(want Kind) error {
	got, err := r.Kind()
	if err != nil {
		return err
	}
	if got != want {
		return r.fail(fmt.Errorf("is %s, must be %s", got, want))
	}
	if r.json.StackDepth() >= r.limits.MaxDepth {
		return r.fail(fmt.Errorf("nested deeper than %d levels", r.limits.MaxDepth))
	}
	if _, err := r.json.ReadToken(); err != nil {
		return r.fail(err)
	}
	return nil
}

// Raw returns the bytes of the value that comes next. They are valid until the next call.
func (r *Reader) Raw() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	raw, err := r.json.ReadValue()
	if err != nil {
		return nil, r.fail(err)
	}
	if len(raw) > r.limits.MaxElement {
		return nil, r.fail(fmt.Errorf("%w: more than %d bytes", ErrTooLarge, r.limits.MaxElement))
	}
	return raw, nil
}

// Value decodes the value that comes next, as finding.DecodeValue does: nil, bool, string, float64, []any and
// finding.Object.
func (r *Reader) Value() (any, error) { return r.Pick(nil) }

// Pick decodes the value that comes next. If that is an object it leaves out the members that wanted does not hold,
// which saves time where an element has much more than is needed.
func (r *Reader) Pick(wanted map[string]bool) (any, error) {
	raw, err := r.Raw()
	if err != nil {
		return nil, err
	}
	v, err := r.values.Pick(raw, wanted)
	if err != nil {
		return nil, r.fail(err)
	}
	return v, nil
}

// Skip passes over the value that comes next and checks its syntax.
func (r *Reader) Skip() error {
	if r.err != nil {
		return r.err
	}
	if err := r.json.SkipValue(); err != nil {
		return r.fail(err)
	}
	return nil
}

// End fails if anything but white space is left after the document.
func (r *Reader) End() error {
	if r.err != nil {
		return r.err
	}
	_, err := r.json.ReadToken()
	switch {
	case err == nil:
		return r.fail(finding.ErrTrailingData)
	case errors.Is(err, io.EOF):
		return nil
	}
	return r.fail(err)
}

// Offset is the byte up to which the document has been read.
func (r *Reader) Offset() int64 { return r.in.mark + r.json.InputOffset() }

// fail keeps the first error, and says where it came up.
func (r *Reader) fail(err error) error {
	if r.err != nil {
		return r.err
	}
	place := &Error{Offset: r.Offset(), Pointer: string(r.json.StackPointer()), Err: err}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		place.Offset, place.Pointer, place.Err = r.in.mark+syntax.ByteOffset, string(syntax.JSONPointer), syntax.Err
	}
	switch {
	case r.in.err != nil:
		place.Err = r.in.err
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		place.Err = finding.ErrTruncated
	}
	if place.Offset == r.in.mark && place.Pointer == "" && syntax != nil {
		place.Err = fmt.Errorf("the input is not JSON: %w", place.Err)
	}
	if len(place.Pointer) > maxPointer {
		place.Pointer = place.Pointer[:maxPointer] + "…"
	}
	r.err = place
	return r.err
}
