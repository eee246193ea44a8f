// SPDX-License-Identifier: Apache-2.0

package rows_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// keeper writes sets and reads tables.
type keeper struct {
	t     *testing.T
	store *mvcc.Store
	clock *testingclock.FakeClock
	at    map[string]int64
}

func newKeeper(t *testing.T, config sqldb.Config) *keeper {
	t.Helper()
	k := &keeper{t: t, clock: testingclock.NewFakeClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)), at: map[string]int64{}}
	var err error
	if k.store, err = mvcc.Open(t.Context(), config, mvcc.Options{Clock: k.clock, CompactEvery: -1, Unindex: rows.Drop}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return k
}

func (k *keeper) put(name string, set *rows.Set) {
	k.t.Helper()
	change := mvcc.Change{Key: "/reports/ns/" + name, From: k.at[name]}
	if set != nil {
		set.Namespace = "ns"
		change.To = &mvcc.State{Head: []byte("{}"), Index: set.Indexer()}
	}
	outcome, err := k.store.Write(k.t.Context(), change)
	if err != nil || !outcome.Written {
		k.t.Fatal(outcome, err)
	}
	k.at[name] = outcome.Revision
	if set == nil {
		delete(k.at, name)
	}
}

// table returns rows of two columns and more, as text.
func (k *keeper) table(query string, columns int) []string {
	k.t.Helper()
	var found []string
	err := k.store.Query(k.t.Context(), func(tx *sqldb.Tx) error {
		got, err := tx.Query(k.t.Context(), query)
		if err != nil {
			return err
		}
		defer got.Close()
		for got.Next() {
			values, places := make([]any, columns), make([]any, columns)
			for i := range values {
				places[i] = &values[i]
			}
			if err := got.Scan(places...); err != nil {
				return err
			}
			texts := make([]string, columns)
			for i, value := range values {
				if text, ok := value.([]byte); ok {
					value = string(text)
				}
				texts[i] = fmt.Sprint(value)
			}
			found = append(found, strings.Join(texts, " "))
		}
		return got.Err()
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return found
}

func (k *keeper) expect(what, query string, columns int, want ...string) {
	k.t.Helper()
	if diff := cmp.Diff(want, k.table(query, columns)); diff != "" {
		k.t.Errorf("%s:\n%s", what, diff)
	}
}

const (
	counts  = `SELECT p.s, c.result, c.n FROM counts c JOIN names p ON p.id = c.policy WHERE c.ns = 0 ORDER BY p.s, c.result`
	daily   = `SELECT d.day - 20779, d.severity, d.n, d.added, d.fixed FROM daily d ORDER BY d.day, d.severity`
	history = `SELECT p.severity, p.first_at - 1795348800, p.last_at - 1795348800, COALESCE(p.fixed_at - 1795348800, -1), p.reopened FROM history p ORDER BY p.severity`
)

func finding(policy string, severity rows.Severity) rows.Row {
	score := 7.5
	return rows.Row{Source: "test", Policy: policy, Rule: "it's \"quoted\" %_", Severity: severity, Result: rows.Fail, Score: &score, ResourceKind: "Pod", ResourceName: policy}
}

// Counts follow every replacement and deletion, in every database.
func TestCountsFollow(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		k := newKeeper(t, config)
		k.put("a", &rows.Set{Rows: []rows.Row{finding("one", rows.High), finding("two", rows.Low)}})
		k.put("b", &rows.Set{Rows: []rows.Row{finding("one", rows.High)}})
		k.expect("two reports", counts, 3, "one 2 2", "two 2 1")
		k.put("a", &rows.Set{Rows: []rows.Row{finding("one", rows.High)}})
		k.expect("one finding less", counts, 3, "one 2 2")
		k.put("a", &rows.Set{Rows: []rows.Row{finding("one", rows.High)}})
		k.expect("the same again", counts, 3, "one 2 2")
		k.put("b", nil)
		k.expect("one report less", counts, 3, "one 2 1")
		k.expect("the rows", `SELECT i, severity FROM results`, 2, "0 4")
		k.expect("first seen survives", `SELECT COUNT(*), MIN(last - at) FROM first_seen`, 2, "2 0")
	})
}

// When a finding was seen last is noted once a day, whether it is written by itself or among many.
func TestLastSeen(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		k := newKeeper(t, config)
		var many []rows.Row
		for i := range 1_300 { // more than one statement takes
			many = append(many, finding(strconv.Itoa(i), rows.High))
		}
		begun := k.clock.Now()
		seen := func(what string, want ...string) {
			t.Helper()
			k.expect(what, fmt.Sprintf(`SELECT COUNT(*), MIN(at - %[1]d), MAX(last - %[1]d) FROM first_seen GROUP BY last ORDER BY last`, begun.Unix()), 3, want...)
		}
		k.put("a", &rows.Set{Rows: many})
		seen("the first time", "1300 0 0")
		k.clock.SetTime(begun.Add(24*time.Hour - time.Second))
		k.put("a", &rows.Set{Rows: many})
		seen("less than a day later", "1300 0 0")
		k.clock.SetTime(begun.Add(24 * time.Hour))
		k.put("a", &rows.Set{Rows: many[:1_100]})
		seen("a day later", "200 0 0", "1100 0 86400")
		k.expect("the rows", `SELECT COUNT(*), COUNT(DISTINCT policy), MAX(i) FROM results`, 3, "1100 1100 1099")
		k.expect("the counts", `SELECT COUNT(*), SUM(n) FROM counts WHERE ns = 0`, 2, "1100 1100")
	})
}

// What follows from the other columns is not kept twice, and what only findings of images have stands in their rows.
func TestColumns(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		k := newKeeper(t, config)
		plain, known, same, installed, unknown := finding("one", rows.High), finding("one", rows.High), finding("one", rows.High), finding("one", rows.High), finding("one", rows.High)
		known.Known = strings.Repeat("ab", 32)
		same.Known = plain.Fingerprint()
		installed.Package = &rows.Package{Type: "npm", Version: "1.2.0", Fixable: true}
		unknown.Package = &rows.Package{}
		k.put("a", &rows.Set{Rows: []rows.Row{plain, known, same, installed, unknown}})
		const statement = `SELECT r.i, r.fingerprint, COALESCE(t.s, '-'), COALESCE(v.s, '-'), COALESCE(r.fixable, 9) FROM results r
			LEFT JOIN names t ON t.id = r.pkg_type LEFT JOIN names v ON v.id = r.pkg_version ORDER BY r.i`
		k.expect("the rows", statement, 5, "0  - - 9", "1 "+strings.Repeat("ab", 16)+" - - 9", "2  - - 9", "3  npm 1.2.0 1", "4  - - 0")
	})
}

// The course of a day begins with the end of the day before; what was deleted keeps its days.
func TestDays(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		k := newKeeper(t, config)
		k.put("a", &rows.Set{Rows: []rows.Row{finding("one", rows.High), finding("two", rows.Low)}})
		k.clock.SetTime(k.clock.Now().Add(48 * time.Hour))
		k.put("a", nil)
		k.expect("two days", daily, 5, "0 2 1 0 0", "0 4 1 0 0", "2 2 0 0 0", "2 4 0 0 0")
	})
}

// A finding is fixed when all parts of a later run are there and none holds it, and reopened when it comes back.
func TestHistory(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		k := newKeeper(t, config)
		run := func(name, run string, part, parts int, found ...rows.Row) {
			k.put(name, &rows.Set{Target: "host", Run: run, Part: part, Parts: parts, Rows: found})
		}
		hour := func() { k.clock.SetTime(k.clock.Now().Add(time.Hour)) }
		run("a0", "1", 0, 2, finding("one", rows.High))
		run("a1", "1", 1, 2, finding("two", rows.Low))
		hour()
		run("b0", "2", 0, 2, finding("one", rows.High))
		k.expect("half a run fixes nothing", history, 5, "2 0 0 -1 0", "4 0 3600 -1 0")
		run("b1", "2", 1, 2)
		k.expect("the whole run", history, 5, "2 0 0 3600 0", "4 0 3600 -1 0")
		k.put("b0", nil)
		k.expect("a deletion fixes nothing", history, 5, "2 0 0 3600 0", "4 0 3600 -1 0")
		hour()
		run("c0", "3", 0, 1, finding("one", rows.High), finding("two", rows.Low))
		k.expect("it came back", history, 5, "2 0 7200 -1 1", "4 0 7200 -1 0")
		k.expect("the day", `SELECT severity, added, fixed FROM daily ORDER BY severity`, 3, "2 2 1", "4 1 0")
		run("c0", "3", 0, 1, finding("one", rows.High), finding("two", rows.Low))
		k.expect("the same again", `SELECT severity, added, fixed FROM daily ORDER BY severity`, 3, "2 2 1", "4 1 0")
		hour()
		run("d0", "4", 0, 0)
		k.expect("a run that was cut fixes nothing", history, 5, "2 0 7200 -1 1", "4 0 7200 -1 0")
		k.put("e0", &rows.Set{Target: "host", Source: "other", Run: "5", Part: 0, Parts: 1})
		k.expect("a run of another scanner at the same target fixes nothing", history, 5, "2 0 7200 -1 1", "4 0 7200 -1 0")
		k.put("f0", &rows.Set{Target: "host", Source: "test", Run: "6", Part: 0, Parts: 1, Rows: []rows.Row{finding("two", rows.Low)}})
		k.expect("a run of the scanner itself does", history, 5, "2 0 10800 -1 1", "4 0 7200 10800 0")
		hour()
		whole := func(found ...rows.Row) {
			set := &rows.Set{Target: "image", Rows: found}
			set.Whole()
			k.put("image", set)
		}
		whole(finding("three", rows.Critical), finding("four", rows.Medium))
		hour()
		whole(finding("four", rows.Medium))
		k.expect("what is whole says what is gone", history+" DESC LIMIT 3", 5, "5 14400 14400 18000 0", "4 0 7200 10800 0", "3 14400 18000 -1 0")
	})
}

// Whatever a scanner writes can be kept: long texts, zero bytes, broken characters, quotes.
func TestForeignTexts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		k := newKeeper(t, config)
		for i, text := range []string{strings.Repeat("ä", 100_000), "a\x00b", "\xff\xfe", `'; DROP TABLE results; -- \`, "日本語"} {
			k.put(strconv.Itoa(i), &rows.Set{Rows: []rows.Row{{Policy: text, Rule: text, Result: rows.Fail}}})
		}
		k.expect("all are kept", `SELECT COUNT(*), COUNT(DISTINCT policy) FROM results`, 2, "5 5")
		k.expect("quotes stay", `SELECT s, 0 FROM names WHERE s LIKE '%DROP%'`, 2, `'; DROP TABLE results; -- \ 0`)
	})
}
