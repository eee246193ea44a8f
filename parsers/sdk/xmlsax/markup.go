// SPDX-License-Identifier: Apache-2.0

package xmlsax

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// markup reads markup that begins with '<' at pos. The kind is 0 for markup that the caller does not get.
func (r *Reader) markup() (Kind, error) {
	// White space may follow the '<'.
	length := 1
	for {
		if err := r.need(length + 1); err != nil {
			return 0, err
		}
		if !isSpace(r.buf[r.pos+length]) {
			break
		}
		if length++; length > r.limits.MaxTag {
			return 0, r.tooLarge("tag", r.limits.MaxTag)
		}
	}
	switch r.buf[r.pos+length] {
	case '/':
		return r.closeTag(length + 1)
	case '?':
		r.pos += length + 1
		return 0, r.skipInstruction()
	case '!':
		r.pos += length + 1
		return r.declaration()
	}
	return r.openTag(length)
}

func (r *Reader) tooLarge(what string, limit int) error {
	return fmt.Errorf("%w: a %s of more than %d bytes", ErrTooLarge, what, limit)
}

// openTag reads a start tag whose name begins at pos+from.
func (r *Reader) openTag(from int) (Kind, error) {
	length, err := r.tagLength(from)
	if err != nil {
		return 0, err
	}
	tag := r.buf[r.pos+from : r.pos+length-1] // without < and >
	nameEnd := nameLength(tag)
	if nameEnd == 0 {
		return 0, fmt.Errorf("%q where the name of a tag was expected", sample(tag))
	}
	if err := r.push(tag[:nameEnd]); err != nil {
		return 0, err
	}
	if err := r.readAttributes(tag[nameEnd:]); err != nil {
		return 0, err
	}
	r.pos += length
	r.sawRoot = true
	return Start, nil
}

// tagLength finds the '>' that ends a start tag, outside of quotes.
//
//nolint:gocognit // a state machine reads best in one place
func (r *Reader) tagLength(from int) (int, error) {
	var quote byte
	for i := from; ; {
		window := r.buf[r.pos:r.end]
		for i < len(window) {
			if quote != 0 {
				j := bytes.IndexByte(window[i:], quote)
				if j < 0 {
					i = len(window)
					break
				}
				i += j + 1
				quote = 0
				continue
			}
			switch c := window[i]; c {
			case '"', '\'':
				quote = c
			case '>':
				if i+1 > r.limits.MaxTag {
					return 0, r.tooLarge("tag", r.limits.MaxTag)
				}
				return i + 1, nil
			}
			i++
		}
		if i > r.limits.MaxTag {
			return 0, r.tooLarge("tag", r.limits.MaxTag)
		}
		if err := r.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				return 0, fmt.Errorf("%w: inside the tag %q", ErrTruncated, sample(r.buf[r.pos:r.end]))
			}
			return 0, err
		}
	}
}

// push remembers an open element.
func (r *Reader) push(name []byte) error {
	if len(name) > r.limits.MaxName {
		return r.tooLarge("name", r.limits.MaxName)
	}
	if len(r.starts) >= r.limits.MaxDepth {
		return fmt.Errorf("%w: elements nested deeper than %d", ErrTooLarge, r.limits.MaxDepth)
	}
	from := len(r.names)
	r.starts = append(r.starts, from)
	r.names = append(r.names, name...)
	r.name = r.names[from:len(r.names):len(r.names)]
	return nil
}

// readAttributes reads what follows the name in a start tag.
func (r *Reader) readAttributes(rest []byte) error {
	r.attrs = r.attrs[:0]
	r.scratch = r.scratch[:0]
	spaced := false
	for {
		i := spaceLength(rest)
		spaced = spaced || i > 0
		rest = rest[i:]
		if len(rest) == 0 {
			return nil
		}
		if rest[0] == '/' {
			if len(rest) > 1 {
				return errors.New("'/' in a tag that is not followed by '>'")
			}
			r.toClose = true
			return nil
		}
		if !spaced {
			return fmt.Errorf("%q where white space was expected in a tag", sample(rest))
		}
		if len(r.attrs) >= r.limits.MaxAttributes {
			return fmt.Errorf("%w: a tag with more than %d attributes", ErrTooLarge, r.limits.MaxAttributes)
		}
		var err error
		if rest, err = r.readAttribute(rest); err != nil {
			return err
		}
		spaced = false
	}
}

// readAttribute reads one attribute and returns what follows it.
func (r *Reader) readAttribute(rest []byte) ([]byte, error) {
	n := nameLength(rest)
	if n == 0 {
		return nil, fmt.Errorf("%q where the name of an attribute was expected", sample(rest))
	}
	if n > r.limits.MaxName {
		return nil, r.tooLarge("name", r.limits.MaxName)
	}
	name := rest[:n]
	rest = rest[n:]
	rest = rest[spaceLength(rest):]
	if len(rest) == 0 || rest[0] != '=' {
		return nil, fmt.Errorf("attribute %q has no value", sample(name))
	}
	rest = rest[1:]
	rest = rest[spaceLength(rest):]
	if len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
		return nil, fmt.Errorf("the value of attribute %q is not quoted", sample(name))
	}
	quote := rest[0]
	rest = rest[1:]
	end := bytes.IndexByte(rest, quote)
	if end < 0 {
		return nil, fmt.Errorf("the value of attribute %q does not end", sample(name))
	}
	value, err := r.resolve(rest[:end])
	if err != nil {
		return nil, fmt.Errorf("attribute %q: %w", sample(name), err)
	}
	r.attrs = append(r.attrs, attribute{name: name, value: value})
	return rest[end+1:], nil
}

func spaceLength(b []byte) int {
	n := 0
	for n < len(b) && isSpace(b[n]) {
		n++
	}
	return n
}

// closeTag reads an end tag whose name may begin at pos+from.
func (r *Reader) closeTag(from int) (Kind, error) {
	length := from
	for {
		i := bytes.IndexByte(r.buf[r.pos+length:r.end], '>')
		if i >= 0 {
			length += i
			break
		}
		length = r.end - r.pos
		if length > r.limits.MaxTag {
			return 0, r.tooLarge("tag", r.limits.MaxTag)
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	name := r.buf[r.pos+from : r.pos+length]
	name = name[spaceLength(name):]
	n := nameLength(name)
	if n == 0 || spaceLength(name[n:]) < len(name)-n {
		return 0, fmt.Errorf("invalid end tag %q", sample(name))
	}
	if len(r.starts) == 0 {
		return 0, fmt.Errorf("end tag %q without a start", sample(name[:n]))
	}
	open := r.names[r.starts[len(r.starts)-1]:]
	if !bytes.Equal(open, name[:n]) {
		return 0, fmt.Errorf("end tag %q where that of %q was expected", sample(name[:n]), sample(open))
	}
	r.pos += length + 1
	return r.closeElement()
}

// closeElement gives the End of the innermost element.
func (r *Reader) closeElement() (Kind, error) {
	r.attrs = r.attrs[:0]
	r.name = r.names[r.starts[len(r.starts)-1]:]
	r.toPop = true
	return End, nil
}

// skipInstruction passes over a processing instruction: a '?' that is not followed by '>' hides the byte after it.
func (r *Reader) skipInstruction() error {
	for {
		if err := r.skipTo('?'); err != nil {
			return err
		}
		if err := r.need(1); err != nil {
			return err
		}
		r.pos++
		if r.buf[r.pos-1] == '>' {
			return nil
		}
	}
}

// skipTo moves behind the next c.
func (r *Reader) skipTo(c byte) error {
	for {
		if err := r.need(1); err != nil {
			return err
		}
		if i := bytes.IndexByte(r.buf[r.pos:r.end], c); i >= 0 {
			r.pos += i + 1
			return nil
		}
		r.pos = r.end
	}
}

// declaration reads what begins with "<!".
func (r *Reader) declaration() (Kind, error) {
	if err := r.need(keywordReach); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	ahead := r.buf[r.pos:min(r.end, r.pos+keywordReach)]
	switch {
	case bytes.HasPrefix(ahead, []byte("--")):
		r.pos += 2
		return 0, r.skipComment()
	case hasPrefixFold(ahead, "[CDATA["):
		r.pos += len("[CDATA[")
		return r.cdata()
	case hasPrefixFold(ahead, "DOCTYPE"):
		r.pos += len("DOCTYPE")
		if r.doctype || r.sawRoot {
			return 0, errors.New("DOCTYPE in a wrong place")
		}
		r.doctype = true
		return 0, r.skipDoctype()
	}
	return 0, r.skipDeclaration()
}

func hasPrefixFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && bytes.EqualFold(b[:len(prefix)], []byte(prefix))
}

// skipDeclaration passes over "<!anything>".
func (r *Reader) skipDeclaration() error {
	for {
		if err := r.need(1); err != nil {
			return err
		}
		c := r.buf[r.pos]
		r.pos++
		switch c {
		case '>':
			return nil
		case '"', '\'':
			return errors.New("quotes in a declaration outside of DOCTYPE")
		}
	}
}

func (r *Reader) skipComment() error {
	for {
		if err := r.skipTo('-'); err != nil {
			return err
		}
		if err := r.need(1); err != nil {
			return err
		}
		if r.buf[r.pos] != '-' {
			continue
		}
		if err := r.need(2); err != nil {
			return err
		}
		if r.buf[r.pos+1] != '>' {
			return errors.New("'--' inside a comment")
		}
		r.pos += 2
		return nil
	}
}

// skipDoctype passes over a DOCTYPE with its internal subset. Nothing that it declares has any effect.
//
//nolint:gocognit // a state machine reads best in one place
func (r *Reader) skipDoctype() error {
	inside := false
	for {
		if err := r.need(1); err != nil {
			return err
		}
		c := r.buf[r.pos]
		r.pos++
		switch {
		case c == '"' || c == '\'':
			if err := r.skipTo(c); err != nil {
				return err
			}
		case c == '[':
			inside = true
		case c == ']':
			inside = false
		case c == '>' && !inside:
			return nil
		case c == '<' && inside:
			if err := r.need(3); err != nil {
				return err
			}
			if string(r.buf[r.pos:r.pos+3]) == "!--" {
				r.pos += 3
				if err := r.skipComment(); err != nil {
					return err
				}
			}
		}
	}
}

// cdata gives a CDATA section as text, in as many pieces as it takes. The kind is 0 at its end.
func (r *Reader) cdata() (Kind, error) {
	if len(r.starts) == 0 {
		return 0, r.skipCDATA()
	}
	for {
		window := r.buf[r.pos:r.end]
		length := bytes.Index(window, cdataEnd)
		r.inCDATA = length < 0
		skip := len(cdataEnd)
		if r.inCDATA {
			skip = 0
			length = wholeChars(window[:max(0, len(window)-len(cdataEnd)+1)])
		}
		if r.inCDATA && length < chunk/2 {
			if err := r.fill(); err != nil {
				return 0, err
			}
			continue
		}
		r.pos += length + skip
		if length == 0 {
			return 0, nil
		}
		r.text = value{bytes: window[:length]}
		return Text, nil
	}
}

var cdataEnd = []byte("]]>")

// skipCDATA passes over a section outside of the root element, which has no effect.
func (r *Reader) skipCDATA() error {
	for {
		if err := r.skipTo(']'); err != nil {
			return err
		}
		if err := r.need(2); err != nil {
			return err
		}
		if string(r.buf[r.pos:r.pos+2]) == "]>" {
			r.pos += 2
			return nil
		}
	}
}
