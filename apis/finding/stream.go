// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Limits bound what a Reader takes from a stranger. Zero fields take the defaults.
type Limits struct {
	// MaxElement is the largest element in bytes. Default 16 MiB.
	MaxElement int
	// MaxDepth is how deep arrays and objects may be nested in an element. Default 512.
	MaxDepth int
	// PassOver makes ErrTooLarge concern its element alone: the element is read to its end without being kept, and
	// counts; the following call goes on behind it. The syntax of its inside is not checked.
	PassOver bool
}

// WithDefaults returns the limits with the defaults in place of zeros.
func (l Limits) WithDefaults() Limits {
	if l.MaxElement <= 0 {
		l.MaxElement = defaultMaxElement
	}
	if l.MaxDepth <= 0 {
		l.MaxDepth = defaultMaxDepth
	}
	return l
}

const (
	defaultMaxElement = 16 << 20
	readerChunk       = 64 << 10
)

// Sentinels that errors of a Reader wrap.
var (
	// ErrTruncated says that the input ends before the array does.
	ErrTruncated = errors.New("the input ends too early")
	// ErrTooLarge says that one element is larger than Limits.MaxElement.
	ErrTooLarge = errors.New("element too large")
	// ErrTrailingData says that something other than white space follows the array.
	ErrTrailingData = errors.New("data after the end of the array")
)

// NotArrayError says that the input is not an array at all.
type NotArrayError struct {
	// Found is what is there instead: NothingFound, NullFound, or words for people.
	Found string
}

// What NotArrayError.Found says of input that some formats take for an empty array.
const (
	// NothingFound means no byte at all (a byte order mark does not count).
	NothingFound = "nothing"
	// NullFound means the complete document null.
	NullFound = "null"
)

func (e *NotArrayError) Error() string {
	return "the input is not a JSON array: it holds " + e.Found
}

// ReadError says at which element and byte reading ended.
type ReadError struct {
	// Index counts the elements that were read before, so it is the zero-based index of the bad one.
	Index int
	// Offset is the byte in the input.
	Offset int64
	// Err is the reason.
	Err error
}

func (e *ReadError) Error() string {
	return fmt.Sprintf("element %d, byte %d: %v", e.Index, e.Offset, e.Err)
}

func (e *ReadError) Unwrap() error { return e.Err }

// Reader reads a JSON array element by element. It holds one element and a chunk of the input in memory.
type Reader struct {
	in     io.Reader
	limits Limits
	buf    []byte // buf[pos:end] is read and not yet used
	pos    int
	end    int
	base   int64 // offset of buf[0] in the input
	index  int
	began  bool
	passed bool // the element in hand was too large and is behind us
	err    error
}

// NewReader returns a Reader of the array in r. It reads ahead of the array's end to see that nothing follows.
func NewReader(r io.Reader, limits Limits) *Reader {
	return &Reader{in: r, limits: limits.WithDefaults()}
}

// NewReaderAt returns a Reader that goes on behind an element: r begins at byte offset of the input, and index elements
// stand before that byte. With index 0 it reads from the start.
func NewReaderAt(r io.Reader, limits Limits, index int, offset int64) *Reader {
	reader := NewReader(r, limits)
	if index > 0 {
		reader.began, reader.index, reader.base = true, index, offset
	}
	return reader
}

// Next returns the next element as it stands in the input, its syntax checked. It is valid until the following
// call. At the end of the array, when nothing follows it, the error is io.EOF. Any other error is a *ReadError or a
// *NotArrayError, or one of these around the error of the underlying reader; after an error all calls return it, but
// after ErrTooLarge with Limits.PassOver.
func (r *Reader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	raw, err := r.next()
	if err != nil {
		var notArray *NotArrayError
		if !errors.Is(err, io.EOF) && !errors.As(err, &notArray) {
			err = &ReadError{Index: r.index, Offset: r.offset(), Err: err}
		}
		if r.passed {
			r.passed = false
			r.index++
			return nil, err
		}
		r.err = err
		return nil, err
	}
	r.index++
	return raw, nil
}

// Count returns how many elements were read.
func (r *Reader) Count() int { return r.index }

// Offset is the byte in the input behind the element that was read last.
func (r *Reader) Offset() int64 { return r.offset() }

func (r *Reader) offset() int64 { return r.base + int64(r.pos) }

func (r *Reader) next() ([]byte, error) {
	if !r.began {
		if err := r.begin(); err != nil {
			return nil, err
		}
	}
	c, err := r.skipSpace()
	if err != nil {
		return nil, truncated(err)
	}
	if c == ']' {
		r.pos++
		return nil, r.finish()
	}
	if r.index > 0 {
		if c != ',' {
			return nil, fmt.Errorf("%q where ',' or ']' was expected", c)
		}
		r.pos++
		if _, err = r.skipSpace(); err != nil {
			return nil, truncated(err)
		}
	}
	raw, err := r.element()
	if err != nil {
		return nil, err
	}
	if err := CheckValue(raw, r.limits.MaxDepth); err != nil {
		if syntax, ok := errors.AsType[*SyntaxError](err); ok {
			r.pos -= len(raw) - int(syntax.Offset)
			return nil, errors.New(syntax.Problem)
		}
		return nil, err
	}
	return raw, nil
}

// truncated turns the input's end into what it means inside the array.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return ErrTruncated
	}
	return err
}

var byteOrderMark = []byte("\uFEFF")

func (r *Reader) begin() error {
	for r.end-r.pos < len(byteOrderMark) {
		if err := r.fill(); err != nil {
			if !errors.Is(err, io.EOF) {
				return err
			}
			break
		}
	}
	if bytes.HasPrefix(r.buf[r.pos:r.end], byteOrderMark) {
		r.pos += len(byteOrderMark)
		if _, err := r.available(); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	if r.pos == r.end {
		return &NotArrayError{Found: NothingFound}
	}
	c, err := r.skipSpace()
	if errors.Is(err, io.EOF) {
		return &NotArrayError{Found: "white space only"}
	}
	if err != nil {
		return err
	}
	if c != '[' {
		return r.notArray(c)
	}
	r.pos++
	r.began = true
	return nil
}

func (r *Reader) notArray(c byte) error {
	switch c {
	case '{':
		return &NotArrayError{Found: "an object"}
	case '"':
		return &NotArrayError{Found: "a string"}
	case 'n':
		raw, err := r.element()
		if err == nil && string(raw) == "null" && errors.Is(r.finish(), io.EOF) {
			return &NotArrayError{Found: NullFound}
		}
	}
	return &NotArrayError{Found: fmt.Sprintf("text that begins with %q", c)}
}

// finish tells io.EOF if only white space is left.
func (r *Reader) finish() error {
	_, err := r.skipSpace()
	if err == nil {
		return ErrTrailingData
	}
	return err
}

// available makes sure that a byte is there and returns it.
func (r *Reader) available() (byte, error) {
	for r.pos == r.end {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	return r.buf[r.pos], nil
}

func (r *Reader) skipSpace() (byte, error) {
	for {
		c, err := r.available()
		if err != nil || !isSpace(c) {
			return c, err
		}
		r.pos++
	}
}

// fill reads more behind buf[pos:end], which it may move to the front.
func (r *Reader) fill() error {
	if r.pos > 0 && (r.pos == r.end || r.end == len(r.buf)) {
		r.base += int64(r.pos)
		copy(r.buf, r.buf[r.pos:r.end])
		r.end -= r.pos
		r.pos = 0
	}
	if r.end == len(r.buf) {
		grown := make([]byte, max(readerChunk, min(2*len(r.buf), r.limits.MaxElement+readerChunk)))
		copy(grown, r.buf[:r.end])
		r.buf = grown
	}
	for range 100 {
		n, err := r.in.Read(r.buf[r.end:])
		r.end += n
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// element finds the end of the value that begins at pos. It only minds brackets and quotes; the rest is checked
// when the value is complete.
func (r *Reader) element() ([]byte, error) {
	s := scanner{}
	length := 0
	for {
		n, done := s.scan(r.buf[r.pos+length : r.end])
		length += n
		if length > r.limits.MaxElement {
			return nil, r.tooLarge(&s, length, done)
		}
		if s.depth > r.limits.MaxDepth {
			return nil, fmt.Errorf("nested deeper than %d levels", r.limits.MaxDepth)
		}
		if done {
			break
		}
		if err := r.fill(); err != nil {
			if errors.Is(err, io.EOF) && s.scalar && !r.began {
				break // only a document that is not an array ends so
			}
			return nil, truncated(err)
		}
	}
	raw := r.buf[r.pos : r.pos+length]
	r.pos += length
	if length == 0 {
		return nil, fmt.Errorf("%q where a value was expected", r.buf[r.pos])
	}
	return raw, nil
}

// tooLarge ends an element of which length bytes were scanned, and which is done or goes on.
func (r *Reader) tooLarge(s *scanner, length int, done bool) error {
	if !r.limits.PassOver {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, r.limits.MaxElement)
	}
	total := int64(length)
	r.pos += length
	for !done {
		if err := r.fill(); err != nil {
			return truncated(err)
		}
		var n int
		n, done = s.scan(r.buf[r.pos:r.end])
		r.pos += n
		total += int64(n)
	}
	r.passed = true
	return fmt.Errorf("%w: %d bytes, at most %d are taken", ErrTooLarge, total, r.limits.MaxElement)
}

// scanner finds the end of one value across chunks.
type scanner struct {
	depth   int
	quoted  bool
	escaped bool
	scalar  bool
}

// scan returns how many bytes of chunk belong to the value and whether it ends there.
//
//nolint:gocognit // a state machine reads best in one place
func (s *scanner) scan(chunk []byte) (int, bool) {
	for i := range chunk {
		c := chunk[i]
		if s.quoted {
			switch {
			case s.escaped:
				s.escaped = false
			case c == '\\':
				s.escaped = true
			case c == '"':
				s.quoted = false
				if s.depth == 0 {
					return i + 1, true
				}
			}
			continue
		}
		switch c {
		case '"':
			if s.scalar {
				return i, true
			}
			s.quoted = true
		case '{', '[':
			if s.scalar {
				return i, true
			}
			s.depth++
		case '}', ']':
			if s.depth == 0 {
				return i, true
			}
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		case ',', ' ', '\t', '\r', '\n':
			if s.depth == 0 {
				return i, true
			}
		default:
			if s.depth == 0 {
				s.scalar = true
			}
		}
	}
	return len(chunk), false
}

// Writer writes a JSON array element by element.
type Writer struct {
	out     *bufio.Writer
	scratch []byte
	count   int
	err     error
}

// NewWriter returns a Writer. Nothing is complete before Close.
func NewWriter(w io.Writer) *Writer {
	return &Writer{out: bufio.NewWriterSize(w, readerChunk)}
}

// Write appends a finding.
func (w *Writer) Write(f *Finding) error {
	raw, err := f.AppendJSON(w.scratch[:0])
	if err != nil {
		return fmt.Errorf("finding %d: %w", w.count, err)
	}
	w.scratch = raw
	return w.WriteRaw(raw)
}

// WriteRaw appends one JSON value as it is; the caller vouches for its syntax.
func (w *Writer) WriteRaw(raw []byte) error {
	separator := byte(',')
	if w.count == 0 {
		separator = '['
	}
	if w.err == nil {
		w.err = w.out.WriteByte(separator)
	}
	if w.err == nil {
		_, w.err = w.out.Write(raw)
	}
	w.count++
	return w.err
}

// Count returns how many elements were written.
func (w *Writer) Count() int { return w.count }

// Close ends the array and flushes. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	end := "]"
	if w.count == 0 {
		end = "[]"
	}
	if _, w.err = w.out.WriteString(end); w.err == nil {
		w.err = w.out.Flush()
	}
	err := w.err
	if err == nil {
		w.err = errors.New("writer is closed")
	}
	return err
}
