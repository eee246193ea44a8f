// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// touching are the places of data at which a content or a report was touched: of the packages of contents, and of what
// reports have found. It is asked once for all reports, since few keys change.
const (
	touchedContents = `SELECT p.content AS content, MAX(c.seq) AS last, MIN(c.seq) AS first FROM database_changes c
		JOIN package_keys k ON k.adapter = c.adapter AND k.hash = c.hash JOIN sbom_packages p ON p.package = k.package
		WHERE c.adapter = ? AND c.seq > ? AND c.seq <= ? GROUP BY p.content`
	touchedFindings = `SELECT f.object AS object, MAX(c.seq) AS last, MIN(c.seq) AS first FROM database_changes c
		JOIN finding_keys f ON f.hash = c.hash WHERE c.adapter = ? AND c.seq > ? AND c.seq <= ? GROUP BY f.object`
)

// reach is what is known of an adapter's data up to a version.
type reach struct {
	adapter  string
	to       int64 // the version that is asked about; 0 if there is none
	unlinked int64 // the last version up to it whose differences are not known
}

func reachOf(ctx context.Context, tx *sqldb.Tx, adapter, version string) (reach, error) {
	r := reach{adapter: column(adapter, longText)}
	var err error
	if version == "" {
		_, r.to, err = newest(ctx, tx, adapter)
	} else {
		r.to, err = place(ctx, tx, adapter, version)
	}
	if err != nil {
		return r, err
	}
	err = tx.QueryRow(ctx, `SELECT COALESCE(MAX(seq), 0) FROM database_versions WHERE adapter = ? AND seq <= ? AND linked = 0`, r.adapter, r.to).Scan(&r.unlinked)
	return r, err
}

// touched are conditions on a report r, with their joins: whether it is touched at the reach's version.
func (r *reach) touched() (joins, condition string, joinArgs, args []any) {
	joins = ` LEFT JOIN (` + touchedContents + `) tc ON tc.content = r.content LEFT JOIN (` + touchedFindings + `) tf ON tf.object = r.object`
	joinArgs = []any{r.adapter, r.unlinked, r.to, r.adapter, r.unlinked, r.to}
	condition = `(r.seq < ? AND (r.seq < ? OR tc.last > r.seq OR tf.last > r.seq))`
	return joins, condition, joinArgs, []any{r.to, r.unlinked}
}

// CurrentAsOf is the newest data at which a report is not touched: its version, and when it was built. The version is "" if
// none is known.
func CurrentAsOf(ctx context.Context, tx *sqldb.Tx, object int64) (version string, built time.Time, err error) {
	var adapter string
	var good, content int64
	err = tx.QueryRow(ctx, `SELECT adapter, seq, content FROM subjects WHERE object = ?`, object).Scan(&adapter, &good, &content)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && good == 0) {
		return "", time.Time{}, nil
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read how far the report is good: %w", err)
	}
	var unlinked, packages, findings sql.NullInt64
	err = tx.QueryRow(ctx, `SELECT MIN(seq) FROM database_versions WHERE adapter = ? AND seq > ? AND linked = 0`, adapter, good).Scan(&unlinked)
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT MIN(c.seq) FROM sbom_packages p JOIN package_keys k ON k.package = p.package AND k.adapter = ?
			JOIN database_changes c ON c.adapter = ? AND c.hash = k.hash AND c.seq > ? WHERE p.content = ?`, adapter, adapter, good, content).Scan(&packages)
	}
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT MIN(c.seq) FROM finding_keys f JOIN database_changes c ON c.adapter = ? AND c.hash = f.hash AND c.seq > ? WHERE f.object = ?`,
			adapter, good, object).Scan(&findings)
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("look for what touches the report: %w", err)
	}
	before := int64(1) << 62
	for _, seq := range []sql.NullInt64{unlinked, packages, findings} {
		if seq.Valid {
			before = min(before, seq.Int64)
		}
	}
	var milliseconds int64
	err = tx.QueryRow(ctx, `SELECT version, built FROM database_versions WHERE adapter = ? AND seq < ? ORDER BY seq DESC LIMIT 1`, adapter, before).
		Scan(&version, &milliseconds)
	if errors.Is(err, sql.ErrNoRows) {
		return "", time.Time{}, nil
	}
	return version, time.UnixMilli(milliseconds).UTC(), err
}

// Bounds of what is kept of changes.
const (
	confirmAtOnce = 5_000
	maxChanges    = 5_000_000
)

// Confirm moves how far untouched reports are known to be good to the newest data, a part of them at a time. It returns
// whether there are more. Changes that no report needs any more are dropped with the last part.
func Confirm(ctx context.Context, tx *sqldb.Tx, kind int) (more bool, err error) {
	adapters, err := sqldb.Column[string](ctx, tx, `SELECT DISTINCT adapter FROM database_versions`)
	if err != nil {
		return false, err
	}
	for _, adapter := range adapters {
		full, err := confirmAdapter(ctx, tx, kind, adapter)
		if err != nil {
			return false, fmt.Errorf("confirm reports of %s: %w", adapter, err)
		}
		more = more || full
	}
	return more, nil
}

func confirmAdapter(ctx context.Context, tx *sqldb.Tx, kind int, adapter string) (more bool, err error) {
	r, err := reachOf(ctx, tx, adapter, "")
	if err != nil {
		return false, err
	}
	joins, condition, joinArgs, args := r.touched()
	query := `SELECT r.object FROM subjects r` + joins + ` WHERE r.kind = ? AND r.adapter = ? AND r.seq < ? AND NOT COALESCE(` + condition + `, FALSE) LIMIT ?`
	args = append(append(append(joinArgs, kind, r.adapter, r.to), args...), confirmAtOnce)
	untouched, err := sqldb.Column[int64](ctx, tx, query, args...)
	if err != nil {
		return false, err
	}
	for part := range slices.Chunk(untouched, step) {
		in, args := tx.InNumbers("object", part, r.to)
		if _, err := tx.Exec(ctx, `UPDATE subjects SET seq = ? WHERE `+in, args...); err != nil {
			return false, err
		}
	}
	if len(untouched) == confirmAtOnce {
		return true, nil
	}
	return false, forget(ctx, tx, kind, r)
}

// forget drops changes that no report needs: those up to the oldest data of a report. Where too many are left, the oldest
// versions become unlinked.
func forget(ctx context.Context, tx *sqldb.Tx, kind int, r reach) error {
	var oldest sql.NullInt64
	if err := tx.QueryRow(ctx, `SELECT MIN(seq) FROM subjects WHERE kind = ? AND adapter = ?`, kind, r.adapter).Scan(&oldest); err != nil {
		return err
	}
	upTo := r.to
	if oldest.Valid {
		upTo = min(upTo, max(oldest.Int64, r.unlinked))
	}
	if _, err := tx.Exec(ctx, `DELETE FROM database_changes WHERE adapter = ? AND seq <= ?`, r.adapter, upTo); err != nil {
		return err
	}
	var left int64
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM database_changes WHERE adapter = ?`, r.adapter).Scan(&left); err != nil || left <= maxChanges {
		return err
	}
	var first int64
	if err := tx.QueryRow(ctx, `SELECT MIN(seq) FROM database_changes WHERE adapter = ?`, r.adapter).Scan(&first); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE database_versions SET linked = 0 WHERE adapter = ? AND seq = ?`, r.adapter, first); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM database_changes WHERE adapter = ? AND seq = ?`, r.adapter, first)
	return err
}

// Good notes how far a report is known to be good: the data that it was made with. Data that the server has not heard of yet
// becomes the newest if it was built later than what is; a report of older data counts as touched by everything.
func Good(ctx context.Context, tx *sqldb.Tx, object int64, adapter, version string, built int64) error {
	seq, err := place(ctx, tx, adapter, version)
	if err != nil {
		return err
	}
	if seq == 0 && version != "" {
		var last int64
		err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(built), 0) FROM database_versions WHERE adapter = ?`, column(adapter, longText)).Scan(&last)
		if err != nil {
			return err
		}
		if built > last {
			if seq, err = addDatabase(ctx, tx, adapter, version, built, false); err != nil {
				return err
			}
		}
	}
	_, err = tx.Exec(ctx, `UPDATE subjects SET seq = ? WHERE object = ?`, seq, object)
	return err
}
