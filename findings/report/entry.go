// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/exception"
)

// Severity orders findings, the worst first: a smaller one is worse.
type Severity int

// The severities. There is none above High.
const (
	High Severity = iota
	Medium
	Low
	Informational
	// Severities is how many there are.
	Severities
)

var severityNames = [Severities]string{finding.High, finding.Medium, finding.Low, finding.Informational}

// String is the word that findings have, such as HIGH.
func (s Severity) String() string { return severityNames[s] }

// Words of a severity for people.
func (s Severity) Words() string {
	return [Severities]string{"High", "Medium", "Low", "Informational"}[s]
}

// SeverityOf counts what it does not know as Informational, so that nothing is missing in the sums.
func SeverityOf(text string) Severity {
	if s, ok := ParseSeverity(text); ok {
		return s
	}
	return Informational
}

// ParseSeverity reads a severity in letters of any case, and says whether it is one.
func ParseSeverity(text string) (Severity, bool) {
	for s, name := range severityNames {
		if strings.EqualFold(text, name) {
			return Severity(s), true
		}
	}
	return 0, false
}

// SeverityNames are the words of all severities, the worst first.
func SeverityNames() []string { return append([]string(nil), severityNames[:]...) }

// Entry is what reports say of a finding.
type Entry struct {
	// ID is the id of the finding, or is made from its content if it has none.
	ID string
	// Fingerprint is empty where the parser gave none.
	Fingerprint string
	// Name is never empty.
	Name string
	// Category is never empty.
	Category string
	// Location, Description, Mitigation, OSILayer and IdentifiedAt are empty where the finding has none.
	Location, Description, Mitigation, OSILayer, IdentifiedAt string
	// Severity is one of the four, whatever the finding says.
	Severity Severity
	// References have neither to be known types nor URLs.
	References []finding.Reference
	// Attributes are what is particular to the scanner.
	Attributes finding.Object
	// State is empty where there is nothing to compare with.
	State compare.State
	// Exception is nil where no exception matches.
	Exception *exception.Mark
	// Scan is the Scan of the finding where findings of several are listed together, else nil.
	Scan *Scan
	// Element is the finding as it is in findings.json. It is valid during the call.
	Element []byte
}

// Excepted reports whether an exception suppresses the finding, so that it does not count.
func (e *Entry) Excepted() bool { return e.Exception != nil && e.Exception.Suppresses() }

// exception describes the matching exception for people; empty if there is none.
func (e *Entry) exception() string {
	m := e.Exception
	if m == nil {
		return ""
	}
	text := string(m.Status)
	if m.Justification != "" {
		text += " (" + string(m.Justification) + ")"
	}
	if m.ExpiresAt != nil {
		text += " until " + m.ExpiresAt.UTC().Format(time.DateOnly)
	}
	return text + " by " + m.Kind + " " + m.Name + ": " + m.Reason
}

// noCategory is the category of findings without one.
const noCategory = "(no category)"

// entries reads findings. It is for one goroutine.
type entries struct{ decoder *finding.Decoder }

func newEntries() *entries { return &entries{finding.NewDecoder(0)} }

func (d *entries) read(element []byte) (*Entry, finding.Object, error) {
	value, err := d.decoder.Value(element)
	if err != nil {
		return nil, nil, fmt.Errorf("read finding: %w", err)
	}
	f, ok := value.(finding.Object)
	if !ok {
		return nil, nil, errors.New("read finding: it is not an object")
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
	e := &Entry{
		ID: text("id"), Fingerprint: text("fingerprint"),
		Name: orWord(text("name"), "(no name)"), Category: orWord(text("category"), noCategory), Location: text("location"),
		Description: text("description"), Mitigation: text("mitigation"), OSILayer: text("osi_layer"),
		IdentifiedAt: text("identified_at"), Severity: SeverityOf(text("severity")), Element: element,
	}
	if v, ok := f.Get("attributes"); ok {
		e.Attributes, _ = v.(finding.Object)
	}
	if v, ok := f.Get("references"); ok {
		e.References = referencesOf(v)
	}
	return e, f, nil
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
