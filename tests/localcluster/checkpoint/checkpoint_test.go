// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestChanges(t *testing.T) {
	for name, c := range map[string]struct {
		reason         string
		stored, wanted map[string][]byte
		want           []change
	}{
		"Same": {
			reason: "nothing is written where nothing has changed",
			stored: map[string][]byte{"/a": []byte("1")}, wanted: map[string][]byte{"/a": []byte("1")},
		},
		"All": {
			reason: "new keys go, changed and deleted ones come back",
			stored: map[string][]byte{"/new": []byte("1"), "/changed": []byte("2")},
			wanted: map[string][]byte{"/changed": []byte("1"), "/deleted": []byte("1")},
			want:   []change{{"/changed", []byte("1")}, {"/deleted", []byte("1")}, {"/new", nil}},
		},
		"Leases": {
			reason: "a renewed lease is not taken back, a new one goes, a deleted one comes back",
			stored: map[string][]byte{"/registry/leases/a": []byte("2"), "/registry/leases/new": []byte("1")},
			wanted: map[string][]byte{"/registry/leases/a": []byte("1"), "/registry/leases/deleted": []byte("1")},
			want:   []change{{"/registry/leases/deleted", []byte("1")}, {"/registry/leases/new", nil}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := changes(c.stored, c.wanted)
			slices.SortFunc(got, func(a, b change) int { return cmp.Compare(a.key, b.key) })
			if diff := gocmp.Diff(c.want, got, gocmp.AllowUnexported(change{})); diff != "" {
				t.Errorf("%s:\n%s", c.reason, diff)
			}
		})
	}
}
