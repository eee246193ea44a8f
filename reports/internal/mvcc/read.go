// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// pageBytes bounds what one read holds: a page ends early when its rows are this large, expanded.
const pageBytes = 16 << 20

// Get returns the state of a key, nil if there is none, and the counter at the same moment.
func (s *Store) Get(ctx context.Context, key string) (*Value, int64, error) {
	var revision int64
	var row storedRow
	var rv sql.NullInt64
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		return tx.QueryRow(ctx, `SELECT m.v, o.rv, o.head, o.payload, b.codec, b.data FROM meta m
			LEFT JOIN objects o ON o."key" = ? LEFT JOIN blobs b ON b.sha = o.payload WHERE m.k = 'rv'`, key).
			Scan(&revision, &rv, &row.head, &row.sha, &row.codec, &row.data)
	})
	if err != nil {
		return nil, 0, s.classified(ctx, "get", err)
	}
	if !rv.Valid {
		return nil, revision, nil
	}
	row.revision = rv.Int64
	value, err := s.value(&row, false)
	return value, revision, err
}

// storedRow is a state as a query returns it.
type storedRow struct {
	key      string
	revision int64
	head     []byte
	sha      sql.NullString
	codec    sql.NullInt64
	data     []byte
	raw      int // bytes of the payload once it is expanded; 0 where it is not read
}

// value expands a stored state. A payload that is not what was written is left out and marked.
func (s *Store) value(row *storedRow, headOnly bool) (*Value, error) {
	head, err := s.codec.unpack(row.head)
	if err != nil {
		return nil, err
	}
	value := &Value{Revision: row.revision, Head: head, Sha: row.sha.String}
	if !row.sha.Valid || headOnly {
		return value, nil
	}
	if value.Payload, err = s.codec.open(row.sha.String, int(row.codec.Int64), row.data); err != nil {
		value.Damaged = true
		s.observer.Damaged()
	}
	return value, nil
}

// Load fills in the payload of a value that was read without it.
func (s *Store) Load(ctx context.Context, value *Value) error {
	if value.Sha == "" || value.Payload != nil || value.Damaged {
		return nil
	}
	row := storedRow{sha: sql.NullString{String: value.Sha, Valid: true}}
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		return tx.QueryRow(ctx, `SELECT codec, data FROM blobs WHERE sha = ?`, value.Sha).Scan(&row.codec, &row.data)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return ErrCompacted // the change that named the payload has been dropped in the meantime
	}
	if err != nil {
		return s.classified(ctx, "load a payload", err)
	}
	if value.Payload, err = s.codec.open(value.Sha, int(row.codec.Int64), row.data); err != nil {
		value.Damaged = true
		s.observer.Damaged()
	}
	return nil
}

// Object is a present state by its number in the database.
type Object struct {
	ID, Kind int64
	Value
}

// Objects reads the states of objects by their numbers, within a snapshot of Query. Those that are not there are left out.
func (s *Store) Objects(ctx context.Context, tx *sqldb.Tx, ids ...int64) (found []Object, err error) {
	args := make([]any, 0, len(ids))
	for _, id := range ids {
		args = append(args, id)
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(ids)), ", ")
	rows, err := tx.Query(
		ctx,
		`SELECT o.id, o.kind, o.rv, o.head, o.payload, b.codec, b.data FROM objects o LEFT JOIN blobs b ON b.sha = o.payload WHERE o.id IN (`+marks+`)`,
		args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	for rows.Next() {
		var object Object
		var row storedRow
		if err := rows.Scan(&object.ID, &object.Kind, &row.revision, &row.head, &row.sha, &row.codec, &row.data); err != nil {
			return nil, err
		}
		value, err := s.value(&row, false)
		if err != nil {
			return nil, err
		}
		object.Value = *value
		found = append(found, object)
	}
	return found, rows.Err()
}

// Range says which states are read.
type Range struct {
	// Start is the first key, End the one behind the last.
	Start, End string
	// After leaves out Start itself.
	After bool
	// At is the revision as of which is read; 0 is the newest.
	At int64
	// Limit is the number of states at most; a page may end earlier.
	Limit int
	// HeadOnly leaves payloads out.
	HeadOnly bool
	// Count asks for the number of states in the whole range.
	Count bool
	// Narrow are conditions that what is wanted fulfils. States as of a former revision may be returned that do not.
	Narrow []Condition
}

// Page is a part of a range.
type Page struct {
	// Revision is the moment of the states: At, or the counter.
	Revision int64
	// Current is the counter. A page as of a revision behind it is empty.
	Current int64
	Items   []Item
	// More tells that the range has states behind the last of Items.
	More bool
	// Count is the number of states in the range, with those of Items.
	Count int64
}

// Condition narrows a range in the database.
type Condition struct {
	clause string
	args   []any
}

// LabelIn is fulfilled by objects whose label has one of the values.
func LabelIn(key string, values ...string) Condition {
	args := []any{key}
	for _, value := range values {
		args = append(args, value)
	}
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(values)), ", ")
	return Condition{clause: ` AND o.id IN (SELECT object FROM labels WHERE k = ? AND v IN (` + marks + `))`, args: args}
}

// LabelExists is fulfilled by objects that have the label.
func LabelExists(key string) Condition {
	return Condition{clause: ` AND o.id IN (SELECT object FROM labels WHERE k = ?)`, args: []any{key}}
}

// Column is a column that lists are narrowed by.
type Column string

// The columns there are.
const (
	NamespaceColumn  Column = "ns"
	NameColumn       Column = "name"
	DigestColumn     Column = "digest"
	RegistryColumn   Column = "registry"
	RepositoryColumn Column = "repository"
)

// ColumnIs is fulfilled by objects with that value.
func ColumnIs(column Column, value string) Condition {
	return Condition{clause: ` AND o.` + string(column) + ` = ?`, args: []any{value}}
}

// RowIs is fulfilled by objects of a kind that have a row of a table with that value. Table and column are texts of the
// program, never of a client.
func RowIs(table, column string, kind int, value any) Condition {
	return Condition{clause: ` AND o.id IN (SELECT object FROM ` + table + ` WHERE kind = ? AND ` + column + ` = ?)`, args: []any{kind, value}}
}

// Range reads a page in one snapshot.
func (s *Store) Range(ctx context.Context, r Range) (*Page, error) {
	page := &Page{}
	var rows []storedRow
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		current, compacted, err := counters(ctx, tx)
		if err != nil {
			return err
		}
		page.Revision, page.Current = current, current
		if r.At != 0 {
			page.Revision = r.At
		}
		if page.Revision < compacted {
			return ErrCompacted
		}
		if page.Revision > current {
			return nil
		}
		if rows, page.More, err = readRange(ctx, tx, r, page.Revision, current); err != nil {
			return err
		}
		if r.Count && page.More {
			page.Count, err = countRange(ctx, tx, r, page.Revision, current)
		}
		return err
	})
	if err != nil {
		return nil, s.classified(ctx, "list", err)
	}
	page.Items = make([]Item, 0, len(rows))
	for i := range rows {
		value, err := s.value(&rows[i], r.HeadOnly)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rows[i].key, err)
		}
		page.Items = append(page.Items, Item{Key: rows[i].key, Value: *value})
		rows[i] = storedRow{} // what is expanded need not be held twice
	}
	return page, nil
}

func counters(ctx context.Context, tx *sqldb.Tx) (revision, compacted int64, err error) {
	err = tx.QueryRow(ctx, `SELECT r.v, c.v FROM meta r, meta c WHERE r.k = 'rv' AND c.k = 'compacted'`).Scan(&revision, &compacted)
	return revision, compacted, err
}

// bounds is the condition on the key that every statement of a range has.
func (r *Range) bounds(column string) (clause string, args []any) {
	from := " >= ?"
	if r.After {
		from = " > ?"
	}
	return column + from + ` AND ` + column + ` < ?`, []any{r.Start, r.End}
}

// readRange reads the states as of at: present rows that are not newer, and for keys that have changed since, the state
// before the first change. Both come in the order of their keys and are merged.
//
//nolint:gocognit // one merge of two sorted lists: its parts mean nothing alone
func readRange(ctx context.Context, tx *sqldb.Tx, r Range, at, current int64) (rows []storedRow, more bool, err error) {
	present, presentMore, err := readPresent(ctx, tx, r, at)
	if err == nil && !presentMore && len(r.Narrow) > 0 && len(present) == r.Limit {
		presentMore, err = anyBehind(ctx, tx, r, present[len(present)-1].key)
	}
	if err != nil || at == current {
		return present, presentMore, err
	}
	former, formerMore, err := readFormer(ctx, tx, r, at)
	if err != nil {
		return nil, false, err
	}
	merged := make([]storedRow, 0, len(present)+len(former))
	// Behind the last row of a list that is not complete, the other list must not go on.
	bounded := func(rows []storedRow, more bool) string {
		if !more || len(rows) == 0 {
			return ""
		}
		return rows[len(rows)-1].key
	}
	end := bounded(present, presentMore)
	if other := bounded(former, formerMore); other != "" && (end == "" || other < end) {
		end = other
	}
	for len(present) > 0 || len(former) > 0 {
		from := &present
		if len(present) == 0 || (len(former) > 0 && former[0].key < present[0].key) {
			from = &former
		}
		next := (*from)[0]
		if len(merged) == r.Limit || (end != "" && next.key > end) {
			return merged, true, nil
		}
		merged, *from = append(merged, next), (*from)[1:]
	}
	return merged, presentMore || formerMore, nil
}

// anyBehind tells whether a full page has rows behind it that a condition leaves out. A page ends by its place, not by what
// follows: clients of etcd's storage get a continue token then, and one empty page more.
func anyBehind(ctx context.Context, tx *sqldb.Tx, r Range, last string) (bool, error) {
	var n int
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM objects WHERE "key" > ? AND "key" < ? LIMIT 1) AS behind`, last, r.End).Scan(&n)
	return n > 0, err
}

func payloadColumns(r Range, alias string) (columns, join string) {
	if r.HeadOnly {
		return `NULL, NULL, 0`, ``
	}
	return `b.codec, b.data, COALESCE(b.raw_size, 0)`, ` LEFT JOIN blobs b ON b.sha = ` + alias
}

func readPresent(ctx context.Context, tx *sqldb.Tx, r Range, at int64) ([]storedRow, bool, error) {
	columns, join := payloadColumns(r, "o.payload")
	clause, args := r.bounds(`o."key"`)
	var query strings.Builder
	query.WriteString(`SELECT o."key", o.rv, o.head, o.payload, ` + columns + ` FROM objects o` + join + ` WHERE ` + clause + ` AND o.rv <= ?`)
	args = append(args, at)
	for _, condition := range r.Narrow {
		query.WriteString(condition.clause)
		args = append(args, condition.args...)
	}
	query.WriteString(` ORDER BY o."key" LIMIT ?`)
	return readRows(ctx, tx, r.Limit, query.String(), append(args, r.Limit+1)...)
}

func readFormer(ctx context.Context, tx *sqldb.Tx, r Range, at int64) ([]storedRow, bool, error) {
	columns, join := payloadColumns(r, "c.before_payload")
	clause, args := r.bounds(`c."key"`)
	query := `SELECT c."key", c.before_rv, c.before_head, c.before_payload, ` + columns + ` FROM changes c` + join +
		` WHERE ` + formerClause(clause) + ` ORDER BY c."key" LIMIT ?`
	return readRows(ctx, tx, r.Limit, query, append(args, at, at, r.Limit+1)...)
}

// formerClause selects the first change of each key after a revision, if there was a state before it.
func formerClause(bounds string) string {
	return bounds + ` AND c.rv > ? AND c.before_rv IS NOT NULL AND c.type IN (2, 3)
		AND NOT EXISTS (SELECT 1 FROM changes d WHERE d."key" = c."key" AND d.rv > ? AND d.rv < c.rv)`
}

// readRows reads up to limit rows, or as many as a page may hold; the query asks for one more.
func readRows(ctx context.Context, tx *sqldb.Tx, limit int, query string, args ...any) (found []storedRow, more bool, err error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	size := 0
	for rows.Next() {
		if len(found) == limit || size > pageBytes {
			return found, true, nil
		}
		var row storedRow
		if err := rows.Scan(&row.key, &row.revision, &row.head, &row.sha, &row.codec, &row.data, &row.raw); err != nil {
			return nil, false, err
		}
		size += len(row.head) + row.raw
		found = append(found, row)
	}
	return found, false, rows.Err()
}

func countRange(ctx context.Context, tx *sqldb.Tx, r Range, at, current int64) (int64, error) {
	clause, args := r.bounds(`o."key"`)
	var present, former int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM objects o WHERE `+clause+` AND o.rv <= ?`, append(args, at)...).Scan(&present)
	if err != nil || at == current {
		return present, err
	}
	clause, args = r.bounds(`c."key"`)
	err = tx.QueryRow(ctx, `SELECT COUNT(*) FROM changes c WHERE `+formerClause(clause), append(args, at, at)...).Scan(&former)
	return present + former, err
}

// Stats are the number of states in a range and the bytes that they have.
type Stats struct{ Count, Bytes int64 }

// Stats counts what is in a range now, and fulfils its conditions.
func (s *Store) Stats(ctx context.Context, r Range) (Stats, error) {
	var stats Stats
	clause, args := r.bounds(`o."key"`)
	var query strings.Builder
	query.WriteString(`SELECT COUNT(*), COALESCE(SUM(o.size), 0) FROM objects o WHERE ` + clause)
	for _, condition := range r.Narrow {
		query.WriteString(condition.clause)
		args = append(args, condition.args...)
	}
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		return tx.QueryRow(ctx, query.String(), args...).Scan(&stats.Count, &stats.Bytes)
	})
	return stats, s.classified(ctx, "count", err)
}
