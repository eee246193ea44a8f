// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Keep is how long is kept what outlives reports.
type Keep struct {
	// Daily is how long the course of days is kept.
	Daily time.Duration
	// FirstSeen is how long is kept when a finding was seen first, and its life, after it was seen last.
	FirstSeen time.Duration
}

// Steps of one call of Forget, so that writers do not wait long.
const (
	forgetDays = 10
	forgetRows = 5_000
)

// Forget drops a part of what is older than what is to be kept, and tells whether there may be more. The last day before
// those that are kept stays: days without a write have its numbers.
func Forget(ctx context.Context, tx *sqldb.Tx, keep Keep, now time.Time) (more bool, err error) {
	days, err := forgetDaily(ctx, tx, now.Add(-keep.Daily).Unix()/secondsOfDay)
	if err != nil {
		return false, fmt.Errorf("forget days: %w", err)
	}
	more = days
	cutoff := now.Add(-keep.FirstSeen).Unix()
	for _, old := range []struct{ table, column string }{{"first_seen", "last"}, {"history", "fixed_at"}, {"run_parts", "at"}} {
		rows, err := forgetBefore(ctx, tx, old.table, old.column, cutoff)
		if err != nil {
			return false, fmt.Errorf("forget %s: %w", old.table, err)
		}
		more = more || rows
	}
	return more, nil
}

func forgetDaily(ctx context.Context, tx *sqldb.Tx, cutoff int64) (more bool, err error) {
	var first, last sql.NullInt64
	if err := tx.QueryRow(ctx, `SELECT MIN(day), MAX(day) FROM daily WHERE day <= ?`, cutoff).
		Scan(&first, &last); err != nil || !first.Valid ||
		first.Int64 == last.Int64 {
		return false, err
	}
	end := min(first.Int64+forgetDays, last.Int64)
	_, err = tx.Exec(ctx, `DELETE FROM daily WHERE day < ?`, end)
	return end < last.Int64, err
}

// forgetBefore deletes the oldest rows of a table, up to a time that enough of them share.
func forgetBefore(ctx context.Context, tx *sqldb.Tx, table, column string, cutoff int64) (more bool, err error) {
	var upTo sql.NullInt64
	var n int
	oldest := `SELECT MAX(t), COUNT(*) FROM (SELECT ` + column + ` AS t FROM ` + table + ` WHERE ` + column + ` < ? ORDER BY ` + column + ` LIMIT ?) AS oldest`
	if err := tx.QueryRow(ctx, oldest, cutoff, forgetRows).Scan(&upTo, &n); err != nil || !upTo.Valid {
		return false, err
	}
	_, err = tx.Exec(ctx, `DELETE FROM `+table+` WHERE `+column+` <= ?`, upTo.Int64)
	return n == forgetRows, err
}
