// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"testing"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
)

// Changes that belong together are made together, or not at all.
func TestWriteAll(t *testing.T) {
	for _, driver := range dbtest.Drivers {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			s := open(t, dbtest.New(t, driver), Options{})
			first := put(t, s, "/a/one", 0, state("x"))
			cursor := s.NewCursor(s.Revision())
			defer cursor.Close()
			outcomes, err := s.WriteAll(t.Context(), Change{Key: "/a/two", To: state("y")}, Change{Key: "/a/one", From: first + 7, To: state("z")})
			if err != nil || outcomes[0].Written || outcomes[1].Written || !outcomes[1].Exists {
				t.Fatalf("with a conflict: %+v, %v", outcomes, err)
			}
			if value, _, err := s.Get(t.Context(), "/a/two"); err != nil || value != nil {
				t.Errorf("what was held back: %+v, %v", value, err)
			}
			outcomes, err = s.WriteAll(t.Context(), Change{Key: "/a/two", To: state("y")}, Change{Key: "/a/one", From: first, To: state("z")})
			if err != nil || outcomes[0].Revision != first+1 || outcomes[1].Revision != first+2 {
				t.Fatalf("%+v, %v", outcomes, err)
			}
			events := follow(t, cursor, 2)
			if events[0].Key != "/a/two" || events[0].Type != Added || events[1].Key != "/a/one" || events[1].Type != Modified {
				t.Errorf("%v", events)
			}
		})
	}
}
