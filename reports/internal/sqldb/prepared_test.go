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

// A statement that is asked again while its rows are read, and others meanwhile, more than a reader keeps.
func TestStatementsInStatements(t *testing.T) {
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
	err = db.Write(t.Context(), func(tx *sqldb.Tx, _ int64) error {
		for i := range 100 {
			if _, err := tx.Exec(t.Context(), `INSERT INTO meta (k, v) VALUES (?, ?)`, fmt.Sprintf("n%02d", i), i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const query = `SELECT v FROM meta WHERE k >= ? AND k LIKE 'n%' ORDER BY k`
	for range 2 { // what is kept is free again
		var got []int
		err := db.Read(t.Context(), func(tx *sqldb.Tx) error {
			rows, err := tx.Query(t.Context(), query, "n10")
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var outer, inner, other int
				if err := rows.Scan(&outer); err != nil {
					return err
				}
				if err := tx.QueryRow(t.Context(), query, "n90").Scan(&inner); err != nil {
					return err
				}
				if err := tx.QueryRow(t.Context(), fmt.Sprintf(`SELECT v + %d FROM meta WHERE k = ?`, outer), "n07").Scan(&other); err != nil {
					return err
				}
				if inner != 90 || other != outer+7 {
					return fmt.Errorf("beside %d: %d and %d", outer, inner, other)
				}
				got = append(got, outer)
			}
			return rows.Err()
		})
		if err != nil || len(got) != 90 || got[0] != 10 || got[89] != 99 {
			t.Errorf("%v: %v", got, err)
		}
	}
}
