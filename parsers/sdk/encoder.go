// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
)

// Encoder writes the findings of one run as findings.json and counts them. Its Emit is what a parser is given.
type Encoder struct {
	// Stats counts what was written.
	Stats finding.Stats
	// Invalid is how many findings break the schema.
	Invalid int
	// FirstInvalid says of the first such finding what is wrong.
	FirstInvalid error

	// Also gets each finding as it is written. Nil: nobody does.
	Also func(element []byte) error

	parser   *Parser
	stamp    *finding.Stamp
	out      *finding.Writer
	scratch  []byte
	identity []byte
}

// NewEncoder returns an Encoder that adds id, fingerprint, parsed_at and scan to each finding of a parser.
func NewEncoder(w io.Writer, parser Parser, scan finding.ScanInfo, parsedAt time.Time) *Encoder {
	return &Encoder{out: finding.NewWriter(w), parser: &parser, stamp: finding.NewStamp(scan, parsedAt)}
}

// NewBareEncoder returns an Encoder that writes findings as the parser makes them.
func NewBareEncoder(w io.Writer) *Encoder {
	return &Encoder{out: finding.NewWriter(w)}
}

// Emit writes one finding.
func (e *Encoder) Emit(f *finding.Finding) error {
	if err := e.encode(f); err != nil {
		return fmt.Errorf("write finding %d: %w", e.Stats.Count, err)
	}
	e.check(f)
	err := e.Stats.Add(f)
	switch {
	case err == nil:
	case e.stamp == nil && errors.Is(err, finding.ErrNoSeverity):
		e.Stats.Count++ // bare findings are shown as they are
	default:
		return fmt.Errorf("finding %d (%q): %w", e.Stats.Count, f.Name.Or(""), err)
	}
	if e.Also != nil {
		if err := e.Also(e.scratch); err != nil {
			return fmt.Errorf("finding %d (%q): %w", e.Stats.Count-1, f.Name.Or(""), err)
		}
	}
	return e.out.WriteRaw(e.scratch)
}

// encode writes one finding into scratch.
func (e *Encoder) encode(f *finding.Finding) (err error) {
	if e.stamp == nil {
		e.scratch, err = f.AppendJSON(e.scratch[:0])
		return err
	}
	if kind := e.parser.KindOf(f.Category.Or("")); kind != nil && f.Fingerprint.IsAbsent() && len(kind.Identity) > 0 {
		if e.identity, err = kind.appendIdentity(e.identity[:0], e.parser.ResultType, f); err != nil {
			return err
		}
		f.Fingerprint = finding.String(finding.Fingerprint(e.identity))
		defer func() { f.Fingerprint = finding.Text{} }() // the finding belongs to the parser
	}
	if e.scratch, err = e.stamp.AppendJSON(e.scratch[:0], f); err != nil {
		return err
	}
	return e.unseal(f)
}

// Close completes the array.
func (e *Encoder) Close() error { return e.out.Close() }

// check holds a stamped finding to the schema. Most findings show at a glance that they are fine.
func (e *Encoder) check(f *finding.Finding) {
	if e.stamp == nil || isPlainlyValid(f) {
		return
	}
	if err := finding.Validate(e.scratch); err != nil {
		if e.Invalid == 0 {
			e.FirstInvalid = fmt.Errorf("finding %d: %w", e.Stats.Count, err)
		}
		e.Invalid++
	}
}

// isPlainlyValid reports that a finding needs no closer check. The stamp's fields are valid except for created_at, which
// the API server guarantees.
func isPlainlyValid(f *finding.Finding) bool {
	if slices.ContainsFunc(f.Extra, isInSchema) || !isTime(f.IdentifiedAt) {
		return false
	}
	if _, ok := f.Name.Get(); !ok {
		return false
	}
	if _, ok := f.Category.Get(); !ok {
		return false
	}
	switch f.Severity.Or("") {
	case finding.Informational, finding.Low, finding.Medium, finding.High:
		return true
	}
	return false
}

// isInSchema reports whether the schema has a rule for a member of a finding.
func isInSchema(m finding.Member) bool {
	switch m.Key {
	case "id", "identified_at", "parsed_at", "name", "description", "category", "severity", "mitigation", "references",
		"attributes", "location", "scan":
		return true
	}
	return false
}

// ErrInvalid says that findings break the schema where that is an error.
var ErrInvalid = errors.New("findings break the schema")

// Strict returns an error wrapping ErrInvalid if any finding broke the schema.
func (e *Encoder) Strict() error {
	if e.Invalid == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d, first %w", ErrInvalid, e.Invalid, e.Stats.Count, e.FirstInvalid)
}

// isTime reports that a time needs no closer check: there is none, or a valid one.
func isTime(t finding.Text) bool {
	s, ok := t.Get()
	if !ok {
		return true
	}
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}
