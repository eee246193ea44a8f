// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

import (
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/compare"
)

// severity is the worst first.
type severity int

const (
	high severity = iota
	medium
	low
	informational
	severities
)

var severityNames = [severities]string{finding.High, finding.Medium, finding.Low, finding.Informational}

func (s severity) String() string { return severityNames[s] }

// words of a severity for people.
func (s severity) words() string {
	return [severities]string{"High", "Medium", "Low", "Informational"}[s]
}

// severityOf counts what it does not know as informational, so that nothing is missing in the sums.
func severityOf(text string) severity {
	for s, name := range severityNames {
		if strings.EqualFold(text, name) {
			return severity(s)
		}
	}
	return informational
}

// entry is what reports say of a finding.
type entry struct {
	id, fingerprint                   string
	name, category, location          string
	description, mitigation, osiLayer string
	identifiedAt                      string
	severity                          severity
	references                        []finding.Reference
	attributes                        finding.Object
	// state is empty where there is no previous run.
	state compare.State
}

// noCategory is that of findings without one.
const noCategory = "(no category)"

// entries reads findings. It is for one goroutine.
type entries struct{ decoder *finding.Decoder }

func newEntries() *entries { return &entries{finding.NewDecoder(0)} }

func (d *entries) read(element []byte) (*entry, error) {
	value, err := d.decoder.Value(element)
	if err != nil {
		return nil, fmt.Errorf("read finding: %w", err)
	}
	f, ok := value.(finding.Object)
	if !ok {
		return nil, errors.New("read finding: it is no object")
	}
	text := func(key string) string {
		switch v, _ := f.Get(key); v := v.(type) {
		case nil:
			return ""
		case string:
			return v
		default:
			return finding.ToString(v) // of another type than it should be
		}
	}
	e := &entry{
		id: text("id"), fingerprint: text("fingerprint"),
		name: orWord(text("name"), "(no name)"), category: orWord(text("category"), noCategory), location: text("location"),
		description: text("description"), mitigation: text("mitigation"), osiLayer: text("osi_layer"),
		identifiedAt: text("identified_at"), severity: severityOf(text("severity")),
	}
	if v, ok := f.Get("attributes"); ok {
		e.attributes, _ = v.(finding.Object)
	}
	if v, ok := f.Get("references"); ok {
		e.references = referencesOf(v)
	}
	return e, nil
}

func referencesOf(v any) (references []finding.Reference) {
	list, _ := v.([]any)
	for _, item := range list {
		if o, ok := item.(finding.Object); ok {
			references = append(references, finding.Reference{Type: o.Text("type").Or(""), Value: o.Text("value").Or("")})
		}
	}
	return references
}

// cut shortens a text to a number of bytes without breaking a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
