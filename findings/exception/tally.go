// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/outcome"
)

// Tally counts findings by what exceptions say of them. The zero value counts nothing. It is for one goroutine.
type Tally struct {
	selection *Selection
	decoder   *finding.Decoder
	open      outcome.Severities
	excepted  int64
	matched   map[user]int64
}

// user is an exception that matched.
type user struct{ kind, name string }

// NewTally returns a Tally by the exceptions that hold for a Scan, nil for none.
func NewTally(s *Selection) *Tally {
	if s.IsEmpty() {
		return &Tally{}
	}
	return &Tally{selection: s, decoder: finding.NewDecoder(0), matched: map[user]int64{}}
}

var errNoObject = errors.New("it is not an object")

// MatchRaw is Match for a finding as it is in findings.json.
func (s *Selection) MatchRaw(d *finding.Decoder, element []byte) (Mark, bool, error) {
	if s.IsEmpty() {
		return Mark{}, false, nil
	}
	value, err := d.Value(element)
	if err != nil {
		return Mark{}, false, fmt.Errorf("read finding: %w", err)
	}
	object, ok := value.(finding.Object)
	if !ok {
		return Mark{}, false, fmt.Errorf("read finding: %w", errNoObject)
	}
	mark, ok := s.Match(object)
	return mark, ok, nil
}

// Add counts a finding.
func (t *Tally) Add(element []byte) error {
	if t.selection == nil {
		return nil
	}
	mark, ok, err := t.selection.MatchRaw(t.decoder, element)
	if err != nil {
		return err
	}
	if ok {
		t.matched[user{mark.Kind, mark.Name}]++
		if mark.Suppresses() {
			t.excepted++
			return nil
		}
	}
	switch t.selection.subject.severity {
	case finding.Informational:
		t.open.Informational++
	case finding.Low:
		t.open.Low++
	case finding.Medium:
		t.open.Medium++
	case finding.High:
		t.open.High++
	}
	return nil
}

// maxTold is how many bytes names of exceptions may take in an outcome, which has 4 KiB for all.
const maxTold = 2048

// Report writes the counts into an outcome: nothing where no exception holds. Of many exceptions those with the most
// findings are told.
func (t *Tally) Report(f *outcome.Findings) {
	if t.selection == nil {
		return
	}
	f.Open, f.Excepted = &t.open, t.excepted
	all := make([]outcome.ExceptionCount, 0, len(t.matched))
	for u, n := range t.matched {
		all = append(all, outcome.ExceptionCount{Name: u.name, Cluster: u.kind == ClusterKind, Count: n})
	}
	slices.SortFunc(all, func(a, b outcome.ExceptionCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), compareBools(a.Cluster, b.Cluster), cmp.Compare(a.Name, b.Name))
	})
	const around = len(`{"name":"","cluster":true,"count":9007199254740992},`)
	size := 0
	for _, e := range all {
		if size += len(e.Name) + around; size > maxTold || len(f.Exceptions) == outcome.MaxExceptions {
			return
		}
		f.Exceptions = append(f.Exceptions, e)
	}
}
