// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// atOnce is how many values one statement looks for, and how many rows are given to the database at once.
const atOnce = 1024

const secondsOfDay = 24 * 60 * 60

func readBefore(ctx context.Context, tx *sqldb.Tx, object int64) (before []stored, ns int64, err error) {
	rows, err := tx.Query(ctx, `SELECT ns, source, policy, severity, result, suppressed FROM results WHERE object = ?`, object)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	for rows.Next() {
		var row stored
		if err := rows.Scan(&ns, &row.source, &row.policy, &row.severity, &row.result, &row.suppressed); err != nil {
			return nil, 0, err
		}
		before = append(before, row)
	}
	return before, ns, rows.Err()
}

// longest is how much of a text is kept to be asked for, in bytes. Its number stands for the whole.
const longest = 4 << 10

// nameOf is what the database can hold of a text: no zero bytes, no broken characters, and not all of a long one.
func nameOf(text string) string {
	text = strings.ReplaceAll(text, "\x00", "")
	if len(text) > longest {
		text = text[:longest]
	}
	return strings.ToValidUTF8(text, "")
}

// numbersOf returns the numbers of texts, and gives one to those that are new.
func numbersOf(ctx context.Context, tx *sqldb.Tx, texts []string) (map[string]int64, error) {
	bySum := make(map[string]string, len(texts))
	numbers := make(map[string]int64, len(texts))
	var sums []string // of texts whose numbers are not known without the database
	for _, text := range texts {
		digest := sha256.Sum256([]byte(text))
		sum := hex.EncodeToString(digest[:])
		if number, known := tx.Number(sum); known {
			numbers[text] = number
			continue
		}
		sums = append(sums, sum)
		bySum[sum] = text
	}
	for part := range slices.Chunk(sums, atOnce) {
		if err := readNumbers(ctx, tx, part, bySum, numbers); err != nil {
			return nil, err
		}
	}
	fresh, err := newNumbers(ctx, tx, sums, bySum, numbers)
	if err != nil {
		return nil, err
	}
	if err := tx.Insert(ctx, "names", []string{"id", "sha", "s"}, "", fresh...); err != nil {
		return nil, err
	}
	for sum, text := range bySum {
		tx.NoteNumber(sum, numbers[text])
	}
	return numbers, nil
}

// newNumbers numbers the texts that have no number yet, and returns their rows.
func newNumbers(ctx context.Context, tx *sqldb.Tx, sums []string, bySum map[string]string, numbers map[string]int64) (fresh []any, err error) {
	var last int64
	for _, sum := range sums {
		text := bySum[sum]
		if _, known := numbers[text]; known {
			continue
		}
		if last == 0 {
			if err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(id), 0) FROM names`).Scan(&last); err != nil {
				return nil, err
			}
		}
		last++
		numbers[text] = last
		fresh = append(fresh, last, sum, nameOf(text))
	}
	return fresh, nil
}

func readNumbers(ctx context.Context, tx *sqldb.Tx, sums []string, bySum map[string]string, numbers map[string]int64) error {
	in, args := tx.In("sha", sums)
	rows, err := tx.Query(ctx, `SELECT id, sha FROM names WHERE `+in, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	for rows.Next() {
		var id int64
		var sum string
		if err := rows.Scan(&id, &sum); err != nil {
			return err
		}
		numbers[bySum[sum]] = id
	}
	return rows.Err()
}

func fingerprints(rows []stored) []string {
	found := make([]string, 0, len(rows))
	for i := range rows {
		found = append(found, rows[i].fingerprint)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// see notes that fingerprints are there now, and returns when each was first. When a fingerprint was last is noted once a day.
func see(ctx context.Context, tx *sqldb.Tx, ns int64, after []stored, at time.Time) (map[string]int64, error) {
	seen := map[string]int64{}
	for part := range slices.Chunk(fingerprints(after), atOnce) {
		stale, err := readSeen(ctx, tx, ns, part, at.Unix()-secondsOfDay, seen)
		if err != nil {
			return nil, err
		}
		if len(stale) > 0 {
			in, args := tx.In("fingerprint", stale, at.Unix(), ns)
			if _, err := tx.Exec(ctx, `UPDATE first_seen SET last = ? WHERE ns = ? AND `+in, args...); err != nil {
				return nil, err
			}
		}
		var fresh []any
		for _, fingerprint := range part {
			if _, known := seen[fingerprint]; !known {
				seen[fingerprint] = at.Unix()
				fresh = append(fresh, ns, fingerprint, at.Unix(), at.Unix())
			}
		}
		if err := tx.Insert(ctx, "first_seen", []string{"ns", "fingerprint", "at", "last"}, "", fresh...); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// readSeen reads when fingerprints were first, and returns those that were last noted before a time.
func readSeen(ctx context.Context, tx *sqldb.Tx, ns int64, part []string, before int64, seen map[string]int64) (stale []string, err error) {
	in, args := tx.In("fingerprint", part, ns)
	rows, err := tx.Query(ctx, `SELECT fingerprint, at, last FROM first_seen WHERE ns = ? AND `+in, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	for rows.Next() {
		var fingerprint string
		var at, last int64
		if err := rows.Scan(&fingerprint, &at, &last); err != nil {
			return nil, err
		}
		seen[fingerprint] = at
		if last <= before {
			stale = append(stale, fingerprint)
		}
	}
	return stale, rows.Err()
}

// columns are those of results, in the order of what insertRows gives.
var columns = []string{
	"object", "i", "ns", "source", "policy", "rule", "category", "severity", "result", "score", "ts", "first_seen", "res_kind", "res_ns", "res_name",
	"fingerprint", "exception", "suppressed", "pkg_type", "pkg_version", "fixable",
}

// kept is the fingerprint as results has it: empty where it follows from the other columns, which saves a tenth of all that is stored.
func (r *stored) kept() string {
	if r.fingerprint == r.row.derived() {
		return ""
	}
	return r.fingerprint
}

// insertRows writes the rows in the order of their policies, in which their index is cheapest to fill.
func insertRows(ctx context.Context, tx *sqldb.Tx, object, ns int64, after []stored, seen map[string]int64) error {
	order := make([]int, len(after))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(after[a].policy - after[b].policy) })
	for part := range slices.Chunk(order, atOnce) {
		args := make([]any, 0, len(columns)*len(part))
		for _, i := range part {
			row := &after[i]
			var score sql.NullFloat64
			if row.row.Score != nil {
				score = sql.NullFloat64{Float64: *row.row.Score, Valid: true}
			}
			ts := sql.NullInt64{Int64: row.row.Time.Unix(), Valid: !row.row.Time.IsZero()}
			args = append(args, object, row.place, ns, row.source, row.policy, row.rule, row.category, int(row.severity), int(row.result), score, ts,
				seen[row.fingerprint], row.resKind, row.resNamespace, row.resName, row.kept(), row.exception, row.suppressed,
				row.pkgType, row.pkgVersion, row.fixable)
		}
		if err := tx.Insert(ctx, "results", columns, "", args...); err != nil {
			return err
		}
	}
	return nil
}

// count changes the counts of policies by the difference between two states.
func count(ctx context.Context, tx *sqldb.Tx, ns int64, before, after []stored) error {
	differences := map[counted]int64{}
	for i := range before {
		differences[counted{before[i].policy, before[i].result, before[i].suppressed}]--
	}
	for i := range after {
		differences[counted{after[i].policy, after[i].result, after[i].suppressed}]++
	}
	var args []any
	lower := false
	maps.DeleteFunc(differences, func(_ counted, n int64) bool { return n == 0 })
	// In the order of the table, whose pages are then looked for once.
	order := slices.SortedFunc(maps.Keys(differences), counted.compare)
	for _, place := range []int64{0, ns} {
		for _, key := range order {
			lower = lower || differences[key] < 0
			args = append(args, place, key.policy, int(key.result), key.suppressed, differences[key])
		}
	}
	key := []string{"ns", "policy", "result", "suppressed"}
	end := tx.AddTo("counts", key, []string{"n"})
	if err := tx.Insert(ctx, "counts", append(key, "n"), end, args...); err != nil {
		return err
	}
	if !lower {
		return nil
	}
	for key, n := range differences {
		if n >= 0 {
			continue
		}
		_, err := tx.Exec(
			ctx,
			`DELETE FROM counts WHERE ns IN (?, 0) AND policy = ? AND result = ? AND suppressed = ? AND n = 0`,
			ns, key.policy, int(key.result), key.suppressed,
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// openDay makes sure that today has rows: the first write of a day begins with what the last day ended with.
func openDay(ctx context.Context, tx *sqldb.Tx, at time.Time) (int64, error) {
	var last sql.NullInt64
	if err := tx.QueryRow(ctx, `SELECT MAX(day) FROM daily`).Scan(&last); err != nil {
		return 0, err
	}
	today := max(at.Unix()/secondsOfDay, last.Int64) // a clock that was set back does not open a day behind the last
	if !last.Valid || last.Int64 == today {
		return today, nil
	}
	_, err := tx.Exec(ctx, `INSERT INTO daily (day, ns, source, severity, result, suppressed, n, added, fixed)
		SELECT d.day + ?, d.ns, d.source, d.severity, d.result, d.suppressed, d.n, 0, 0 FROM daily d WHERE d.day = ? AND d.n > 0`, today-last.Int64, last.Int64)
	return today, err
}

// course is what a day changes.
type course struct{ open, added, fixed int64 }

func of(days map[group]*course, key group) *course {
	if days[key] == nil {
		days[key] = &course{}
	}
	return days[key]
}

func countCourse(days map[group]*course, before, after []stored) {
	for i := range before {
		of(days, before[i].group).open--
	}
	for i := range after {
		of(days, after[i].group).open++
	}
}

func addCourse(ctx context.Context, tx *sqldb.Tx, day, ns int64, days map[group]*course) error {
	var args []any
	for key, change := range days {
		if *change != (course{}) {
			args = append(args, day, ns, key.source, int(key.severity), int(key.result), key.suppressed, change.open, change.added, change.fixed)
		}
	}
	key, numbers := []string{"day", "ns", "source", "severity", "result", "suppressed"}, []string{"n", "added", "fixed"}
	return tx.Insert(ctx, "daily", append(key, numbers...), tx.AddTo("daily", key, numbers), args...)
}
