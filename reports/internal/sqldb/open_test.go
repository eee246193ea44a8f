// SPDX-License-Identifier: Apache-2.0

package sqldb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func mustOpen(t *testing.T, config sqldb.Config) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// exitOf returns the exit code of an error of opening, and 0 if there was none.
func exitOf(t *testing.T, config sqldb.Config) (int, string) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), config)
	if err == nil {
		return 0, "" + closed(t, db)
	}
	var start *sqldb.StartError
	if !errors.As(err, &start) {
		t.Fatalf("%T: %v", err, err)
	}
	return start.Exit, err.Error()
}

func closed(t *testing.T, db *sqldb.DB) string {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	return ""
}

// Row 23 of the fault list: what cannot be a database is named, with the reason.
func TestUnusableFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct{ path, want string }{
		"Directory":   {folder, "must be a file, is a directory"},
		"ReadOnly":    {write("read-only.db", "", 0o400), "must be writable, is read-only"},
		"NotDatabase": {write("text.db", strings.Repeat("this is not a database\n", 100), 0o600), "must be a SQLite database"},
		"NoDirectory": {filepath.Join(folder, "missing", "reports.db"), "its directory"},
	} {
		t.Run(name, func(t *testing.T) {
			exit, said := exitOf(t, sqldb.Config{Driver: sqldb.SQLite, DSN: sqldb.Secret(c.path)})
			if exit != sqldb.ExitUnusable || !strings.Contains(said, c.want) || !strings.Contains(said, c.path) {
				t.Errorf("exit %d, %q; want %d, %q and the file", exit, said, sqldb.ExitUnusable, c.want)
			}
		})
	}
}

// Row 44 of the fault list: a server that would refuse a write later on, or mix up what transactions see, is named with the
// variable at fault.
func TestUnusableMariaDB(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ arg, want string }{
		"Packets":   {"--max-allowed-packet=1M", "max_allowed_packet must be 33554432 or more, is 1048576"},
		"Engine":    {"--default-storage-engine=MyISAM", "default_storage_engine must be InnoDB, is MyISAM"},
		"Isolation": {"--transaction-isolation=READ-UNCOMMITTED", "_isolation must be REPEATABLE-READ, is READ-UNCOMMITTED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{c.arg}
			if name != "Packets" {
				args = append(args, "--max-allowed-packet=32M")
			}
			exit, said := exitOf(t, dbtest.MariaDBWith(t, args...))
			if exit != 1 || !strings.Contains(said, c.want) {
				t.Errorf("exit %d, %q; want 1 and %q", exit, said, c.want)
			}
		})
	}
	if exit, said := exitOf(t, dbtest.MariaDBWith(t, "--max-allowed-packet=32M")); exit != 0 {
		t.Errorf("the least that is allowed: exit %d, %s", exit, said)
	}
}

// Row 24: a file has one process.
func TestFileInUse(t *testing.T) {
	t.Parallel()
	config := dbtest.New(t, sqldb.SQLite)
	first := mustOpen(t, config)
	if exit, said := exitOf(t, config); exit != sqldb.ExitInUse || !strings.Contains(said, "in use") {
		t.Errorf("exit %d, %q; want %d", exit, said, sqldb.ExitInUse)
	}
	closed(t, first)
	if exit, said := exitOf(t, config); exit != 0 {
		t.Errorf("after the first has gone: exit %d, %s", exit, said)
	}
}

// Row 25: a newer schema is left alone. An edited migration is not run over.
func TestForeignSchemas(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		change := func(statement string) {
			db := mustOpen(t, config)
			defer db.Close()
			err := db.Write(t.Context(), func(tx *sqldb.Tx, _ int64) error {
				_, err := tx.Exec(t.Context(), statement)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		change(`INSERT INTO migrations (version, at, sha) VALUES (99, 0, 'x')`)
		if exit, said := exitOf(t, config); exit != sqldb.ExitNewerSchema || !strings.Contains(said, "schema 99, this program knows up to") {
			t.Errorf("newer: exit %d, %q", exit, said)
		}
	})
}

func TestEditedMigration(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		db := mustOpen(t, config)
		err := db.Write(t.Context(), func(tx *sqldb.Tx, _ int64) error {
			_, err := tx.Exec(t.Context(), `UPDATE migrations SET sha = 'x' WHERE version = 1`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		closed(t, db)
		if exit, said := exitOf(t, config); exit != sqldb.ExitUnusable || !strings.Contains(said, "a migration was edited") {
			t.Errorf("exit %d, %q", exit, said)
		}
	})
}

// Row 27: MariaDB commits each statement of a schema, so a migration that was interrupted has left some of them.
func TestInterruptedMigration(t *testing.T) {
	t.Parallel()
	config := dbtest.New(t, sqldb.MySQL)
	db, err := sql.Open("mysql", string(config.DSN)+"?sql_mode=ANSI_QUOTES")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	closed(t, mustOpen(t, config))
	for _, statement := range []string{`DROP TABLE blobs`, `DROP INDEX changes_key ON changes`, `DELETE FROM migrations`} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	again := mustOpen(t, config)
	defer again.Close()
	err = again.Read(t.Context(), func(tx *sqldb.Tx) error {
		var n int
		return tx.QueryRow(t.Context(), `SELECT COUNT(*) FROM blobs`).Scan(&n)
	})
	if err != nil {
		t.Error(err)
	}
}

// The data source name is in no error.
func TestErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	for driver, dsn := range map[sqldb.Driver]sqldb.Secret{
		sqldb.PostgreSQL: "postgres://someone:hunter2@127.0.0.1:1/secretdb?sslmode=disable",
		sqldb.MySQL:      "someone:hunter2@tcp(127.0.0.1:1)/secretdb",
	} {
		_, err := sqldb.Open(context.Background(), sqldb.Config{Driver: driver, DSN: dsn})
		if err == nil {
			t.Errorf("%s: opened", driver)
			continue
		}
		for _, part := range []string{"someone", "hunter2", "secretdb"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q holds %q", driver, err, part)
			}
		}
	}
}

// Row 26: a schema is made once, whoever else makes it at the same time.
func TestSchemaIsMadeOnce(t *testing.T) {
	t.Parallel()
	config := dbtest.New(t, sqldb.PostgreSQL)
	name := config.Schema
	for round := range 5 {
		config.Schema = fmt.Sprintf("%s_%d", name, round)
		var opened sync.WaitGroup
		for range 8 {
			opened.Go(func() {
				if exit, text := exitOf(t, config); exit != 0 {
					t.Errorf("exit %d: %s", exit, text)
				}
			})
		}
		opened.Wait()
	}
}

// A user who may not make schemas uses the one that is there.
func TestSchemaOfAnAdministrator(t *testing.T) {
	t.Parallel()
	config := dbtest.New(t, sqldb.PostgreSQL)
	admin, err := sql.Open("pgx", string(config.DSN))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	role, schema := config.Schema, config.Schema+"_prepared"
	for _, statement := range []string{`CREATE ROLE ` + role + ` LOGIN`, `CREATE SCHEMA ` + schema + ` AUTHORIZATION ` + role} {
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	config.DSN = sqldb.Secret(strings.Replace(string(config.DSN), "user=postgres", "user="+role, 1))
	config.Schema = schema
	if exit, text := exitOf(t, config); exit != 0 {
		t.Errorf("exit %d: %s", exit, text)
	}
	config.Schema = "missing"
	if exit, text := exitOf(t, config); exit != sqldb.ExitUnusable || !strings.Contains(text, `make the schema "missing"`) {
		t.Errorf("exit %d: %s", exit, text)
	}
}

// A program that only migrates leaves a schema that others open without migrating.
func TestMigrateOnly(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		config.Migrate = sqldb.MigrateOff
		if exit, why := exitOf(t, config); exit != sqldb.ExitUnusable || !strings.Contains(why, "run with migrations on") {
			t.Errorf("an empty database: exit %d, %s", exit, why)
		}
		config.Migrate = sqldb.MigrateOnly
		for range 2 {
			version, err := sqldb.Migrate(t.Context(), config)
			if err != nil || version < 2 {
				t.Fatalf("schema %d, %v", version, err)
			}
		}
		config.Migrate = sqldb.MigrateOff
		if exit, why := exitOf(t, config); exit != 0 {
			t.Errorf("the schema is there: exit %d, %s", exit, why)
		}
	})
}
