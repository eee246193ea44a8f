// SPDX-License-Identifier: Apache-2.0

package sqldb_test

import (
	"errors"
	"testing"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// A number is known to its transaction, and to later ones if it was committed. Where other processes write, the database is asked.
func TestNumbers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		db, err := sqldb.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		alone, undone := config.Driver == sqldb.SQLite, errors.New("undone")
		for _, step := range []struct {
			reason, note string
			ends         error
			known        map[string]bool // before note
		}{
			{"nothing has been noted", "undone", undone, map[string]bool{"undone": false, "done": false}},
			{"what was undone is forgotten", "done", nil, map[string]bool{"undone": false, "done": false}},
			{"what was committed is known", "more", nil, map[string]bool{"undone": false, "done": alone}},
		} {
			err := db.Write(t.Context(), func(tx *sqldb.Tx, _ int64) error {
				for key, want := range step.known {
					if number, known := tx.Number(key); known != want || known && number != int64(len(key)) {
						t.Errorf("%s: %s is %d, %t", step.reason, key, number, known)
					}
				}
				tx.NoteNumber(step.note, int64(len(step.note)))
				if _, known := tx.Number(step.note); known != alone {
					t.Errorf("%s is known to its own transaction: %t", step.note, known)
				}
				return step.ends
			})
			if !errors.Is(err, step.ends) {
				t.Fatal(err)
			}
		}
	})
}
