// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/Masterminds/sprig/v3"
)

// Defaults of Limits.
const (
	// DefaultTime is how long one rendering may take.
	DefaultTime = 10 * time.Second
	// maxRepeat bounds what functions that repeat may make.
	maxRepeat = 1 << 20
)

// ErrTooSlow says that a template took longer than its bound.
var ErrTooSlow = errors.New("the template takes too long")

// Limits bound one rendering. The zero value has the defaults.
type Limits struct {
	// Bytes is how long the text may become, MaxOutput where it is 0.
	Bytes int
	// Time is how long making it may take, DefaultTime where it is 0.
	Time time.Duration
	// Now is the clock that Time is measured with; the real one where it is nil.
	Now func() time.Time
}

// Text is a parsed Go template. Only one goroutine may use it at a time.
type Text struct {
	template *template.Template
	limits   Limits
	deadline time.Time
}

// The functions that are added to every template; to call them as well does no harm.
const (
	tickName  = "_tick"
	printName = "_print"
)

// ParseText reads a Go template. Its errors have the name.
func ParseText(name, text string, limits Limits) (*Text, error) {
	if limits.Bytes == 0 {
		limits.Bytes = MaxOutput
	}
	if limits.Time == 0 {
		limits.Time = DefaultTime
	}
	if limits.Now == nil {
		limits.Now = time.Now //nolint:forbidigo // the default of an injected clock
	}
	t := &Text{limits: limits}
	functions := Functions()
	functions[tickName] = t.tick
	functions[printName] = printed
	parsed, err := template.New(name).Option("missingkey=zero").Funcs(functions).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	for _, associated := range parsed.Templates() {
		if associated.Tree != nil && associated.Root != nil {
			instrument(associated.Tree, associated.Root)
		}
	}
	t.template = parsed
	return t, nil
}

// Render fills the template from data.
func (t *Text) Render(data any) (string, error) {
	t.deadline = t.limits.Now().Add(t.limits.Time)
	out := &bounded{text: t}
	if err := t.template.Execute(out, data); err != nil {
		return "", fmt.Errorf("render template: %w", err)
	}
	return out.String(), nil
}

func (t *Text) tick() (string, error) {
	if t.limits.Now().After(t.deadline) {
		return "", fmt.Errorf("%w: more than %s", ErrTooSlow, t.limits.Time)
	}
	return "", nil
}

// bounded takes the output.
type bounded struct {
	strings.Builder
	text *Text
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.text.limits.Bytes {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLong, b.text.limits.Bytes)
	}
	if _, err := b.text.tick(); err != nil {
		return 0, err
	}
	return b.Builder.Write(p) // a Builder has no errors
}

// printed makes nothing of nothing; text/template would write "<no value>".
func printed(v any) any {
	if v == nil {
		return ""
	}
	return v
}

// instrument lets each round of a loop and each call of a template look at the clock, and prints nil as nothing.
func instrument(tree *parse.Tree, list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			if len(n.Pipe.Decl) == 0 {
				n.Pipe.Cmds = append(n.Pipe.Cmds, command(tree, n.Pos, printName))
			}
		case *parse.IfNode:
			instrument(tree, n.List)
			instrument(tree, n.ElseList)
		case *parse.WithNode:
			instrument(tree, n.List)
			instrument(tree, n.ElseList)
		case *parse.RangeNode:
			instrument(tree, n.List)
			instrument(tree, n.ElseList)
			n.List.Nodes = slices.Insert(n.List.Nodes, 0, ticking(tree, n.Pos, n.Line))
		}
	}
	if list == tree.Root {
		list.Nodes = slices.Insert(list.Nodes, 0, ticking(tree, list.Pos, 1))
	}
}

func ticking(tree *parse.Tree, pos parse.Pos, line int) parse.Node {
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: pos, Line: line, Pipe: &parse.PipeNode{
		NodeType: parse.NodePipe, Pos: pos, Line: line, Cmds: []*parse.CommandNode{command(tree, pos, tickName)},
	}}
}

func command(tree *parse.Tree, pos parse.Pos, function string) *parse.CommandNode {
	name := parse.NewIdentifier(function).SetPos(pos).SetTree(tree)
	return &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pos, Args: []parse.Node{name}}
}

// left out of sprig: what depends on chance, keys or secrets, or takes seconds on purpose. What sprig itself calls not
// hermetic (environment, network, clock, chance) is not in the set to begin with.
var unsuitable = []string{
	"ago", "randInt", "shuffle", "bcrypt", "htpasswd", "derivePassword", "genPrivateKey", "genCA", "genCAWithKey",
	"genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "buildCustomCert",
	"encryptAES", "decryptAES", "hello", "osBase", "osClean", "osDir", "osExt", "osIsAbs",
}

// Functions are those that templates have beside the ones of Go.
func Functions() template.FuncMap {
	functions := sprig.HermeticTxtFuncMap()
	maps.DeleteFunc(functions, func(name string, _ any) bool { return slices.Contains(unsuitable, name) })
	functions["repeat"] = repeat
	functions["until"] = func(count int) ([]int, error) { return untilStep(0, count, sign(count)) }
	functions["untilStep"] = untilStep
	functions["indent"] = func(spaces int, text string) (string, error) { return indent("", spaces, text) }
	functions["nindent"] = func(spaces int, text string) (string, error) { return indent("\n", spaces, text) }
	functions["toJson"], functions["mustToJson"] = toJSON, toJSON
	functions["toRawJson"], functions["mustToRawJson"] = toJSON, toJSON
	functions["date"] = formatTime
	delete(functions, "seq") // prints a list as text; until and untilStep give one to range over
	return functions
}

func sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}

func repeat(count int, text string) (string, error) {
	if count < 0 || count*max(1, len(text)) > maxRepeat || count > maxRepeat {
		return "", fmt.Errorf("repeat: %w", ErrTooLong)
	}
	return strings.Repeat(text, count), nil
}

func untilStep(start, stop, step int) ([]int, error) {
	var list []int
	if step == 0 {
		return list, nil
	}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(list) >= maxRepeat {
			return nil, fmt.Errorf("until: %w", ErrTooLong)
		}
		list = append(list, i)
	}
	return list, nil
}

func indent(before string, spaces int, text string) (string, error) {
	pad, err := repeat(spaces, " ")
	if err != nil {
		return "", err
	}
	if (strings.Count(text, "\n")+1)*len(pad)+len(text) > 4*maxRepeat {
		return "", fmt.Errorf("indent: %w", ErrTooLong)
	}
	return before + pad + strings.ReplaceAll(text, "\n", "\n"+pad), nil
}

// toJSON writes & < and > unescaped: bodies of requests are not pages for browsers. Sprig's own would also return an empty text
// for an error. The result is valid YAML, too: YAML 1.2 section 5.1 forbids control characters and U+FEFF, which JSON allows,
// and YAML folds the line break U+0085.
func toJSON(v any) (string, error) {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return "", err // the template engine says where
	}
	return unprintable.Replace(strings.TrimSuffix(out.String(), "\n")), nil
}

// unprintable escapes characters that JSON allows in a string and YAML does not.
var unprintable = func() *strings.Replacer {
	var pairs []string
	for _, r := range append([]rune{0xfeff, 0xfffe, 0xffff}, span(0x7f, 0x9f)...) {
		pairs = append(pairs, string(r), fmt.Sprintf(`\u%04x`, r))
	}
	return strings.NewReplacer(pairs...)
}()

func span(first, last rune) []rune {
	var runes []rune
	for r := first; r <= last; r++ {
		runes = append(runes, r)
	}
	return runes
}

// formatTime prints a time of a Scan or finding, such as 2026-01-31T12:00:00Z, in a layout of package time, in UTC.
func formatTime(layout string, value any) (string, error) {
	text, _ := printed(value).(string)
	if text == "" {
		return "", nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return "", fmt.Errorf("%.40q is not an RFC 3339 time", text)
	}
	return at.UTC().Format(layout), nil
}
