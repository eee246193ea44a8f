// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"strings"
)

// maxNear bounds how many names are suggested.
const maxNear = 3

// Near returns the names that a misspelled one may have meant, the nearest first: those within a third of
// its letters (at least one) by insertions, deletions, replacements and swaps of neighbors, and those that
// begin with it or contain it.
func Near(name string, among []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	asked := strings.ToLower(name)
	most := max(1, len(asked)/3)
	var found []candidate
	for _, other := range among {
		lower := strings.ToLower(other)
		d := distance(asked, lower)
		if d > most && len(asked) >= 3 && (strings.Contains(lower, asked) || strings.HasPrefix(asked, lower+"-")) {
			d = most
		}
		if d <= most {
			found = append(found, candidate{other, d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		if a.distance != b.distance {
			return a.distance - b.distance
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, c := range found {
		if len(out) < maxNear && !slices.Contains(out, c.name) {
			out = append(out, c.name)
		}
	}
	return out
}

// distance counts the edits between two words (optimal string alignment). agext/levenshtein, adrg/strutil and the one in cobra
// count a swap of neighbours as two edits, so that nmpa would not find nmap among so short names.
func distance(a, b string) int {
	var before, previous []int
	current := make([]int, len(b)+1)
	for j := range current {
		current[j] = j
	}
	for i := range len(a) {
		before, previous, current = previous, current, make([]int, len(b)+1)
		current[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			current[j+1] = min(previous[j+1]+1, current[j]+1, previous[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				current[j+1] = min(current[j+1], before[j-1]+1)
			}
		}
	}
	return current[len(b)]
}
