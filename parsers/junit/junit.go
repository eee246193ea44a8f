// SPDX-License-Identifier: Apache-2.0

package junit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/findings/refs"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/internal/severity"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/xmlsax"
)

const (
	categoryFailure = "Test Failure"
	categoryError   = "Test Error"
	// maxText is how much of a failure's text is kept.
	maxText = 64 << 10
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "junit-xml",
		Summary:    "JUnit XML, of any tool",
		Kinds:      kinds(),
		Reach:      "tests that were not skipped; without tests it is unknown",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text = sdk.Text | sdk.Optional
	kind := func(category, when string) sdk.Kind {
		return sdk.Kind{
			Category: category, When: when, Severities: severity.All(),
			Identity: []string{"attributes.suite", "attributes.classname", "attributes.test", "attributes.file"},
			Attributes: []sdk.Attribute{
				{Name: "suite", Type: text, Doc: "the suites around the test, from the outside in"},
				{Name: "classname", Type: text},
				{Name: "test", Type: text},
				{Name: "file", Type: text},
				{Name: "line", Type: sdk.Number | sdk.Optional},
				{Name: "type", Type: text, Doc: "of the failure, in the tool's words"},
				{Name: "message", Type: text},
			},
		}
	}
	return []sdk.Kind{
		kind(categoryFailure, "a test that failed: MEDIUM, unless the type or the test's name begins with a severity"),
		kind(categoryError, "a test that could not be done: LOW, unless the type or the test's name begins with a severity"),
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	raw, err := in.Source.Open(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	r := reader{
		xml:  xmlsax.NewReader(raw, xmlsax.Limits{MaxTag: in.Limits.MaxElement, MaxDepth: in.Limits.MaxDepth}),
		emit: emit, limit: in.Limits.MaxElement,
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := r.next()
		if errors.Is(err, io.EOF) {
			r.reportReach(in)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the JUnit XML: %w", err)
		}
	}
}

// element is what an open tag means.
type element uint8

const (
	elsewhere element = iota
	inSuites
	inSuite
	inCase
	inFailure
	inError
)

var elements = map[string]element{
	"testsuites": inSuites, "testsuite": inSuite, "testcase": inCase, "failure": inFailure, "error": inError,
}

// reader makes findings of the tags.
type reader struct {
	xml    *xmlsax.Reader
	emit   sdk.Emit
	limit  int
	open   []element
	suites []suite
	test   testcase
	result result

	tests, skips int
}

// reportReach reports what was reached. Scanners that have found nothing write a report without tests.
func (r *reader) reportReach(in *sdk.Input) {
	switch {
	case r.tests == 0:
		in.ReachUnknown("the report holds no tests")
	case r.skips == r.tests:
		in.NothingReached("0 of %d tests ran: they were skipped", r.tests)
	default:
		in.Reached("%d of %d tests ran", r.tests-r.skips, r.tests)
	}
}

type suite struct{ name, file string }

type testcase struct {
	name, classname, file, line string
	skipped                     bool
}

// result is the failure or error at hand.
type result struct {
	typ, message string
	text         []byte
	cut          bool
}

func (r *reader) next() error {
	kind, err := r.xml.Next()
	if err != nil {
		return err
	}
	switch kind {
	case xmlsax.Start:
		return r.start()
	case xmlsax.Text:
		if len(r.open) > 0 && r.open[len(r.open)-1] >= inFailure {
			r.result.add(r.xml.Text())
		}
	case xmlsax.End:
		return r.end()
	}
	return nil
}

func (r *reader) start() error {
	parent := elsewhere
	if len(r.open) > 0 {
		parent = r.open[len(r.open)-1]
	}
	here := elements[string(r.xml.Name())]
	if parent == inCase && !r.test.skipped && string(r.xml.Name()) == "skipped" {
		r.test.skipped = true
		r.skips++
	}
	switch {
	case len(r.open) == 0:
		if here != inSuites && here != inSuite {
			return fmt.Errorf("line %d: the root element is %q, not \"testsuites\" or \"testsuite\"", r.xml.Line(), r.xml.Name())
		}
	case here >= inFailure && parent != inCase, here != elsewhere && here < inFailure && (parent < inSuites || parent > inSuite):
		here = elsewhere // of another meaning in this place
	}
	r.open = append(r.open, here)
	switch here {
	case inSuites, inSuite:
		r.suites = append(r.suites, suite{name: r.attr("name"), file: r.attr("file")})
		return r.bound()
	case inCase:
		r.tests++
		r.test = testcase{name: r.attr("name"), classname: r.attr("classname"), file: r.attr("file"), line: r.attr("line")}
	case inFailure, inError:
		r.result = result{typ: r.attr("type"), message: r.attr("message"), text: r.result.text[:0]}
	case elsewhere:
	}
	return nil
}

// bound refuses suites inside of suites with ever longer names.
func (r *reader) bound() error {
	held := 0
	for _, s := range r.suites {
		held += len(s.name) + len(s.file)
	}
	if held > r.limit {
		return fmt.Errorf("line %d: %w: suites with names of more than %d bytes", r.xml.Line(), xmlsax.ErrTooLarge, r.limit)
	}
	return nil
}

func (r *reader) attr(name string) string {
	value, _ := r.xml.Attr(name)
	return string(value)
}

func (r *reader) end() error {
	last := r.open[len(r.open)-1]
	r.open = r.open[:len(r.open)-1]
	switch last {
	case inSuites, inSuite:
		r.suites = r.suites[:len(r.suites)-1]
	case inFailure:
		return r.emit(r.finding(categoryFailure, finding.Medium))
	case inError:
		return r.emit(r.finding(categoryError, finding.Low))
	case elsewhere, inCase:
	}
	return nil
}

// add keeps the beginning of a text.
func (res *result) add(piece []byte) {
	if res.cut {
		return
	}
	if left := maxText - len(res.text); len(piece) > left {
		for left > 0 && piece[left]&0xC0 == 0x80 { // not inside of a character
			left--
		}
		piece, res.cut = piece[:left], true
	}
	res.text = append(res.text, piece...)
}

// String is the text without what indents it.
func (res *result) String() string {
	text := strings.TrimSpace(string(res.text))
	if res.cut {
		text += "…"
	}
	return text
}

func (r *reader) finding(category, otherwise string) *finding.Finding {
	message, body := strings.TrimSpace(r.result.message), r.result.String()
	var names []string
	file := r.test.file
	for _, s := range r.suites {
		if s.name != "" {
			names = append(names, s.name)
		}
		if r.test.file == "" {
			file = cmp.Or(s.file, file)
		}
	}
	suite := strings.Join(names, " / ")
	word, rest := bracketed(r.test.name)
	f := &finding.Finding{
		Name:       finding.String(cmp.Or(r.test.name, text.First(message), text.First(body), category)),
		Category:   finding.String(category),
		OSILayer:   finding.String("NOT_APPLICABLE"),
		Severity:   finding.String(rate(otherwise, r.result.typ, word)),
		Attributes: finding.Object{},
	}
	switch {
	case body == "" || strings.HasPrefix(message, body):
		body = message
	case message != "" && !strings.HasPrefix(body, message):
		body = message + "\n\n" + body
	}
	if body != "" {
		f.Description = finding.String(body)
	}
	if at := cmp.Or(file, r.test.classname, suite); at != "" {
		f.Location = finding.String(at)
	}
	var list refs.List
	if !list.ID(rest) {
		list.ID(r.test.classname)
	}
	f.References = list.References()
	a := &f.Attributes
	jsondoc.Set(a, "suite", suite)
	jsondoc.Set(a, "classname", r.test.classname)
	jsondoc.Set(a, "test", r.test.name)
	jsondoc.Set(a, "file", file)
	if line, err := strconv.Atoi(r.test.line); err == nil && line > 0 {
		jsondoc.Set(a, "line", line)
	}
	jsondoc.Set(a, "type", r.result.typ)
	jsondoc.Set(a, "message", message)
	return f
}

// bracketed reads "[HIGH] CVE-2024-1234 …".
func bracketed(name string) (word, rest string) {
	inside, ok := strings.CutPrefix(name, "[")
	word, rest, closed := strings.Cut(inside, "]")
	if !ok || !closed {
		return "", name
	}
	return word, strings.TrimSpace(rest)
}

// rate takes the first word that means a severity. A type can be "unknown" or "none" without meaning one.
func rate(otherwise, typ, inName string) string {
	if rated, ok := severity.OfWord(typ); ok && !strings.EqualFold(typ, "unknown") && !strings.EqualFold(typ, "none") {
		return rated
	}
	if rated, ok := severity.OfWord(inName); ok {
		return rated
	}
	return otherwise
}
