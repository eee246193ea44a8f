// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite" // also registers the driver
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteDialect is the database in one file, for one process.
type sqliteDialect struct{}

func (sqliteDialect) open(ctx context.Context, config Config) (pools, error) {
	path, err := filepath.Abs(string(config.DSN))
	if err != nil {
		return pools{}, fmt.Errorf("database %s: %w", string(config.DSN), err)
	}
	if err := checkFile(path); err != nil {
		return pools{}, err
	}
	release, err := lockFile(path + ".lock")
	if err != nil {
		return pools{}, err
	}
	writer, err := openPrepared(sqliteName(path, config, writerPragmas, "_txlock", "immediate"), keptByWriter)
	if err != nil {
		return pools{}, errors.Join(err, release())
	}
	writer.SetMaxOpenConns(1)
	if err := writer.PingContext(ctx); err != nil {
		return pools{}, errors.Join(sqliteReason(path, err), writer.Close(), release())
	}
	readers, err := openPrepared(sqliteName(path, config, readerPragmas, "_query_only", "1"), keptByReader)
	if err != nil {
		return pools{}, errors.Join(err, writer.Close(), release())
	}
	return pools{writer: writer, readers: newPool(readers, config.readers(1)), release: release}, nil
}

func (sqliteDialect) replica(Config) (pools, error) {
	return pools{}, errors.New("a SQLite database has no copies that follow it")
}

// What connections are set to, beside what is common to all. Rows of results go to places all over their indexes: the writer has
// a cache that holds the pages of a few reports, and checkpoints are written every 32 MiB, since most pages of one
// transaction are those of the next.
var (
	writerPragmas = []string{"cache_size(-32000)", "wal_autocheckpoint(8192)", "journal_size_limit(67108864)"}
	readerPragmas = []string{"cache_size(-12000)"}
)

// sqliteName builds the name of the driver.
func sqliteName(path string, config Config, pragmas []string, options ...string) string {
	query := url.Values{
		"_pragma":       append([]string{"foreign_keys(1)", "temp_store(MEMORY)"}, pragmas...),
		"_journal_mode": {"WAL"},
		"_synchronous":  {"NORMAL"},
		"_busy_timeout": {"5000"},
		"_auto_vacuum":  {"INCREMENTAL"},
	}
	if config.SynchronousFull {
		query.Set("_synchronous", "FULL")
	}
	if config.MaxPages > 0 {
		query.Add("_pragma", "max_page_count("+strconv.Itoa(config.MaxPages)+")")
	}
	for i := 0; i+1 < len(options); i += 2 {
		query.Set(options[i], options[i+1])
	}
	name := url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}
	return name.String()
}

// checkFile refuses what cannot be a database, with the file's name: SQLite would only say that it is unable to open it.
func checkFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return fmt.Errorf("database %s: its directory: %w", path, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("database %s: %w", path, err)
	case info.IsDir():
		return fmt.Errorf("database %s: must be a file, is a directory", path)
	case info.Mode().Perm()&0o222 == 0:
		return fmt.Errorf("database %s: must be writable, is read-only", path)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("database %s: must be writable: %w", path, err)
	}
	return file.Close()
}

// lockFile keeps other processes off. SQLite's own locks would let several write, and watchers of one would not see what
// the other has written.
func lockFile(path string) (func() error, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of the database: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		closeErr := file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &StartError{Exit: ExitInUse, Err: fmt.Errorf("database is in use by another process, which holds %s", path)}
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), closeErr)
	}
	return file.Close, nil
}

func sqliteReason(path string, err error) error {
	var sqliteErr *sqlite.Error
	if errors.As(err, &sqliteErr) && sqliteErr.Code()&0xff == sqlite3.SQLITE_NOTADB {
		return fmt.Errorf("database %s: must be a SQLite database, is something else", path)
	}
	return fmt.Errorf("database %s: %w", path, err)
}

func (sqliteDialect) rebind(query string) string { return query }

// lockCounter needs no lock of its own: the transaction is immediate.
func (sqliteDialect) lockCounter() string { return `SELECT v FROM meta WHERE k = 'rv'` }

func (sqliteDialect) addTo(table string, key, columns []string) string {
	return addOnConflict(table, key, columns)
}

func (sqliteDialect) arrays() bool { return false }

func (sqliteDialect) orKeep(column string) string { return keepOnConflict(column) }

// migrationLock is the file's lock, which is held since open.
func (sqliteDialect) migrationLock(ctx context.Context, db *sql.DB, _ time.Duration, fn func(*sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	return errors.Join(fn(conn), conn.Close())
}

func (sqliteDialect) alreadyThere(error) bool { return false }

func (sqliteDialect) columns() columnTypes {
	return columnTypes{Key: "TEXT", Bytes: "BLOB", Int: "INTEGER", Small: "INTEGER", Long: "TEXT", Real: "REAL", partial: true, Clustered: " WITHOUT ROWID"}
}

func (sqliteDialect) classify(err error) Class {
	var sqliteErr *sqlite.Error
	if !errors.As(err, &sqliteErr) {
		return ClassOther
	}
	switch sqliteErr.Code() & 0xff { // extended codes have the primary one in their low byte
	case sqlite3.SQLITE_FULL:
		return ClassFull
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_INTERRUPT:
		return ClassBusy
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return ClassAway
	}
	return ClassOther
}

func (sqliteDialect) notify() string { return "" }

func (sqliteDialect) listen(ctx context.Context, _ Config, _, _ func()) error {
	<-ctx.Done()
	return nil
}
