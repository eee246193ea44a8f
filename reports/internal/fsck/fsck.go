// SPDX-License-Identifier: Apache-2.0

// Package fsck counts anew what the database counts as it goes, and corrects it.
//
//	objects, changes ─► references of payloads      results ─► counts, the last day of daily
//	documents ─► references of contents             contents ─► chunks, packages
//
// What it decides:
//
//   - What can be counted from other rows is repaired: references, counts, days, rows whose object is gone.
//   - A payload or document that is missing cannot be made again: it is told, and stays. So does an object of a registry
//     whose fields are not there to be asked for.
//   - Which keys of vulnerability data have changed is known from uploads alone: nothing tells what is right.
//   - All is checked in one snapshot, all is repaired in one transaction. Who writes meanwhile waits.
package fsck

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

const secondsOfDay = 24 * 60 * 60

// Finding is what one check has found.
type Finding struct {
	// What was checked, for people.
	What string
	// Wrong is how many rows say something else than what is counted.
	Wrong int
	// Repaired tells that they do not any more.
	Repaired bool
}

// check is one check. repair is nil where nothing can be done.
type check struct {
	what   string
	wrong  func(ctx context.Context, tx *sqldb.Tx, now time.Time) ([]row, error)
	repair func(ctx context.Context, tx *sqldb.Tx, wrong []row, now time.Time) error
}

// row is one that is wrong: its key, and by how much or with which number.
type row struct {
	text string
	key  []any
	n    int64
}

// checks are in the order in which they repair: rows are counted when those without an object are gone.
var checks = []check{
	{what: "rows without an object", wrong: strayRows, repair: dropStrayRows},
	{what: "references of payloads", wrong: wrongReferences, repair: setReferences},
	{what: "missing payloads", wrong: missingPayloads},
	{what: "counts of policies", wrong: wrongCounts, repair: addCounts},
	{what: "counts of the last day", wrong: wrongDaily, repair: addDaily},
	{what: "chunks and packages without a document", wrong: strayChunks, repair: dropStrayChunks},
	{what: "references of documents", wrong: wrongContents, repair: setContents},
	{what: "missing documents", wrong: cutContents},
	{what: "images and repositories without their fields", wrong: withoutSubject},
}

// Run checks a database, and repairs it if it is told to.
func Run(ctx context.Context, db *sqldb.DB, now time.Time, repair bool) (findings []Finding, err error) {
	all := func(tx *sqldb.Tx) error {
		for _, c := range checks {
			wrong, err := c.wrong(ctx, tx, now)
			if err != nil {
				return fmt.Errorf("check %s: %w", c.what, err)
			}
			finding := Finding{What: c.what, Wrong: len(wrong)}
			if repair && c.repair != nil && len(wrong) > 0 {
				if err := c.repair(ctx, tx, wrong, now); err != nil {
					return fmt.Errorf("repair %s: %w", c.what, err)
				}
				finding.Repaired = true
			}
			findings = append(findings, finding)
		}
		return nil
	}
	if repair {
		err = db.Write(ctx, func(tx *sqldb.Tx, _ int64) error { return all(tx) })
	} else {
		err = db.Read(ctx, all)
	}
	if err != nil {
		return nil, err
	}
	return findings, nil
}

// read returns the rows of a query: a text, some numbers that make the key, and a number.
func read(ctx context.Context, tx *sqldb.Tx, numbers int, query string) (found []row, err error) {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	for rows.Next() {
		var r row
		var text sql.NullString
		values := make([]int64, numbers)
		targets := []any{&text}
		for i := range values {
			targets = append(targets, &values[i])
		}
		if err := rows.Scan(append(targets, &r.n)...); err != nil {
			return nil, err
		}
		r.text = text.String
		for _, value := range values {
			r.key = append(r.key, value)
		}
		found = append(found, r)
	}
	return found, rows.Err()
}

func wrongReferences(ctx context.Context, tx *sqldb.Tx, _ time.Time) ([]row, error) {
	return read(ctx, tx, 0, `SELECT b.sha, COALESCE(SUM(u.n), 0) FROM blobs b LEFT JOIN (
		SELECT payload AS sha, COUNT(*) AS n FROM objects WHERE payload IS NOT NULL GROUP BY payload
		UNION ALL SELECT before_payload, COUNT(*) FROM changes WHERE before_payload IS NOT NULL GROUP BY before_payload
	) AS u ON u.sha = b.sha GROUP BY b.sha, b.refs HAVING COALESCE(SUM(u.n), 0) <> b.refs`)
}

func setReferences(ctx context.Context, tx *sqldb.Tx, wrong []row, now time.Time) error {
	for _, r := range wrong {
		if _, err := tx.Exec(ctx, `UPDATE blobs SET refs = ?, at = ? WHERE sha = ?`, r.n, now.UnixMilli(), r.text); err != nil {
			return err
		}
	}
	return nil
}

func missingPayloads(ctx context.Context, tx *sqldb.Tx, _ time.Time) ([]row, error) {
	return read(ctx, tx, 0, `SELECT o."key", o.rv FROM objects o LEFT JOIN blobs b ON b.sha = o.payload WHERE o.payload IS NOT NULL AND b.sha IS NULL`)
}

// Differences between what is counted and what is said: those of the cluster have namespace 0.
func wrongCounts(ctx context.Context, tx *sqldb.Tx, _ time.Time) ([]row, error) {
	return read(ctx, tx, 4, `SELECT NULL, d.ns, d.policy, d.result, d.suppressed, SUM(d.n) FROM (
		SELECT ns, policy, result, suppressed, COUNT(*) AS n FROM results GROUP BY ns, policy, result, suppressed
		UNION ALL SELECT 0, policy, result, suppressed, COUNT(*) FROM results GROUP BY policy, result, suppressed
		UNION ALL SELECT ns, policy, result, suppressed, -n FROM counts
	) AS d GROUP BY d.ns, d.policy, d.result, d.suppressed HAVING SUM(d.n) <> 0`)
}

func addCounts(ctx context.Context, tx *sqldb.Tx, wrong []row, _ time.Time) error {
	end := tx.AddTo("counts", []string{"ns", "policy", "result", "suppressed"}, []string{"n"})
	for _, r := range wrong {
		if _, err := tx.Exec(ctx, `INSERT INTO counts (ns, policy, result, suppressed, n) VALUES (?, ?, ?, ?, ?)`+end, append(r.key, r.n)...); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `DELETE FROM counts WHERE n = 0`)
	return err
}

func wrongDaily(ctx context.Context, tx *sqldb.Tx, _ time.Time) ([]row, error) {
	return read(ctx, tx, 5, `SELECT NULL, d.ns, d.source, d.severity, d.result, d.suppressed, SUM(d.n) FROM (
		SELECT ns, source, severity, result, suppressed, COUNT(*) AS n FROM results GROUP BY ns, source, severity, result, suppressed
		UNION ALL SELECT ns, source, severity, result, suppressed, -n FROM daily WHERE day = (SELECT MAX(day) FROM daily)
	) AS d GROUP BY d.ns, d.source, d.severity, d.result, d.suppressed HAVING SUM(d.n) <> 0`)
}

func addDaily(ctx context.Context, tx *sqldb.Tx, wrong []row, now time.Time) error {
	day := now.Unix() / secondsOfDay
	if err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(day), ?) FROM daily`, day).Scan(&day); err != nil {
		return err
	}
	end := tx.AddTo("daily", []string{"day", "ns", "source", "severity", "result", "suppressed"}, []string{"n", "added", "fixed"})
	for _, r := range wrong {
		args := append(append([]any{day}, r.key...), r.n)
		if _, err := tx.Exec(
			ctx,
			`INSERT INTO daily (day, ns, source, severity, result, suppressed, n, added, fixed) VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0)`+end,
			args...); err != nil {
			return err
		}
	}
	return nil
}
