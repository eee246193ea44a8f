// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf16"

	"github.com/scanyard/scanyard/apis/finding"
)

// MaxOutput is how long a rendered text may be where nothing else was said.
const MaxOutput = 4 << 20

// ErrTooLong says that a rendered text is longer than its bound.
var ErrTooLong = errors.New("the rendered text is too long")

const (
	// maxDepth bounds lambdas that render themselves.
	maxDepth = 50
	// maxRounds bounds lists inside lists, which may print nothing.
	maxRounds = 1_000_000
)

// Lambda is a section function: {{#name}}text{{/name}} prints what it makes of the text between, which is not rendered
// yet; render does that, in the section's context.
type Lambda func(text string, render func(template string) (string, error)) (string, error)

// Mustache is a parsed mustache template. It may be used by many goroutines.
type Mustache struct {
	parsed

	// lambda is what the last function had rendered: most templates have one function, and it asks for the same.
	lambda atomic.Pointer[parsed]
}

type parsed struct {
	text  string
	nodes []node
}

// ParseMustache reads a template. Text without tags is one, too.
func ParseMustache(text string) (*Mustache, error) {
	nodes, err := parseMustache(text)
	if err != nil {
		return nil, err
	}
	return &Mustache{parsed: parsed{text, nodes}}, nil
}

// RenderMustache parses and renders at once.
func RenderMustache(text string, data any) (string, error) { //nolint:revive // the name says which of the two engines
	if !strings.Contains(text, "{{") {
		return text, nil
	}
	m, err := ParseMustache(text)
	if err != nil {
		return "", err
	}
	return m.Render(data)
}

// Render fills the template from data: nil, bool, string, numbers, lists and maps as encoding/json or package finding
// decode them, []string, map[string]string, a [Lambda], or any mixture of them.
func (m *Mustache) Render(data any) (string, error) {
	r := &mustacheRun{template: m, limit: MaxOutput, rounds: new(int)}
	if err := r.nodes(m.text, m.nodes, &scope{view: data}); err != nil {
		return "", err
	}
	return r.out.String(), nil
}

type mustacheRun struct {
	template *Mustache
	out      strings.Builder
	limit    int
	depth    int
	rounds   *int // so far, in all lists
}

// scope is a context with what it is nested in.
type scope struct {
	view   any
	parent *scope
}

func (r *mustacheRun) write(text string) error {
	if r.out.Len()+len(text) > r.limit {
		return fmt.Errorf("%w: more than %d bytes", ErrTooLong, r.limit)
	}
	r.out.WriteString(text)
	return nil
}

func (r *mustacheRun) nodes(text string, nodes []node, s *scope) error {
	for i := range nodes {
		n := &nodes[i]
		var err error
		switch n.kind {
		case kindText:
			err = r.write(n.text)
		case kindEscaped, kindPlain:
			err = r.variable(n, s)
		case kindInverted:
			if v := s.lookup(n); !truthy(v) || isEmptyList(v) {
				err = r.nodes(text, n.inner, s)
			}
		case kindSection:
			err = r.section(text, n, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *mustacheRun) variable(n *node, s *scope) error {
	v := s.lookup(n)
	if _, ok := v.(Lambda); ok || v == nil {
		return nil
	}
	text := finding.ToString(v)
	if n.kind == kindEscaped && !isNumber(v) {
		text = escape(text)
	}
	return r.write(text)
}

func (r *mustacheRun) section(text string, n *node, s *scope) error {
	v := s.lookup(n)
	if lambda, ok := v.(Lambda); ok {
		return r.lambda(text[n.innerStart:n.innerEnd], lambda, s)
	}
	if !truthy(v) {
		return nil
	}
	if list, ok := v.([]any); ok {
		for _, element := range list {
			if *r.rounds++; *r.rounds > maxRounds {
				return fmt.Errorf("%w: more than %d rounds through lists", ErrTooSlow, maxRounds)
			}
			if err := r.nodes(text, n.inner, &scope{element, s}); err != nil {
				return err
			}
		}
		return nil
	}
	if v != true {
		s = &scope{v, s}
	}
	return r.nodes(text, n.inner, s)
}

func (r *mustacheRun) lambda(inner string, lambda Lambda, s *scope) error {
	if r.depth >= maxDepth {
		return fmt.Errorf("sections with functions are nested more than %d deep", maxDepth)
	}
	text, err := lambda(inner, func(template string) (string, error) {
		p, err := r.template.parse(template)
		if err != nil {
			return "", err
		}
		sub := &mustacheRun{template: r.template, limit: r.limit, depth: r.depth + 1, rounds: r.rounds}
		if err := sub.nodes(p.text, p.nodes, s); err != nil {
			return "", err
		}
		return sub.out.String(), nil
	})
	if err != nil {
		return err
	}
	return r.write(text)
}

// parse is for what functions have rendered.
func (m *Mustache) parse(text string) (*parsed, error) {
	if last := m.lambda.Load(); last != nil && last.text == text {
		return last, nil
	}
	nodes, err := parseMustache(text)
	if err != nil {
		return nil, err
	}
	p := &parsed{text, nodes}
	m.lambda.Store(p)
	return p, nil
}

// lookup finds a name in the scope or one around it. The values it returns are of the types that truthy and section
// know. What is not there is nil.
func (s *scope) lookup(n *node) any {
	if n.text == "." {
		return plain(s.view)
	}
	for ; s != nil; s = s.parent {
		if n.path != nil {
			if v, ok := path(s.view, n.path); ok {
				return v
			}
			continue
		}
		if v, ok := property(s.view, n.text); ok {
			return v
		}
	}
	return nil
}

// path follows names. Only whether the last is there decides; those before it may be properties of a text as well.
func path(v any, names []string) (any, bool) {
	for i, name := range names {
		if v = plain(v); v == nil {
			return nil, false
		}
		next, ok := property(v, name)
		if !ok {
			next, ok = ofText(v, name)
		}
		if i == len(names)-1 {
			return next, ok
		}
		v = next
	}
	return nil, false
}

// property is a key of an object, or an index or the length of a list.
func property(v any, name string) (any, bool) {
	switch v := plain(v).(type) {
	case map[string]any:
		member, ok := v[name]
		return plain(member), ok
	case finding.Object:
		member, ok := v.Get(name)
		if text, isText := member.(finding.Text); isText && text.IsAbsent() {
			return nil, false
		}
		return plain(member), ok
	case []any:
		if name == "length" {
			return float64(len(v)), true
		}
		if i, ok := index(name, len(v)); ok {
			return plain(v[i]), true
		}
	}
	return nil, false
}

// ofText is a character or the length of a text, in UTF-16 units as JavaScript counts.
func ofText(v any, name string) (any, bool) {
	text, ok := v.(string)
	if !ok {
		return nil, false
	}
	units := utf16.Encode([]rune(text))
	if name == "length" {
		return float64(len(units)), true
	}
	if i, ok := index(name, len(units)); ok {
		return string(utf16.Decode(units[i : i+1])), true
	}
	return nil, false
}

func index(name string, length int) (int, bool) {
	i, err := strconv.Atoi(name)
	return i, err == nil && i >= 0 && i < length && strconv.Itoa(i) == name
}

// plain turns the other ways to write a value in Go into those that decoding gives.
func plain(v any) any {
	switch v := v.(type) {
	case finding.Text:
		if text, ok := v.Get(); ok {
			return text
		}
		return nil
	case *string:
		if v == nil {
			return nil
		}
		return *v
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case int32:
		return float64(v)
	case []string:
		return widen(v)
	case []finding.Object:
		return widen(v)
	case []map[string]any:
		return widen(v)
	case map[string]string:
		members := make(map[string]any, len(v))
		for key, value := range v {
			members[key] = value
		}
		return members
	case func(string, func(string) (string, error)) (string, error):
		return Lambda(v)
	}
	return v
}

func widen[T any](list []T) any {
	wide := make([]any, len(list))
	for i, element := range list {
		wide[i] = element
	}
	return wide
}

func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case float64:
		return v != 0 && !math.IsNaN(v)
	}
	return true
}

func isEmptyList(v any) bool {
	list, ok := v.([]any)
	return ok && len(list) == 0
}

func isNumber(v any) bool {
	_, ok := v.(float64)
	return ok
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;", "/", "&#x2F;", "`", "&#x60;", "=", "&#x3D;")

func escape(text string) string { return escaper.Replace(text) }
