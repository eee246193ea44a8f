// SPDX-License-Identifier: Apache-2.0

package xmlsax

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/scanyard/scanyard/apis/finding"
)

// Kind says what Next has found.
type Kind uint8

// The kinds of tokens.
const (
	// Start is the start of an element; Name and the attributes are set. An empty element (<a/>) gives Start and End.
	Start Kind = iota + 1
	// End is the end of an element; Name is set.
	End
	// Text is a piece of text inside the root element.
	Text
)

// Limits bound what a Reader takes from a stranger. Zero fields take the defaults.
type Limits struct {
	// MaxTag is the largest tag in bytes, attributes included. Default 8 MiB.
	MaxTag int
	// MaxName is the longest name in bytes. Default 1 KiB.
	MaxName int
	// MaxAttributes is how many attributes a tag may have. Default 1024.
	MaxAttributes int
	// MaxDepth is how deep elements may be nested. Default 256.
	MaxDepth int
}

const (
	chunk            = 64 << 10
	maxEntity        = 256 // more than any name or number with a few leading zeros
	defaultMaxTag    = 8 << 20
	defaultMaxName   = 1 << 10
	defaultMaxAttr   = 1024
	defaultMaxDepth  = 256
	leadingMarks     = 3 // byte order marks that are passed over
	keywordReach     = 8 // the longest of "--", "[CDATA[", "DOCTYPE" and a byte more
	maxProblemSample = 20
)

// Error says where and why the input is not the XML it should be.
type Error struct {
	// Line counts from 1, Offset from 0, in bytes.
	Line, Offset int64
	// Err is the reason.
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, byte %d: %v", e.Line, e.Offset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// ErrTruncated says that the input ends before the root element does.
var ErrTruncated = errors.New("the input ends before the document does")

// ErrTooLarge says that a limit was passed.
var ErrTooLarge = errors.New("too large")

// value is a text of the document. What was put together from references is valid UTF-8 already, but for surrogates.
type value struct {
	bytes    []byte
	resolved bool
}

type attribute struct {
	name  []byte
	value value
}

// Reader reads one document. It is for one goroutine.
type Reader struct {
	in     io.Reader
	limits Limits

	buf   []byte // buf[pos:end] is read and not yet used
	pos   int
	end   int
	base  int64 // offset of buf[0]
	lines int64 // line ends before buf[0]
	atEOF bool

	names   []byte // names of the open elements, one after the other
	starts  []int  // where each begins
	sawRoot bool
	doctype bool
	done    bool
	toClose bool // the last Start was an empty element's
	toPop   bool // the last End was given, its name is still on the stack
	inCDATA bool // pos is inside a CDATA section
	err     error

	name    []byte
	text    value
	attrs   []attribute
	scratch []byte // decoded values of the current tag or text
	clean   []byte // what Attr or Text gave, made valid UTF-8
}

// NewReader returns a Reader of the document in r.
func NewReader(r io.Reader, limits Limits) *Reader {
	for _, l := range []struct {
		field *int
		value int
	}{
		{&limits.MaxTag, defaultMaxTag},
		{&limits.MaxName, defaultMaxName},
		{&limits.MaxAttributes, defaultMaxAttr},
		{&limits.MaxDepth, defaultMaxDepth},
	} {
		if *l.field <= 0 {
			*l.field = l.value
		}
	}
	return &Reader{in: r, limits: limits, buf: make([]byte, chunk)}
}

// Depth returns how many elements are open: 1 at the Start of the root, and still 1 at its End.
func (r *Reader) Depth() int { return len(r.starts) }

// Name returns the name of the current element with its prefix, valid until the next call of Next.
func (r *Reader) Name() []byte { return r.name }

// Text returns the current piece of text, valid until the next call of any method.
func (r *Reader) Text() []byte { return r.valid(r.text) }

// Attr returns the value of an attribute of the current Start, valid until the next call of any method. Of a repeated
// attribute the first counts.
func (r *Reader) Attr(name string) ([]byte, bool) {
	for i := range r.attrs {
		if string(r.attrs[i].name) == name {
			return r.valid(r.attrs[i].value), true
		}
	}
	return nil, false
}

// AttrCount returns how many attributes the current Start has, repeated ones included.
func (r *Reader) AttrCount() int { return len(r.attrs) }

// AttrAt returns name and value of the attribute at i, in the order of the document.
func (r *Reader) AttrAt(i int) (name, value []byte) {
	return r.attrs[i].name, r.valid(r.attrs[i].value)
}

// Line returns the line that reading has come to, from 1.
func (r *Reader) Line() int64 {
	return r.lines + int64(bytes.Count(r.buf[:r.pos], newline)) + 1
}

// valid replaces invalid UTF-8. Surrogates that came from character references stay, see package finding.
func (r *Reader) valid(v value) []byte {
	if v.resolved || utf8.Valid(v.bytes) {
		return v.bytes
	}
	r.clean = finding.AppendUTF8(r.clean[:0], v.bytes)
	return r.clean
}

var newline = []byte{'\n'}

// Next moves to the next token. After the end of the root element it returns io.EOF; any other error is an *Error, or
// wraps the error of the underlying reader in one, and stays.
func (r *Reader) Next() (Kind, error) {
	if r.err != nil {
		return 0, r.err
	}
	kind, err := r.next()
	if err != nil {
		if !errors.Is(err, io.EOF) || !r.done {
			if errors.Is(err, io.EOF) {
				err = ErrTruncated
			}
			err = &Error{Line: r.Line(), Offset: r.base + int64(r.pos), Err: err}
		}
		r.err = err
	}
	return kind, err
}

//
//nolint:gocognit // a state machine reads best in one place
func (r *Reader) next() (Kind, error) {
	if r.toClose {
		r.toClose = false
		return r.closeElement()
	}
	if r.inCDATA {
		if kind, err := r.cdata(); err != nil || kind != 0 {
			return kind, err
		}
	}
	if r.toPop {
		r.toPop = false
		last := len(r.starts) - 1
		r.names = r.names[:r.starts[last]]
		r.starts = r.starts[:last]
		r.done = last == 0
	}
	if r.done {
		return 0, io.EOF
	}
	if r.base == 0 && r.pos == 0 && r.end == 0 {
		if err := r.skipMarks(); err != nil {
			return 0, err
		}
	}
	for {
		if err := r.need(1); err != nil {
			return 0, err
		}
		if r.buf[r.pos] != '<' {
			got, err := r.readText()
			if err != nil || got {
				return Text, err
			}
			continue
		}
		kind, err := r.markup()
		if err != nil || kind != 0 {
			return kind, err
		}
	}
}

func (r *Reader) skipMarks() error {
	for range leadingMarks {
		if err := r.need(3); err != nil {
			if errors.Is(err, io.EOF) {
				return nil // too short for a mark; what is there is looked at next
			}
			return err
		}
		if string(r.buf[r.pos:r.pos+3]) != "\uFEFF" {
			return nil
		}
		r.pos += 3
	}
	return nil
}

// need makes sure that n bytes are in the window; io.EOF if the input has less.
func (r *Reader) need(n int) error {
	for r.end-r.pos < n {
		if err := r.fill(); err != nil {
			return err
		}
	}
	return nil
}

// fill reads more behind buf[pos:end], which moves to the front. Slices into buf are invalid afterwards.
func (r *Reader) fill() error {
	if r.atEOF {
		return io.EOF
	}
	if r.pos > 0 {
		r.lines += int64(bytes.Count(r.buf[:r.pos], newline))
		r.base += int64(r.pos)
		copy(r.buf, r.buf[r.pos:r.end])
		r.end -= r.pos
		r.pos = 0
	}
	if r.end == len(r.buf) {
		grown := make([]byte, 2*len(r.buf))
		copy(grown, r.buf[:r.end])
		r.buf = grown
	}
	for range 100 {
		n, err := r.in.Read(r.buf[r.end:])
		r.end += n
		if errors.Is(err, io.EOF) {
			r.atEOF = true
			err = nil
			if n == 0 {
				return io.EOF
			}
		}
		if n > 0 || err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// readText reads text up to the next tag, or as much of it as the window holds. It reports whether there is text for the
// caller: outside of the root there is none.
func (r *Reader) readText() (bool, error) {
	window := r.buf[r.pos:r.end]
	length := bytes.IndexByte(window, '<')
	if length < 0 {
		length = safeEnd(window, r.atEOF)
		if length == 0 {
			return false, r.fill() // an entity or a character continues beyond the window
		}
	}
	raw := window[:length]
	if len(r.starts) == 0 {
		return false, r.outside(raw)
	}
	r.scratch = r.scratch[:0]
	text, err := r.resolve(raw)
	if err != nil {
		return false, err
	}
	r.pos += length
	r.text = text
	return length > 0, nil
}

// outside passes over white space around the root element.
func (r *Reader) outside(raw []byte) error {
	for i, c := range raw {
		if !isSpace(c) {
			r.pos += i
			return fmt.Errorf("text %q outside of the root element", sample(raw[i:]))
		}
	}
	r.pos += len(raw)
	return nil
}

// safeEnd returns where text without a '<' can be cut without cutting an entity or a character.
func safeEnd(window []byte, atEOF bool) int {
	end := len(window)
	if atEOF {
		return end
	}
	if amp := bytes.LastIndexByte(window, '&'); amp >= 0 && end-amp <= maxEntity &&
		bytes.IndexByte(window[amp:], ';') < 0 {
		return amp
	}
	return wholeChars(window)
}

// wholeChars returns how much of b is left when a character that is cut at its end is left out.
func wholeChars(b []byte) int {
	end := len(b)
	for back := 1; back < utf8.UTFMax && back <= end; back++ {
		if c := b[end-back]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[end-back:]) {
				return end - back
			}
			break
		}
	}
	return end
}

// resolve replaces references. Without any the result is raw itself; else it is behind what scratch holds already.
func (r *Reader) resolve(raw []byte) (value, error) {
	amp := bytes.IndexByte(raw, '&')
	if amp < 0 {
		return value{bytes: raw}, nil
	}
	from := len(r.scratch)
	for amp >= 0 {
		r.scratch = appendRaw(r.scratch, raw[:amp])
		raw = raw[amp+1:]
		semicolon := bytes.IndexByte(raw[:min(len(raw), maxEntity)], ';')
		if semicolon < 0 {
			return value{}, fmt.Errorf("'&' that begins no entity, at %q", sample(raw))
		}
		var err error
		if r.scratch, err = appendEntity(r.scratch, raw[:semicolon]); err != nil {
			return value{}, err
		}
		raw = raw[semicolon+1:]
		amp = bytes.IndexByte(raw, '&')
	}
	r.scratch = appendRaw(r.scratch, raw)
	return value{bytes: r.scratch[from:len(r.scratch):len(r.scratch)], resolved: true}, nil
}

// appendRaw makes text valid before it is mixed with references, since a surrogate from a reference must differ from the same
// three bytes in the input, which are invalid there.
func appendRaw(dst, raw []byte) []byte {
	if utf8.Valid(raw) {
		return append(dst, raw...)
	}
	return finding.AppendUTF8(dst, raw)
}

func sample(b []byte) []byte { return b[:min(len(b), maxProblemSample)] }

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
