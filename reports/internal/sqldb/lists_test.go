// SPDX-License-Identifier: Apache-2.0

package sqldb_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Lists of any length are inserted and looked for alike in each database.
func TestLists(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		db, err := sqldb.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		const rows = 333 // more than one statement inserts, and not a power of two
		var values []any
		var odd []string
		for i := range rows {
			digits := fmt.Sprintf("%032d", i)
			if i%2 == 1 {
				odd = append(odd, digits)
			}
			score := sql.NullFloat64{Float64: float64(i) / 2, Valid: i%3 > 0}
			ts := sql.NullInt64{Int64: int64(i), Valid: i%5 > 0}
			values = append(values, int64(7), i, 1, 1, 1, 1, 1, 1, 1, score, ts, 1, 1, 1, 1, digits, 0)
		}
		columns := strings.Split("object i ns source policy rule category severity result score ts first_seen res_kind res_ns res_name fingerprint suppressed", " ")
		err = db.Write(t.Context(), func(tx *sqldb.Tx, _ int64) error {
			if err := tx.Insert(t.Context(), "results", columns, "", values...); err != nil {
				return err
			}
			if err := tx.Insert(t.Context(), "results", columns, ""); err != nil {
				return fmt.Errorf("no rows: %w", err)
			}
			key := []string{"ns", "policy", "result", "suppressed"}
			for range 2 {
				err := tx.Insert(t.Context(), "counts", append(key, "n"), tx.AddTo("counts", key, []string{"n"}), 1, 2, 3, 0, 5, 1, 2, 4, 0, 6)
				if err != nil {
					return fmt.Errorf("counts: %w", err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = db.Read(t.Context(), func(tx *sqldb.Tx) error {
			for _, c := range []struct {
				list []string
				want int
			}{{odd, len(odd)}, {[]string{"none", odd[0], odd[0]}, 1}, {[]string{"none"}, 0}} {
				in, args := tx.In("fingerprint", c.list, 7)
				var n int
				if err := tx.QueryRow(t.Context(), `SELECT COUNT(*) FROM results WHERE object = ? AND `+in, args...).Scan(&n); err != nil {
					return err
				}
				if n != c.want {
					t.Errorf("%d rows of %d texts, want %d", n, len(c.list), c.want)
				}
			}
			var scores, times, sum int
			var highest float64
			if err := tx.QueryRow(t.Context(), `SELECT COUNT(score), COUNT(ts), MAX(score) FROM results`).Scan(&scores, &times, &highest); err != nil {
				return err
			}
			if scores != rows*2/3 || times != 266 || highest != 166 {
				t.Errorf("%d scores up to %v, %d times", scores, highest, times)
			}
			if err := tx.QueryRow(t.Context(), `SELECT SUM(n) FROM counts`).Scan(&sum); err != nil {
				return err
			}
			if sum != 22 {
				t.Errorf("the sum is %d, want 22", sum)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// Values that make no array are a mistake of the program, which PostgreSQL must not have to find.
func TestMixedLists(t *testing.T) {
	db, err := sqldb.Open(t.Context(), dbtest.New(t, sqldb.PostgreSQL))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for want, values := range map[string][]any{"int is of another type": {"a", "b", 1, "c"}, "no arrays of bool": {true, "b"}} {
		err := db.Write(t.Context(), func(tx *sqldb.Tx, _ int64) error {
			return tx.Insert(t.Context(), "names", []string{"sha", "s"}, "", values...)
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
