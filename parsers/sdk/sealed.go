// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
)

// Sealed is the text of an attribute that differs in each run, though the input is the same: an encrypted one. The id of its
// finding does not depend on it, so that a finding keeps its id from run to run, and so that the id does not help to guess the
// encrypted text. All texts from one input must have the same length: the container mode parses large results twice and has
// announced the length before the second time.
type Sealed string

// MarshalJSON writes the text as JSON.
func (s Sealed) MarshalJSON() ([]byte, error) { return finding.AppendString(nil, string(s)), nil }

func isSealed(m finding.Member) bool {
	_, ok := m.Value.(Sealed)
	return ok
}

// idStart and idEnd are where the id is in what a Stamp writes.
const (
	idStart = len(`{"id":"`)
	idEnd   = idStart + len("00000000-0000-0000-0000-000000000000")
)

// unseal gives the finding in scratch the id that it has without what is sealed.
func (e *Encoder) unseal(f *finding.Finding) (err error) {
	if !slices.ContainsFunc(f.Attributes, isSealed) {
		return nil
	}
	open := *f
	open.Attributes = slices.DeleteFunc(slices.Clone(f.Attributes), isSealed)
	if e.identity, err = e.stamp.AppendJSON(e.identity[:0], &open); err != nil {
		return err
	}
	copy(e.scratch[idStart:idEnd], e.identity[idStart:idEnd])
	return nil
}
