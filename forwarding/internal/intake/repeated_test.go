// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"math/rand/v2"
	"testing"
)

// TestRepeatedRemembersTheLastOnes adds so many marks that a good part is not where it would be alone.
func TestRepeatedRemembersTheLastOnes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var r repeated
	r.init()
	var all []mark
	for i := range uint64(maxMarks + 50_000) {
		m := mark{random.Uint64(), i}
		all = append(all, m)
		if r.known(m) {
			t.Fatalf("mark %d is known before it was added", i)
		}
		r.add(m)
		r.add(m)
		if !r.known(m) {
			t.Fatalf("mark %d is not known", i)
		}
	}
	for i, m := range all {
		if want := i >= len(all)-maxMarks; r.known(m) != want {
			t.Fatalf("mark %d of %d: known %v, want %v", i, len(all), r.known(m), want)
		}
	}
}
