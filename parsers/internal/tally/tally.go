// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"maps"
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
)

const (
	maxNames = 1000
	maxName  = 200
	other    = "(other)"
)

// Tally counts by name. The zero Tally is empty.
type Tally struct {
	counts map[string]int
}

// Add counts one more under a name.
func (t *Tally) Add(name string) {
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	if _, known := t.counts[name]; !known && (len(name) > maxName || len(t.counts) >= maxNames) {
		name = other
	}
	t.counts[name]++
}

// Object lists the counts by name, sorted.
func (t *Tally) Object() finding.Object {
	o := make(finding.Object, 0, len(t.counts))
	for _, name := range slices.Sorted(maps.Keys(t.counts)) {
		o = append(o, finding.Member{Key: name, Value: t.counts[name]})
	}
	return o
}
