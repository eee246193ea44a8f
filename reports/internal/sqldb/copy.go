// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// beforeRestore is added to the name of a database that a restored one replaces.
const beforeRestore = ".before-restore"

// partSuffix is added to the name of a backup that is not whole yet.
const partSuffix = ".part"

// sqliteReaders opens a file that another process may be serving: the lock beside it keeps off who writes, and SQLite's own
// locks give readers of all processes a snapshot.
func sqliteReaders(ctx context.Context, config Config) (string, *sql.DB, error) {
	path, err := filepath.Abs(string(config.DSN))
	if err == nil {
		_, err = os.Stat(path) // SQLite would make an empty one
	}
	if err != nil {
		return "", nil, fmt.Errorf("database %s: %w", string(config.DSN), err)
	}
	readers, err := openReaders(ctx, path, config)
	return path, readers, err
}

func openReaders(ctx context.Context, path string, config Config) (*sql.DB, error) {
	readers, err := sql.Open("sqlite", sqliteName(path, config, readerPragmas, "_query_only", "1"))
	if err != nil {
		return nil, err
	}
	if err := readers.PingContext(ctx); err != nil {
		return nil, errors.Join(sqliteReason(path, err), readers.Close())
	}
	return readers, nil
}

// checkSchema refuses a file that is not a database of this program.
func checkSchema(ctx context.Context, db *sql.DB) error {
	steps, err := migrations(sqliteDialect{}.columns())
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // gives the connection back
	applied, err := appliedMigrations(ctx, conn)
	if err != nil {
		return fmt.Errorf("must be a database of reports: %w", err)
	}
	todo, err := pending(steps, applied)
	if err == nil && len(todo) == len(steps) {
		err = errors.New("must be a database of reports, has no schema")
	}
	return err
}

// Backup writes a copy of a SQLite database as of a moment into a new file, also while another process serves the
// database. The file appears whole or not at all. It returns the counter of the copy and how many bytes the file has.
func Backup(ctx context.Context, config Config, file string) (revision, size int64, err error) {
	if config.Driver != SQLite {
		return 0, 0, fmt.Errorf("a backup of %s is made with the tools of the database", config.Driver)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return 0, 0, errors.Join(fmt.Errorf("backup %s: must be a new file, is there already", file), err)
	}
	config = config.withDefaults()
	_, readers, err := sqliteReaders(ctx, config)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, readers.Close()) }()
	if err := checkSchema(ctx, readers); err != nil {
		return 0, 0, fmt.Errorf("database %s: %w", string(config.DSN), err)
	}
	part := file + partSuffix
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, 0, err
	}
	if err := vacuumInto(ctx, readers, part); err != nil {
		return 0, 0, errors.Join(fmt.Errorf("back up: %w", err), ignoreMissing(os.Remove(part)))
	}
	if revision, err = checkCopy(ctx, part); err != nil {
		return 0, 0, fmt.Errorf("check the backup: %w", err)
	}
	if size, err = syncFile(part); err != nil {
		return 0, 0, err
	}
	return revision, size, os.Rename(part, file)
}

// backupName is the form of the names of copies: their time in UTC.
const backupName = "reports-20060102T150405Z.db"

// BackupName is the name of a copy that is made at a time. Names have the order of their times.
func BackupName(at time.Time) string { return at.UTC().Format(backupName) }

// Backups returns those names that are of copies, the oldest first.
func Backups(names []string) []string {
	var copies []string
	for _, name := range names {
		if _, err := time.Parse(backupName, name); err == nil {
			copies = append(copies, name)
		}
	}
	slices.Sort(copies)
	return copies
}

// Outdated returns the oldest copies beyond those to keep. The newest is kept whatever its name: with a clock that was set
// back, it is not the youngest by name.
func Outdated(names []string, newest string, keep int) []string {
	copies := Backups(names)
	copies = copies[:max(0, len(copies)-keep)]
	if i := slices.Index(copies, newest); i >= 0 {
		copies = copies[:i]
	}
	return copies
}

// Kept is what BackupInto has done.
type Kept struct {
	File           string
	Revision, Size int64
	// Removed are the older copies that were deleted.
	Removed []string
}

// BackupInto writes a copy as Backup does, under a name with its time, and then deletes the oldest copies beyond keep. What
// else is in the folder is left alone.
func BackupInto(ctx context.Context, config Config, folder string, keep int, now time.Time) (Kept, error) {
	newest := BackupName(now)
	k := Kept{File: filepath.Join(folder, newest)}
	var err error
	if k.Revision, k.Size, err = Backup(ctx, config, k.File); err != nil {
		return k, err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return k, fmt.Errorf("look for older backups: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		name, part := strings.CutSuffix(entry.Name(), partSuffix)
		if part && len(Backups([]string{name})) == 1 { // of a run that was killed
			if err := os.Remove(filepath.Join(folder, entry.Name())); err != nil {
				return k, fmt.Errorf("remove what an earlier run has left: %w", err)
			}
		}
		names = append(names, entry.Name())
	}
	for _, name := range Outdated(names, newest, keep) {
		old := filepath.Join(folder, name)
		if err := os.Remove(old); err != nil {
			return k, fmt.Errorf("remove an older backup: %w", err)
		}
		k.Removed = append(k.Removed, old)
	}
	return k, nil
}

func vacuumInto(ctx context.Context, readers *sql.DB, file string) error {
	conn, err := readers.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // gives the connection back
	// Readers refuse to write, into other files too.
	if _, err := conn.ExecContext(ctx, `PRAGMA query_only = 0`); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, `VACUUM INTO ?`, file)
	return err
}

// checkCopy reads a whole copy and returns its counter.
func checkCopy(ctx context.Context, file string) (revision int64, err error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return 0, err
	}
	name := url.URL{Scheme: "file", Path: path, RawQuery: "mode=ro"}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var verdict string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&verdict); err != nil {
		return 0, sqliteReason(file, err)
	}
	if verdict != "ok" {
		return 0, fmt.Errorf("%s is damaged: %s", file, verdict)
	}
	if err := checkSchema(ctx, db); err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	err = db.QueryRowContext(ctx, `SELECT v FROM meta WHERE k = 'rv'`).Scan(&revision)
	return revision, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func syncFile(path string) (size int64, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), file.Sync()
}

// Restore makes a copy of a backup the database, which no process may be using. What was there is kept beside it, under
// the name that is returned; "" if nothing was. The next start takes the database for one that was not closed, and so
// raises its counter beyond all numbers that either has given out: every watcher lists anew.
func Restore(ctx context.Context, config Config, file string) (kept string, err error) {
	if config.Driver != SQLite {
		return "", fmt.Errorf("a backup of %s is restored with the tools of the database; start the server with --restored then", config.Driver)
	}
	path, err := filepath.Abs(string(config.DSN))
	if err != nil {
		return "", err
	}
	config = config.withDefaults()
	if err := checkFile(path); err != nil {
		return "", err
	}
	release, err := lockFile(path + ".lock")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("backup %s: %w", file, err)
	}
	if _, err := checkCopy(ctx, file); err != nil {
		return "", fmt.Errorf("check the backup: %w", err)
	}
	last, err := closeOff(ctx, path, config)
	if err != nil {
		return "", err
	}
	fresh := path + ".restoring"
	if err := copyFile(file, fresh); err != nil {
		return "", fmt.Errorf("copy the backup: %w", err)
	}
	if err := markRestored(ctx, fresh, config, last); err != nil {
		return "", fmt.Errorf("mark the copy: %w", err)
	}
	if _, err := os.Stat(path); err == nil {
		kept = path + beforeRestore
		if err := ignoreMissing(os.Remove(kept)); err != nil {
			return "", err
		}
		if err := os.Link(path, kept); err != nil { // so that there is a database under its name at any moment
			return "", fmt.Errorf("keep the present database: %w", err)
		}
	}
	return kept, os.Rename(fresh, path)
}

// closeOff writes what is left of the log of the present database into its file, since a log that stays would be taken for
// that of the restored one, and returns its counter. One that cannot be read any more has no counter, and loses its log.
func closeOff(ctx context.Context, path string, config Config) (int64, error) {
	var last int64
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if db, err := sql.Open("sqlite", sqliteName(path, config, nil)); err == nil {
		if err := db.QueryRowContext(ctx, `SELECT v FROM meta WHERE k = 'rv'`).Scan(&last); err != nil {
			last = 0 // damaged, which is why it is replaced
		}
		if err := db.Close(); err != nil {
			last = 0
		}
	}
	return last, errors.Join(ignoreMissing(os.Remove(path+"-wal")), ignoreMissing(os.Remove(path+"-shm")))
}

func markRestored(ctx context.Context, path string, config Config, last int64) (err error) {
	db, err := sql.Open("sqlite", sqliteName(path, config, nil))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, `UPDATE meta SET v = 0 WHERE k = 'clean'`); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `UPDATE meta SET v = ? WHERE k = 'rv' AND v < ?`, last, last)
	return err
}

func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // was only read
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if _, err := io.Copy(target, source); err != nil {
		return err
	}
	return target.Sync()
}
