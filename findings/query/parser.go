// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of an expression.
const (
	MaxLength = 4 << 10 // bytes
	MaxDepth  = 20      // parentheses in parentheses
	MaxTerms  = 50
	MaxValues = 500 // of one list of in
)

// Parse reads an expression. White space alone is true for every finding. Errors are *SyntaxError.
//
//	expression = all { "||" all }
//	all        = one { "&&" one }
//	one        = { "!" } ( "(" expression ")" | term )
//	term       = field ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value
//	           | field "in" "[" value { "," value } "]"
//	           | field "." ( "startsWith" | "contains" ) "(" text ")"
//	           | "has" "(" field ")"
//	           | field                                              of true or false
func Parse(expression string) (Node, error) {
	if len(expression) > MaxLength {
		return nil, &SyntaxError{Position: 1, Message: fmt.Sprintf("expected %d bytes at most, found %d", MaxLength, len(expression))}
	}
	return parse(expression)
}

func parse(expression string) (Node, error) {
	p := &parser{lexer: lexer{rest: expression, position: 1}}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.token.kind == end {
		return And{}, nil
	}
	node, err := p.expression()
	if err != nil {
		return nil, err
	}
	if p.token.kind != end {
		return nil, p.expected("&&, || or the end")
	}
	return node, nil
}

// parser reads by recursive descent, one token ahead.
type parser struct {
	lexer lexer
	token token
	depth int
	terms int
}

func (p *parser) advance() (err error) {
	p.token, err = p.lexer.next()
	return err
}

func (p *parser) expected(what string) error {
	return p.fail(p.token, "expected %s, found %s", what, p.token)
}

func (p *parser) fail(at token, format string, args ...any) error {
	return &SyntaxError{Position: at.position, Message: fmt.Sprintf(format, args...)}
}

func (p *parser) isSign(s string) bool { return p.token.kind == sign && p.token.text == s }

func (p *parser) isWord(w string) bool { return p.token.kind == word && p.token.text == w }

// skip continues after a sign, which must be there.
func (p *parser) skip(s string) error {
	if !p.isSign(s) {
		return p.expected(s)
	}
	return p.advance()
}

func (p *parser) expression() (Node, error) {
	var parts Or
	err := p.list("||", func() error {
		node, err := p.all()
		if or, ok := node.(Or); ok {
			parts = append(parts, or...) // was in parentheses, which say nothing here
			return err
		}
		parts = append(parts, node)
		return err
	})
	if err == nil && len(parts) == 1 {
		return parts[0], nil
	}
	return parts, err
}

func (p *parser) all() (Node, error) {
	var parts []Node
	err := p.list("&&", func() error {
		node, err := p.one()
		parts = append(parts, node)
		return err
	})
	if err != nil {
		return nil, err
	}
	return join(parts...), nil
}

// list reads one or more, with a sign between them.
func (p *parser) list(between string, read func() error) error {
	for {
		if err := read(); err != nil {
			return err
		}
		if !p.isSign(between) {
			return nil
		}
		if err := p.advance(); err != nil {
			return err
		}
	}
}

func (p *parser) one() (Node, error) {
	var not, odd bool
	for p.isSign("!") {
		not, odd = true, !odd
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	read := func() (Node, error) { return p.term(not) }
	if p.isSign("(") {
		read = p.parenthesised
	}
	node, err := read()
	if err == nil && odd {
		return negate(node), nil
	}
	return node, err
}

func (p *parser) parenthesised() (Node, error) {
	if p.depth++; p.depth > MaxDepth {
		return nil, p.fail(p.token, "expected %d parentheses in each other at most", MaxDepth)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	node, err := p.expression()
	if err != nil {
		return nil, err
	}
	if !p.isSign(")") {
		return nil, p.expected("&&, || or )")
	}
	p.depth--
	return node, p.advance()
}

// term reads a term. Behind !, one with an operator must be in parentheses: other languages negate its field only.
func (p *parser) term(negated bool) (Node, error) {
	begin := p.token
	if p.terms++; p.terms > MaxTerms {
		return nil, p.fail(begin, "expected %d terms at most", MaxTerms)
	}
	if p.isWord("has") {
		return p.has()
	}
	field, method, err := p.field()
	switch {
	case err != nil:
		return nil, err
	case method != "":
		return p.call(field, method)
	case negated && field.Type() != Flag, negated && p.token.kind == sign && slices.Contains(field.Ops(), Op(p.token.text)):
		return nil, p.fail(begin, "expected ( behind !, found %s: a comparison is negated in parentheses", begin)
	case p.isWord("in"):
		return p.in(field)
	case field.Type() == Flag && !p.isOp():
		return Term{Field: field, Op: Equal, Values: []Value{{Flag: true}}}, nil
	}
	op := Op(p.token.text)
	if !p.isOp() || !slices.Contains(field.Ops(), op) {
		return nil, p.expected(opsOf(field))
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	value, err := p.value(field)
	return Term{Field: field, Op: op, Values: []Value{value}}, err
}

func (p *parser) isOp() bool {
	return p.token.kind == sign && slices.Contains([]Op{Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual}, Op(p.token.text))
}

// opsOf lists the operators that can follow a field.
func opsOf(field Field) string {
	var words []string
	for _, op := range field.Ops() {
		switch op {
		case Has:
		case StartsWith, Contains:
			words = append(words, "."+string(op)+"()")
		default:
			words = append(words, string(op))
		}
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func (p *parser) has() (Node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	if err := p.skip("("); err != nil {
		return nil, err
	}
	begin := p.token
	field, method, err := p.field()
	if err != nil {
		return nil, err
	}
	if method != "" || !slices.Contains(field.Ops(), Has) {
		return nil, p.fail(begin, "expected a field that may be absent")
	}
	return Term{Field: field, Op: Has}, p.skip(")")
}

// field reads a field, and the name of a method behind it, if there is one.
func (p *parser) field() (field Field, method string, err error) {
	begin := p.token
	if begin.kind != word {
		return "", "", p.expected("a field")
	}
	name := begin.text
	for {
		if err := p.advance(); err != nil {
			return "", "", err
		}
		if !p.isSign(".") {
			break
		}
		if err := p.advance(); err != nil {
			return "", "", err
		}
		if p.token.kind != word {
			return "", "", p.expected("a name")
		}
		if Field(name).isKnown() {
			return Field(name), p.token.text, nil
		}
		name += "." + p.token.text
	}
	if !Field(name).isKnown() {
		return "", "", p.fail(begin, "expected a field, found %s: the fields are %s", quote(name), fieldNames())
	}
	return Field(name), "", nil
}

func fieldNames() string {
	names := make([]string, 0, len(Fields))
	for _, field := range Fields {
		names = append(names, string(field))
	}
	return strings.Join(names, ", ")
}

// call reads a method of a field; its name is the present token.
func (p *parser) call(field Field, method string) (Node, error) {
	op := Op(method)
	if (op != StartsWith && op != Contains) || !slices.Contains(field.Ops(), op) {
		return nil, p.expected(opsOf(field))
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if err := p.skip("("); err != nil {
		return nil, err
	}
	value, err := p.value(field)
	if err != nil {
		return nil, err
	}
	return Term{Field: field, Op: op, Values: []Value{value}}, p.skip(")")
}

func (p *parser) in(field Field) (Node, error) {
	if !slices.Contains(field.Ops(), In) {
		return nil, p.expected(opsOf(field))
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if err := p.skip("["); err != nil {
		return nil, err
	}
	term := Term{Field: field, Op: In}
	err := p.list(",", func() error {
		if len(term.Values) == MaxValues {
			return p.fail(p.token, "expected %d values at most", MaxValues)
		}
		value, err := p.value(field)
		term.Values = append(term.Values, value)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !p.isSign("]") {
		return nil, p.expected(", or ]")
	}
	return term, p.advance()
}

// value reads a value of a field: numbers and flags as they are, all others in quotes.
func (p *parser) value(field Field) (Value, error) {
	want, kind := "a text in quotes", text
	switch field.Type() {
	case Number:
		want, kind = "a number", number
	case Flag:
		want, kind = "true or false", word
	case Text, Severity, Result, Time, Duration:
	}
	if p.token.kind != kind {
		return Value{}, p.expected(want)
	}
	value, err := valueOf(field.Type(), p.token.text)
	if err != nil {
		return Value{}, p.fail(p.token, "the value of %s %v", field, err)
	}
	return value, p.advance()
}
