// SPDX-License-Identifier: Apache-2.0

package message

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/render"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

const (
	// maxTitle is what the strictest tracker takes.
	maxTitle = 250
	// maxDescription keeps one text below what the strictest tracker takes for an issue.
	maxDescription = 8000
)

// Entry is what a reporter reports: a finding, or that a Scan is Errored.
type Entry struct {
	// Key names it in the same way in every run of the hook and of the scanner.
	Key         string
	Title, Text string // text is Markdown
	Severity    string
	State       compare.State
	Failure     bool
	Element     []byte
	finding     finding.Object
	decoded     any // for templates
}

// NewEntry makes the default words for a finding.
func NewEntry(s *Scan, element []byte, state compare.State) (*Entry, error) {
	value, err := finding.DecodeValue(element, 0)
	if err != nil {
		return nil, err
	}
	e := &Entry{Element: element, State: state}
	e.finding, _ = value.(finding.Object)
	mark, err := keyOf(element)
	if err != nil {
		return nil, err
	}
	e.Key = delivery.Key(s.Metadata.Namespace, mark)
	if e.decoded, err = render.Data(element); err != nil {
		return nil, fmt.Errorf("read finding: %w", err)
	}
	e.Severity = strings.ToUpper(e.Member("severity"))
	title := fmt.Sprintf("[%s] %s", cmp.Or(e.Severity, "UNKNOWN"), cmp.Or(e.Member("name"), "Finding without a name"))
	if location := e.Member("location"); location != "" {
		title += " at " + location
	}
	e.Title = text.CutRunes(strings.Join(strings.Fields(title), " "), maxTitle)
	e.Text = s.Describe(e, fenced)
	return e, nil
}

// keyOf names a finding across runs of a scanner.
func keyOf(element []byte) (string, error) {
	mark, err := compare.MarkOf(element)
	if err != nil {
		return "", fmt.Errorf("name finding: %w", err)
	}
	return hex.EncodeToString(mark[:]), nil
}

// Describe is a text in which what comes from the scanner stands in fences, where nothing is a link, a picture or a
// mention.
func (s *Scan) Describe(e *Entry, fenced func(string) string) string {
	var facts, texts strings.Builder
	for _, fact := range []struct{ label, value string }{
		{"Severity", e.Severity},
		{"Category", e.Member("category")},
		{"Location", e.Member("location")},
		{"Scan", s.Metadata.Namespace + "/" + s.Metadata.Name + " (" + s.Spec.ScanType + ")"},
	} {
		if fact.value != "" {
			fmt.Fprintf(&facts, "%-9s %s\n", fact.label+":", strings.Join(strings.Fields(fact.value), " "))
		}
	}
	texts.WriteString(fenced(facts.String()))
	for _, part := range []struct{ heading, key string }{{"Description", "description"}, {"What to do", "mitigation"}} {
		if words := e.Member(part.key); words != "" {
			texts.WriteString("\n" + part.heading + ":\n\n" + fenced(text.CutRunes(words, maxDescription)))
		}
	}
	return texts.String()
}

// fenced puts a text into a fence that the text cannot end.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "text\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n"
}

// Member is the text of a finding's field; nothing for nothing.
func (e *Entry) Member(key string) string {
	value, _ := e.finding.Get(key)
	return PlainText(value)
}

// Attribute is the text of one of the finding's attributes, if it has it.
func (e *Entry) Attribute(key string) (string, bool) {
	value, ok := child(e.finding, "attributes").Get(key)
	return PlainText(value), ok
}

// RawMessage is a finding unchanged, inside another document.
func (e *Entry) RawMessage() json.RawMessage { return json.RawMessage(e.Element) }
