// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	kindText kind = iota
	kindEscaped
	kindPlain
	kindSection
	kindInverted
)

// node is a piece of a template.
type node struct {
	kind kind
	// text is the text, or the name.
	text string
	// path are the parts of a name that goes down objects; nil for one that does not.
	path []string
	// inner is the content of a section, at innerStart to innerEnd of the template.
	inner                []node
	innerStart, innerEnd int
}

// parser reads a template from left to right. Lines that hold nothing but tags which print nothing vanish with their
// white space and line break.
type parser struct {
	text        string
	pos         int
	open, close string

	stack []*section
	// blanks are the places, in the list on top of the stack and those below, of the white space of this line.
	blanks          []place
	hasTag, visible bool
}

type section struct {
	node  node
	nodes []node // inside it
}

type place struct {
	section *section
	index   int
}

func parseMustache(text string) ([]node, error) {
	p := &parser{text: text, open: "{{", close: "}}", stack: []*section{{}}}
	for p.pos < len(p.text) {
		p.plainText()
		if p.pos >= len(p.text) {
			break
		}
		if err := p.tag(); err != nil {
			return nil, err
		}
	}
	p.endLine()
	if len(p.stack) > 1 {
		return nil, fmt.Errorf("section %q is not closed", p.top().node.text)
	}
	return p.stack[0].nodes, nil
}

func (p *parser) top() *section { return p.stack[len(p.stack)-1] }

func (p *parser) add(n node) {
	top := p.top()
	top.nodes = append(top.nodes, n)
}

// plainText takes the text before the next tag, in runs that are all white space or not.
func (p *parser) plainText() {
	end := len(p.text)
	if i := strings.Index(p.text[p.pos:], p.open); i >= 0 {
		end = p.pos + i
	}
	for p.pos < end {
		start := p.pos
		blank, newline := false, false
		for p.pos < end && !newline {
			c, size := utf8.DecodeRuneInString(p.text[p.pos:])
			if p.pos > start && isBlank(c) != blank {
				break
			}
			blank, newline = isBlank(c), c == '\n'
			p.pos += size
		}
		if blank {
			p.blanks = append(p.blanks, place{p.top(), len(p.top().nodes)})
		} else {
			p.visible = true
		}
		p.add(node{kind: kindText, text: p.text[start:p.pos]})
		if newline {
			p.endLine()
		}
	}
}

// endLine drops the white space of a line that holds only tags which print nothing.
func (p *parser) endLine() {
	if p.hasTag && !p.visible {
		for _, b := range p.blanks {
			b.section.drop(b.index)
		}
	}
	p.blanks, p.hasTag, p.visible = p.blanks[:0], false, false
}

// drop empties a text. The section may be closed already: then its node holds the same list.
func (s *section) drop(index int) { s.nodes[index].text = "" }

func (p *parser) tag() error {
	start := p.pos
	p.pos += len(p.open)
	p.hasTag = true
	p.skipBlank()
	sigil := byte(0)
	if p.pos < len(p.text) && strings.IndexByte("#^/>{&=!", p.text[p.pos]) >= 0 {
		sigil = p.text[p.pos]
		p.pos++
	}
	p.skipBlank()
	name, err := p.name(sigil)
	if err != nil {
		return err
	}
	switch sigil {
	case '#', '^':
		n := node{kind: kindSection, text: name, path: pathOf(name), innerStart: p.pos}
		if sigil == '^' {
			n.kind = kindInverted
		}
		p.stack = append(p.stack, &section{node: n})
	case '/':
		return p.closeSection(name, start)
	case '=':
		return p.delimiters(name)
	case '!', '>':
	case '{', '&':
		p.visible = true
		p.add(node{kind: kindPlain, text: name, path: pathOf(name)})
	default:
		p.visible = true
		p.add(node{kind: kindEscaped, text: name, path: pathOf(name)})
	}
	return nil
}

// pathOf splits a name at its points. A name that begins with a point is one name.
func pathOf(name string) []string {
	if strings.Index(name, ".") > 0 {
		return strings.Split(name, ".")
	}
	return nil
}

// name takes what is left of a tag, without the white space before its end.
func (p *parser) name(sigil byte) (string, error) {
	rest := p.text[p.pos:]
	var end, after int
	switch sigil {
	case '=':
		// The delimiters end at the next equals sign; whatever follows it up to the end of the tag is passed over.
		if end = strings.IndexByte(rest, '='); end < 0 {
			return "", p.unclosed()
		}
		after = strings.Index(rest[end+1:], p.close)
		if after < 0 {
			return "", p.unclosed()
		}
		after += end + 1
	case '{':
		if end = strings.Index(rest, "}"+p.close); end < 0 {
			return "", p.unclosed()
		}
		after = end + 1
	default:
		if end = strings.Index(rest, p.close); end < 0 {
			return "", p.unclosed()
		}
		after = end
	}
	p.pos += after + len(p.close)
	return strings.TrimRightFunc(rest[:end], isBlank), nil
}

func (p *parser) unclosed() error { return fmt.Errorf("a tag is not closed at %d", len(p.text)) }

func (p *parser) closeSection(name string, start int) error {
	if len(p.stack) == 1 {
		return fmt.Errorf("section %q is closed at %d and was never opened", name, start)
	}
	s := p.top()
	if s.node.text != name {
		return fmt.Errorf("section %q is closed at %d where %q is open", name, start, s.node.text)
	}
	p.stack = p.stack[:len(p.stack)-1]
	s.node.inner, s.node.innerEnd = s.nodes, start
	p.add(s.node)
	return nil
}

func (p *parser) delimiters(text string) error {
	pair := strings.FieldsFunc(text, isBlank)
	if len(pair) < 2 {
		return errors.New("new delimiters must be two, separated by white space")
	}
	p.open, p.close = pair[0], pair[1]
	return nil
}

func (p *parser) skipBlank() {
	rest := p.text[p.pos:]
	p.pos += len(rest) - len(strings.TrimLeftFunc(rest, isBlank))
}

// isBlank is \s of JavaScript's regular expressions.
func isBlank(c rune) bool {
	switch c {
	case '\t', '\n', '\v', '\f', '\r', ' ', 0xA0, 0xFEFF, 0x2028, 0x2029:
		return true
	}
	return unicode.Is(unicode.Zs, c)
}
