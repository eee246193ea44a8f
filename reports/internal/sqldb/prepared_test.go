// SPDX-License-Identifier: Apache-2.0

package sqldb_test

import (
	"fmt"
	"testing"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Statements that are kept are as good as new ones: with other parameters, after one has failed, beside more than are kept.
func TestKeptStatements(t *testing.T) {
	t.Parallel()
	db, err := sqldb.Open(t.Context(), dbtest.New(t, sqldb.SQLite))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	const insert = `INSERT INTO meta (k, v) VALUES (?, ?)`
	for round := range 3 {
		err := db.Write(t.Context(), func(tx *sqldb.Tx, _ int64) error {
			for i := range 100 {
				if _, err := tx.Exec(t.Context(), insert, fmt.Sprintf("t%d-%d", round, i), i); err != nil {
					return err
				}
				var sum int
				// The text differs each time, so that more statements are made than are kept.
				if err := tx.QueryRow(t.Context(), fmt.Sprintf(`SELECT COUNT(*) + %d FROM meta WHERE k LIKE ?`, 100*round+i), "t%-%").Scan(&sum); err != nil {
					return err
				}
				if want := 2*(100*round+i) + 1; sum != want {
					return fmt.Errorf("%d rows, want %d", sum, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = db.Write(t.Context(), func(tx *sqldb.Tx, _ int64) error {
			_, err := tx.Exec(t.Context(), insert, "t0-0", 0)
			return err
		})
		if err == nil {
			t.Error("a key is there twice")
		}
	}
}
