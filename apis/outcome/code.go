// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/text"
)

var (
	// ErrNone says that a text is not an outcome: last words of somebody else, or none.
	ErrNone = errors.New("the text is not an outcome")
	// ErrVersion says that an outcome is of a version that this package does not know.
	ErrVersion = errors.New("the version of the outcome is not known")
	// ErrTooLarge says that an outcome does not fit into the last words of a container. Spill helps.
	ErrTooLarge = errors.New("the outcome is too large")
)

// Encode returns the text of an outcome, with its texts made harmless. The error wraps ErrTooLarge where it has more than MaxSize
// bytes.
func (o *Outcome) Encode() ([]byte, error) {
	c := o.inert()
	c.Version = Version
	if err := c.validate(); err != nil {
		return nil, err
	}
	text, err := encode(c)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes, of %d", ErrTooLarge, len(text), MaxSize)
	}
	return text, nil
}

// encode is json.Marshal without escapes for HTML, which would take room.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Spill takes the counts by category out of the outcome, which then says which bytes they are. Store the bytes that it returns
// under CategoriesFile. Nil: there were none.
func (o *Outcome) Spill() ([]byte, error) {
	if o.Findings == nil || len(o.Findings.Categories) == 0 {
		return nil, nil
	}
	text, err := encode(o.Findings.Categories)
	if err != nil {
		return nil, err
	}
	stored := StoredBytes(text)
	o.Findings.Categories, o.Findings.CategoriesStored = nil, &stored
	return text, nil
}

// Decode reads the last words of a container. The error wraps ErrNone where they are not an outcome, ErrVersion where they are one that
// this package cannot read.
func Decode(data []byte) (*Outcome, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrNone, len(data))
	}
	var head struct {
		Version *string `json:"outcome"`
	}
	if err := json.Unmarshal(data, &head); err != nil || head.Version == nil {
		return nil, ErrNone
	}
	switch version := *head.Version; {
	case version == Version:
	case strings.HasPrefix(version, "scanyard.io/"):
		return nil, fmt.Errorf("%w: %q", ErrVersion, text.Cut(text.Line(version), maxName))
	default:
		return nil, ErrNone
	}
	o := &Outcome{}
	if err := json.Unmarshal(data, o); err != nil {
		return nil, fmt.Errorf("read the outcome: %w", err)
	}
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("read the outcome: %w", err)
	}
	return o.inert(), nil
}

// DecodeCategories reads the counts by category that Spill has made. It refuses bytes other than those the outcome names.
func (f *Findings) DecodeCategories(text []byte) (map[string]int64, error) {
	if f.CategoriesStored == nil {
		return nil, errors.New("the outcome names no stored categories")
	}
	if StoredBytes(text) != *f.CategoriesStored {
		return nil, errors.New("the stored categories are not those that the outcome names: somebody else has written them since")
	}
	var categories map[string]int64
	if err := json.Unmarshal(text, &categories); err != nil {
		return nil, fmt.Errorf("read the stored categories: %w", err)
	}
	if err := validateCategories(categories, f.Count); err != nil {
		return nil, err
	}
	return categories, nil
}

// inert is a copy with harmless texts.
func (o *Outcome) inert() *Outcome {
	c := *o
	if o.Reached != nil {
		c.Reached = &Reached{Status: o.Reached.Status, Message: text.Cut(text.Line(o.Reached.Message), MaxMessage)}
	}
	c.Conditions = nil
	for _, told := range o.Conditions {
		told.Message = text.Cut(text.Line(told.Message), MaxConditionMessage)
		c.Conditions = append(c.Conditions, told)
	}
	return &c
}
