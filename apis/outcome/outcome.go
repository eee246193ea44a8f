// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/text"
)

// Version is the version of the format, and the first value of every outcome.
const Version = "scanyard.io/v1"

// Bounds of an outcome.
const (
	// MaxSize is how many bytes an outcome may have: what the kubelet keeps of a container's last words.
	MaxSize = 4096
	// MaxCount is the largest count: the last that every reader of JSON holds exactly.
	MaxCount = 1 << 53
	// MaxMessage is how many bytes of a message are kept; a cut one ends in "…".
	MaxMessage = 256
	// MaxConditions is how many conditions one container may tell.
	MaxConditions = 2
	// MaxConditionMessage is how many bytes of the message of a condition are kept; a cut one ends in "…".
	MaxConditionMessage = 1024
	// MaxCategoriesSize is how many bytes the object beside the findings may have that counts categories.
	MaxCategoriesSize = 256 << 10
	// MaxExceptions is how many exceptions an outcome may name.
	MaxExceptions = 100
	// maxName bounds types and reasons of conditions.
	maxName = 64
)

// CategoriesFile is the name, beside findings.json, of the object that counts the categories which do not fit in an outcome.
const CategoriesFile = "scanyard-categories.json"

// Outcome is what a container has done.
type Outcome struct {
	// Version is the version of the format. Encode sets it.
	Version string `json:"outcome"`
	// Findings tells of the findings that the container has stored. Nil: it has stored none, and those there were stay.
	Findings *Findings `json:"findings,omitempty"`
	// Reached says whether the scanner reached its target. Nil: the container cannot tell, now or ever.
	Reached *Reached `json:"reached,omitempty"`
	// Conditions are what a hook wants to be told on the Scan. The operator takes those that it knows.
	Conditions []Condition `json:"conditions,omitempty"`
}

// Findings counts stored findings and says which bytes they are.
type Findings struct {
	// Stored is findings.json.
	Stored Stored `json:"stored"`
	// Count is the number of all findings.
	Count int64 `json:"count"`
	// Severities counts by severity. A finding of another severity is in none.
	Severities Severities `json:"severities"`
	// Categories counts by category. Empty where CategoriesStored is set.
	Categories map[string]int64 `json:"categories,omitempty"`
	// CategoriesStored is the object that has the counts by category, where they do not fit in here: see Spill.
	CategoriesStored *Stored `json:"categoriesStored,omitempty"`
	// Open counts by severity the findings that no exception suppresses. Nil: no exception held for the Scan.
	Open *Severities `json:"open,omitempty"`
	// Excepted is the number of findings that exceptions suppress, where Open is set.
	Excepted int64 `json:"excepted,omitempty"`
	// Exceptions are those that matched findings, the one with the most findings first, as many as fit.
	Exceptions []ExceptionCount `json:"exceptions,omitempty"`
}

// ExceptionCount says how many findings an exception matched.
type ExceptionCount struct {
	// Name is the name of the exception.
	Name string `json:"name"`
	// Cluster says that it is a ClusterFindingException.
	Cluster bool `json:"cluster,omitempty"`
	// Count is the number of its findings.
	Count int64 `json:"count"`
}

// Severities counts findings by severity.
type Severities struct {
	// Informational counts findings of severity INFORMATIONAL.
	Informational int64 `json:"informational,omitempty"`
	// Low counts findings of severity LOW.
	Low int64 `json:"low,omitempty"`
	// Medium counts findings of severity MEDIUM.
	Medium int64 `json:"medium,omitempty"`
	// High counts findings of severity HIGH.
	High int64 `json:"high,omitempty"`
}

// Stored says which bytes an object has.
type Stored struct {
	// Size is their number.
	Size int64 `json:"size"`
	// SHA256 is their SHA-256 in lower case hexadecimal digits.
	SHA256 string `json:"sha256"`
}

// StoredBytes describes bytes.
func StoredBytes(data []byte) Stored {
	m := NewMeter()
	m.Add(data)
	return m.Stored()
}

// Status says of something that it is so, is not so, or is not known.
type Status string

const (
	// True says that it is so.
	True Status = "True"
	// False says that it is not so.
	False Status = "False"
	// Unknown says that it cannot be told.
	Unknown Status = "Unknown"
)

// Reached says whether the scanner reached what it was to scan.
type Reached struct {
	// Status is True where it reached at least one of its targets, False where it reached none, Unknown where its result
	// does not tell.
	Status Status `json:"status"`
	// Message says it for people, in one line: "0 of 1 hosts answered".
	Message string `json:"message,omitempty"`
}

// Condition is a condition of the Scan that a hook wants to be told.
type Condition struct {
	// Type is the type of the condition, as "CascadingRulesMatched".
	Type string `json:"type"`
	// Status is its status.
	Status Status `json:"status"`
	// Reason is one word for programs.
	Reason string `json:"reason"`
	// Message says it for people.
	Message string `json:"message,omitempty"`
}

// Count makes the counts of an outcome of what was counted while findings were written.
func Count(stats *finding.Stats, stored Stored) *Findings {
	f := &Findings{
		Stored: stored, Count: int64(stats.Count),
		Severities: Severities{
			Informational: int64(stats.Informational), Low: int64(stats.Low), Medium: int64(stats.Medium), High: int64(stats.High),
		},
	}
	for name, n := range stats.Categories {
		if f.Categories == nil {
			f.Categories = map[string]int64{}
		}
		// A name may hold what is not a character; several may become one then.
		f.Categories[text.Cut(strings.ToValidUTF8(name, "\uFFFD"), finding.MaxCategoryLength)] += int64(n)
	}
	return f
}

// validate holds an outcome against the rules.
func (o *Outcome) validate() error {
	if o.Findings != nil {
		if err := o.Findings.validate(); err != nil {
			return fmt.Errorf("findings: %w", err)
		}
	}
	if o.Reached != nil && !o.Reached.Status.known() {
		return fmt.Errorf("reached: status %q is none of True, False, Unknown", text.Cut(text.Line(string(o.Reached.Status)), maxName))
	}
	if len(o.Conditions) > MaxConditions {
		return fmt.Errorf("%d conditions are more than %d", len(o.Conditions), MaxConditions)
	}
	for _, c := range o.Conditions {
		if !isName(c.Type) || !isName(c.Reason) || !c.Status.known() {
			return fmt.Errorf("condition %q: type, status or reason is not valid", text.Cut(text.Line(c.Type), maxName))
		}
	}
	return nil
}

func (s Status) known() bool { return s == True || s == False || s == Unknown }

// isName says whether a text is a word as types and reasons of conditions are.
func isName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		letter := s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z'
		if !letter && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}

func (f *Findings) validate() error {
	if err := f.Stored.validate(); err != nil {
		return fmt.Errorf("stored: %w", err)
	}
	s := f.Severities
	if err := areParts(f.Count, slices.Values([]int64{s.Informational, s.Low, s.Medium, s.High})); err != nil {
		return fmt.Errorf("severities: %w", err)
	}
	if err := f.validateExceptions(); err != nil {
		return fmt.Errorf("exceptions: %w", err)
	}
	if f.CategoriesStored == nil {
		return validateCategories(f.Categories, f.Count)
	}
	if len(f.Categories) > 0 {
		return errors.New("categories are both told and stored")
	}
	if f.CategoriesStored.Size > MaxCategoriesSize {
		return fmt.Errorf("categories of %d bytes are more than %d", f.CategoriesStored.Size, MaxCategoriesSize)
	}
	if err := f.CategoriesStored.validate(); err != nil {
		return fmt.Errorf("categories: %w", err)
	}
	return nil
}

// validateExceptions: a finding is open or excepted, and at most one exception matches it.
func (f *Findings) validateExceptions() error {
	if f.Open == nil {
		if f.Excepted != 0 || len(f.Exceptions) > 0 {
			return errors.New("excepted findings are counted, open ones are not")
		}
		return nil
	}
	o := *f.Open
	if err := areParts(f.Count, slices.Values([]int64{f.Excepted, o.Informational, o.Low, o.Medium, o.High})); err != nil {
		return err
	}
	if len(f.Exceptions) > MaxExceptions {
		return fmt.Errorf("%d are more than %d", len(f.Exceptions), MaxExceptions)
	}
	counts := make([]int64, 0, len(f.Exceptions))
	for _, e := range f.Exceptions {
		if !isObject(e.Name) || e.Count < 1 {
			return fmt.Errorf("%q with %d findings is not an exception", text.Cut(text.Line(e.Name), maxName), e.Count)
		}
		counts = append(counts, e.Count)
	}
	return areParts(f.Count, slices.Values(counts))
}

// isObject says whether a text has the length and the characters of names of objects.
func isObject(name string) bool {
	const most = 253
	return name != "" && len(name) <= most && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == ""
}

func validateCategories(categories map[string]int64, count int64) error {
	if len(categories) > finding.MaxCategories+1 { // those by name, and the rest
		return fmt.Errorf("%d categories are more than %d", len(categories), finding.MaxCategories+1)
	}
	for name := range categories {
		if len(name) > finding.MaxCategoryLength {
			return fmt.Errorf("the name of a category has %d bytes, more than %d", len(name), finding.MaxCategoryLength)
		}
	}
	if err := areParts(count, maps.Values(categories)); err != nil {
		return fmt.Errorf("categories: %w", err)
	}
	return nil
}

// areParts says whether counts are no less than nothing and together no more than the whole.
func areParts(whole int64, parts func(yield func(int64) bool)) error {
	if whole < 0 || whole > MaxCount {
		return fmt.Errorf("%d is not a count", whole)
	}
	left := whole
	for n := range parts {
		if n < 0 || n > left {
			return fmt.Errorf("a part of %d does not fit in the %d that are left of %d", n, left, whole)
		}
		left -= n
	}
	return nil
}

func (s Stored) validate() error {
	if s.Size < 0 || s.Size > MaxCount {
		return fmt.Errorf("%d is not a size", s.Size)
	}
	if sum, err := hex.DecodeString(s.SHA256); err != nil || len(sum) != sha256.Size || strings.ToLower(s.SHA256) != s.SHA256 {
		return fmt.Errorf("%q is not a SHA-256", text.Cut(text.Line(s.SHA256), 2*sha256.Size))
	}
	return nil
}
