// SPDX-License-Identifier: Apache-2.0

package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/fsck"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func openStore(t *testing.T, config sqldb.Config) *mvcc.Store {
	t.Helper()
	store, err := mvcc.Open(t.Context(), config, mvcc.Options{CompactEvery: -1, Unindex: rows.Drop})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func closeStore(t *testing.T, store *mvcc.Store) {
	t.Helper()
	if err := store.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// write writes a report, deletes it for a nil set, and returns its revision.
func write(t *testing.T, store *mvcc.Store, name string, from int64, policies ...string) int64 {
	t.Helper()
	change := mvcc.Change{Key: "/reports/ns/" + name, From: from}
	if len(policies) > 0 {
		set := &rows.Set{Namespace: "ns"}
		for _, policy := range policies {
			set.Rows = append(set.Rows, rows.Row{Policy: policy, Severity: rows.High, Result: rows.Fail})
		}
		payload := []byte(strings.Join(policies, strings.Repeat(" ", 5000)))
		change.To = &mvcc.State{Head: []byte("{}"), Payload: payload, Size: int64(len(payload)), Index: set.Indexer(), Namespace: "ns", Name: name}
	}
	outcome, err := store.Write(t.Context(), change)
	if err != nil || !outcome.Written {
		t.Fatal(outcome, err)
	}
	return outcome.Revision
}

func run(t *testing.T, config sqldb.Config, repair bool) []string {
	t.Helper()
	open := sqldb.OpenToRead
	if repair {
		open = sqldb.Open
	}
	db, err := open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	findings, err := fsck.Run(t.Context(), db, time.Now(), repair)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, finding := range findings {
		told = append(told, fmt.Sprintf("%s: %d %t", finding.What, finding.Wrong, finding.Repaired))
	}
	return told
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
}

var right = []string{
	"rows without an object: 0 false", "references of payloads: 0 false", "missing payloads: 0 false", "counts of policies: 0 false", "counts of the last day: 0 false",
	"chunks and packages without a document: 0 false", "references of documents: 0 false", "missing documents: 0 false",
	"images and repositories without their fields: 0 false",
}

// A database that is used as it should be has nothing wrong, also while it is served; what is made wrong is found and repaired.
func TestCheckAndRepair(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		store := openStore(t, config)
		first := write(t, store, "a", 0, "one", "two")
		write(t, store, "b", 0, "one")
		first = write(t, store, "a", first, "one", "three")
		write(t, store, "c", 0, "one", "three")
		write(t, store, "a", first)
		expect(t, "while it is served", run(t, config, false), right...)
		err := store.Maintain(t.Context(), "damage", func(tx *sqldb.Tx) error {
			var errs []error
			for _, statement := range []string{
				`INSERT INTO results (object, i, ns, source, policy, rule, category, severity, result, first_seen, res_kind, res_ns, res_name, fingerprint, suppressed)
					SELECT 9999, 0, ns, source, policy, rule, category, severity, result, first_seen, res_kind, res_ns, res_name, fingerprint, suppressed FROM results WHERE object = (SELECT MIN(id) FROM objects)`,
				`UPDATE blobs SET refs = refs + 1`,
				`UPDATE counts SET n = n + 1 WHERE result = 2 AND ns = 0`,
				`DELETE FROM counts WHERE ns <> 0`,
				`UPDATE daily SET n = n - 2`,
				`UPDATE objects SET payload = NULL WHERE name = 'b'`,
				`UPDATE objects SET payload = '0000' WHERE name = 'b'`,
			} {
				_, err := tx.Exec(t.Context(), statement)
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		})
		closeStore(t, store)
		if err != nil {
			t.Fatal(err)
		}
		wrong := []string{
			"rows without an object: 1", "references of payloads: 3", "missing payloads: 1", "counts of policies: 3", "counts of the last day: 1",
			"chunks and packages without a document: 0", "references of documents: 0", "missing documents: 0", "images and repositories without their fields: 0",
		}
		told := func(repaired ...bool) (want []string) {
			for i, text := range wrong {
				want = append(want, fmt.Sprintf("%s %t", text, i < len(repaired) && repaired[i]))
			}
			return want
		}
		expect(t, "found", run(t, config, false), told()...)
		// The count of the cluster was wrong by the row without an object only by chance: it is counted after that has gone.
		wrong[3] = "counts of policies: 4"
		expect(t, "repaired", run(t, config, true), told(true, true, false, true, true)...)
		still := append([]string{}, right...)
		still[2] = "missing payloads: 1 false"
		expect(t, "right again", run(t, config, false), still...)
	})
}

// A backup is a database as of a moment, made while another process writes; restored, it keeps what it replaces, and its
// numbers are beyond all that either has given out.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	config := dbtest.New(t, sqldb.SQLite)
	store := openStore(t, config)
	write(t, store, "a", 0, "one", "two")
	file := string(config.DSN) + ".backup"
	revision, size, err := sqldb.Backup(t.Context(), config, file)
	if err != nil || revision != store.Revision() || size == 0 {
		t.Fatalf("revision %d, %d bytes, %v", revision, size, err)
	}
	if _, _, err := sqldb.Backup(t.Context(), config, file); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("over another backup: %v", err)
	}
	lost := write(t, store, "b", 0, "three")
	var start *sqldb.StartError
	if _, err := sqldb.Restore(t.Context(), config, file); !errors.As(err, &start) || start.Exit != sqldb.ExitInUse {
		t.Errorf("under a running server: %v", err)
	}
	closeStore(t, store)
	if _, err := sqldb.Restore(t.Context(), config, file+".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a backup: %v", err)
	}
	kept, err := sqldb.Restore(t.Context(), config, file)
	if err != nil || kept != string(config.DSN)+".before-restore" {
		t.Fatalf("%q, %v", kept, err)
	}
	store = openStore(t, config)
	a, now, err := store.Get(t.Context(), "/reports/ns/a")
	if err != nil || a == nil {
		t.Fatal(a, err)
	}
	b, _, err := store.Get(t.Context(), "/reports/ns/b")
	if err != nil || b != nil {
		t.Errorf("what was written after the backup: %v, %v", b, err)
	}
	if now <= lost || store.Compacted() != now {
		t.Errorf("the counter is %d after %d, compacted to %d", now, lost, store.Compacted())
	}
	for _, number := range []int64{revision, lost} {
		if _, _, err := store.NewCursor(number).Next(t.Context(), 1); !errors.Is(err, mvcc.ErrCompacted) {
			t.Errorf("a watcher that has seen %d: %v", number, err)
		}
	}
	closeStore(t, store)
	old := openStore(t, sqldb.Config{Driver: sqldb.SQLite, DSN: sqldb.Secret(kept)})
	if b, _, err := old.Get(t.Context(), "/reports/ns/b"); err != nil || b == nil {
		t.Errorf("what was replaced: %v, %v", b, err)
	}
	closeStore(t, old)
}

// A damaged backup replaces nothing; a damaged database is replaced.
func TestRestoreOfDamage(t *testing.T) {
	t.Parallel()
	config := dbtest.New(t, sqldb.SQLite)
	store := openStore(t, config)
	write(t, store, "a", 0, "one", "two")
	file := string(config.DSN) + ".backup"
	if _, _, err := sqldb.Backup(t.Context(), config, file); err != nil {
		t.Fatal(err)
	}
	closeStore(t, store)
	foreign := string(config.DSN) + ".foreign"
	if err := os.WriteFile(foreign, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqldb.Restore(t.Context(), config, foreign); err == nil || !strings.Contains(err.Error(), "must be a SQLite database") {
		t.Errorf("something else: %v", err)
	}
	if err := os.WriteFile(string(config.DSN), []byte(strings.Repeat("damaged ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqldb.Restore(t.Context(), config, file); err != nil {
		t.Fatal(err)
	}
	store = openStore(t, config)
	defer closeStore(t, store)
	if a, _, err := store.Get(t.Context(), "/reports/ns/a"); err != nil || a == nil {
		t.Errorf("%v, %v", a, err)
	}
}

// The other databases have tools of their own.
func TestNotSQLite(t *testing.T) {
	t.Parallel()
	config := sqldb.Config{Driver: sqldb.PostgreSQL, DSN: "host=nowhere"}
	if _, _, err := sqldb.Backup(t.Context(), config, "x"); err == nil || !strings.Contains(err.Error(), "tools of the database") {
		t.Errorf("backup: %v", err)
	}
	if _, err := sqldb.Restore(t.Context(), config, "x"); err == nil || !strings.Contains(err.Error(), "--restored") {
		t.Errorf("restore: %v", err)
	}
}
