// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// life is a row of history.
type life struct {
	group
	fixed bool
}

// aim is what a run has looked at: a target, and if source is not 0, for findings of that source only.
type aim struct{ ns, target, source int64 }

// follow notes which findings a target has, which of them are new or have come back, and once all parts of the run have
// been seen, which are gone.
func (s *Set) follow(ctx context.Context, tx *sqldb.Tx, to aim, after []stored, at time.Time, days map[group]*course) error {
	byFingerprint := map[string]*stored{}
	for i := range after {
		byFingerprint[after[i].fingerprint] = &after[i]
	}
	for part := range slices.Chunk(fingerprints(after), atOnce) {
		if err := s.followPart(ctx, tx, to, part, byFingerprint, at, days); err != nil {
			return err
		}
	}
	if s.Run == "" || s.Parts == 0 {
		return nil
	}
	complete, err := s.isComplete(ctx, tx, to, at)
	if err != nil || !complete {
		return err
	}
	return s.fix(ctx, tx, to, at, days)
}

func (s *Set) followPart(
	ctx context.Context, tx *sqldb.Tx, to aim, part []string, rows map[string]*stored, at time.Time, days map[group]*course,
) error {
	in, args := tx.In("fingerprint", part, to.ns, to.target)
	where := ` WHERE ns = ? AND target = ? AND ` + in
	lives, err := readLives(ctx, tx, where, args)
	if err != nil {
		return err
	}
	if len(lives) > 0 {
		// The order of the assignments matters: MySQL's see each other. What was fixed is counted before it is cleared.
		_, err := tx.Exec(ctx, `UPDATE history SET reopened = reopened + CASE WHEN fixed_at IS NULL THEN 0 ELSE 1 END, fixed_at = NULL, last_at = ?, run = ?`+where,
			append([]any{at.Unix(), s.Run}, args...)...)
		if err != nil {
			return err
		}
	}
	var fresh []any
	for _, fingerprint := range part {
		row := rows[fingerprint]
		known, ok := lives[fingerprint]
		if !ok || known.fixed {
			of(days, row.group).added++
		}
		if !ok {
			fresh = append(fresh, to.ns, to.target, fingerprint, row.source, int(row.severity), int(row.result), row.policy, row.rule, at.Unix(), at.Unix(), 0, s.Run)
		}
	}
	columns := []string{"ns", "target", "fingerprint", "source", "severity", "result", "policy", "rule", "first_at", "last_at", "reopened", "run"}
	return tx.Insert(ctx, "history", columns, "", fresh...)
}

func readLives(ctx context.Context, tx *sqldb.Tx, where string, args []any) (map[string]life, error) {
	rows, err := tx.Query(ctx, `SELECT fingerprint, source, severity, result, fixed_at FROM history`+where, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	lives := map[string]life{}
	for rows.Next() {
		var fingerprint string
		var found life
		var fixed sql.NullInt64
		if err := rows.Scan(&fingerprint, &found.source, &found.severity, &found.result, &fixed); err != nil {
			return nil, err
		}
		found.fixed = fixed.Valid
		lives[fingerprint] = found
	}
	return lives, rows.Err()
}

// isComplete notes this part of the run and tells whether all have been seen. Parts of other runs are forgotten then.
func (s *Set) isComplete(ctx context.Context, tx *sqldb.Tx, to aim, at time.Time) (bool, error) {
	found, err := tx.Exec(ctx, `UPDATE run_parts SET at = ? WHERE ns = ? AND target = ? AND run = ? AND part = ?`, at.Unix(), to.ns, to.target, s.Run, s.Part)
	if err != nil {
		return false, err
	}
	if found == 0 {
		_, err := tx.Exec(ctx, `INSERT INTO run_parts (ns, target, source, run, part, at) VALUES (?, ?, ?, ?, ?, ?)`,
			to.ns, to.target, to.source, s.Run, s.Part, at.Unix())
		if err != nil {
			return false, err
		}
	}
	var parts int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM run_parts WHERE ns = ? AND target = ? AND run = ?`, to.ns, to.target, s.Run).Scan(&parts); err != nil {
		return false, err
	}
	if parts < s.Parts {
		return false, nil
	}
	_, err = tx.Exec(ctx, `DELETE FROM run_parts WHERE ns = ? AND target = ? AND source = ? AND run <> ?`, to.ns, to.target, to.source, s.Run)
	return true, err
}

// fix marks what the target had and a complete run does not hold.
func (s *Set) fix(ctx context.Context, tx *sqldb.Tx, to aim, at time.Time, days map[group]*course) error {
	where, args := ` WHERE ns = ? AND target = ? AND run <> ? AND fixed_at IS NULL`, []any{to.ns, to.target, s.Run}
	if to.source != 0 {
		where, args = where+` AND source = ?`, append(args, to.source)
	}
	gone, err := readLives(ctx, tx, where, args)
	if err != nil || len(gone) == 0 {
		return err
	}
	for _, found := range gone {
		of(days, found.group).fixed++
	}
	_, err = tx.Exec(ctx, `UPDATE history SET fixed_at = ?`+where, append([]any{at.Unix()}, args...)...)
	return err
}
