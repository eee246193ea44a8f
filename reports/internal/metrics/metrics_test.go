// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	compmetrics "k8s.io/component-base/metrics"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/metrics"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// A scrape tells what the database holds and what has happened.
func TestScrape(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		registry := compmetrics.NewKubeRegistry()
		m, err := metrics.New(registry)
		if err != nil {
			t.Fatal(err)
		}
		clock := testingclock.NewFakeClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
		store, err := mvcc.Open(t.Context(), config, mvcc.Options{Clock: clock, CompactEvery: -1, Unindex: rows.Drop, Observer: m})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := store.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		m.Watch(store, map[int64]string{1: "reports", 2: "images"}, clock)
		write := func(name string, from int64) int64 {
			set := &rows.Set{Namespace: "ns", Rows: []rows.Row{{Policy: "one", Result: rows.Fail}, {Policy: "two", Result: rows.Fail}}}
			state := &mvcc.State{Head: []byte(`{"a":"b"}`), Payload: []byte(strings.Repeat("x", 5000)), Kind: 1, Namespace: "ns", Name: name, Index: set.Indexer()}
			outcome, err := store.Write(t.Context(), mvcc.Change{Key: "/reports/ns/" + name, From: from, To: state})
			if err != nil {
				t.Fatal(err)
			}
			return outcome.Revision
		}
		write("a", 0)
		write("b", 0)
		write("b", 0) // a conflict
		m.Watching("reports")(1)
		m.Answered("counts", 3*time.Millisecond)
		m.QueryRejected()
		expect := func(name string, lines ...string) {
			t.Helper()
			got, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, family := range got {
				if family.GetName() != "scanyard_reports_"+name {
					continue
				}
				for _, metric := range family.GetMetric() {
					value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
					text := fmt.Sprint(value)
					for _, label := range metric.GetLabel() {
						text = label.GetValue() + " " + text
					}
					found = append(found, text)
				}
			}
			if strings.Join(found, ", ") != strings.Join(lines, ", ") {
				t.Errorf("%s: %q, want %q", name, found, lines)
			}
		}
		expect("objects", "images 0", "reports 2")
		expect("results", "4")
		expect("bytes", fmt.Sprint("blobs ", blobBytes(t, store)), "changes 0", "heads 18")
		expect("blob_dedup_ratio", "2")
		expect("resource_version", strconv.FormatInt(store.Revision(), 10))
		expect("changes_total", "added 2")
		expect("commit_seconds", "3")
		expect("conflicts_total", "1")
		expect("watchers", "reports 1")
		expect("db_up", "1")
		expect("write_queue", "0")
		expect("query_seconds", "counts 1")
		expect("query_rejected_total", "1")
		expect("rejected_total", "bytes 0", "inflight 0", "queue 0", "watches 0")
		expect("migration_state", "0")
		for _, moving := range []bool{true, true, false, true} {
			if err := store.Moving(t.Context(), moving); err != nil {
				t.Fatal(err)
			}
		}
		write("c", 0)
		expect("results", "4") // asked for once a minute
		clock.SetTime(clock.Now().Add(time.Minute))
		expect("results", "6")
		expect("migration_state", "1")
	})
}

func blobBytes(t *testing.T, store *mvcc.Store) (bytes int64) {
	t.Helper()
	err := store.Query(t.Context(), func(tx *sqldb.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT SUM(LENGTH(data)) FROM blobs`).Scan(&bytes)
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// A scrape tells that the database is away, and does not fail.
func TestScrapeWithoutDatabase(t *testing.T) {
	t.Parallel()
	config, proxy := dbtest.Proxied(t, sqldb.PostgreSQL)
	registry := compmetrics.NewKubeRegistry()
	m, err := metrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	store, err := mvcc.Open(t.Context(), config, mvcc.Options{CompactEvery: -1, Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())
	m.Watch(store, nil, testingclock.NewFakePassiveClock(time.Now()))
	proxy.Down()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		switch family.GetName() {
		case "scanyard_reports_db_up":
			if up := family.GetMetric()[0].GetGauge().GetValue(); up != 0 {
				t.Errorf("db_up is %v", up)
			}
			return
		case "scanyard_reports_results":
			t.Error("what only the database knows is told without it")
		}
	}
	t.Error("db_up is missing")
}
