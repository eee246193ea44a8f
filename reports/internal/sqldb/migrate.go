// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"text/template"
)

// migrationTexts are the migrations, as templates over the column types of a dialect. A text that was released never
// changes: its hash is in the databases.
//
//go:embed migrations/*.sql
var migrationTexts embed.FS

// columnTypes are the types of columns in one dialect.
type columnTypes struct {
	Key   string // key texts, in the order of their bytes
	Bytes string
	Int   string // 64 bits
	Small string
	Long  string // texts that are not indexed
	Real  string

	ascii   string // for texts of a known length: VARCHAR(n) and what follows it
	partial bool   // indexes with a condition
	ofTable bool   // an index is named within its table

	// Clustered ends a table whose rows lie in the order of its key, where the dialect would keep key and rows apart.
	Clustered string
}

// ASCII is the type of a text of at most n characters.
func (t columnTypes) ASCII(n int) string {
	if t.ascii == "" {
		return t.Key
	}
	return fmt.Sprintf("VARCHAR(%d) %s", n, t.ascii)
}

// Where is the condition of an index, for dialects that have conditions.
func (t columnTypes) Where(condition string) string {
	if !t.partial {
		return ""
	}
	return "WHERE " + condition
}

// DropIndex is the statement that drops an index of a table.
func (t columnTypes) DropIndex(index, table string) string {
	if t.ofTable {
		return "DROP INDEX " + index + " ON " + table
	}
	return "DROP INDEX " + index
}

// migration is one step of the schema in one dialect.
type migration struct {
	version    int64
	sha        string
	statements []string
}

// migrations renders the steps for a dialect, in order.
func migrations(types columnTypes) ([]migration, error) {
	names, err := fs.Glob(migrationTexts, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	steps := make([]migration, 0, len(names))
	for _, name := range names {
		text, err := migrationTexts.ReadFile(name)
		if err != nil {
			return nil, err
		}
		parsed, err := template.New(name).Parse(string(text))
		if err != nil {
			return nil, err
		}
		var rendered strings.Builder
		if err := parsed.Execute(&rendered, types); err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: must begin with a number: %w", name, err)
		}
		sum := sha256.Sum256([]byte(rendered.String()))
		steps = append(steps, migration{version: version, sha: hex.EncodeToString(sum[:]), statements: statements(rendered.String())})
	}
	return steps, nil
}

// statements cuts a text at the semicolons that end its lines, and drops the lines of comments.
func statements(text string) []string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			kept.WriteString(line)
		}
	}
	var found []string
	for statement := range strings.SplitSeq(kept.String(), ";\n") {
		if statement = strings.TrimSpace(statement); statement != "" {
			found = append(found, statement)
		}
	}
	return found
}

// Migrate brings the schema of a database up to date and returns its version. Errors that end the process are *StartError.
func Migrate(ctx context.Context, config Config) (version int64, err error) {
	db, err := Open(ctx, config)
	if err != nil {
		return 0, err
	}
	steps, err := migrations(db.dialect.columns())
	if err == nil {
		version = steps[len(steps)-1].version
	}
	return version, errors.Join(err, db.Close())
}

func (db *DB) migrate(ctx context.Context) error {
	steps, err := migrations(db.dialect.columns())
	if err != nil {
		return err
	}
	return db.dialect.migrationLock(ctx, db.pools.writer, db.config.MigrationWait, func(conn *sql.Conn) error {
		types := db.dialect.columns()
		table := fmt.Sprintf(
			`CREATE TABLE IF NOT EXISTS migrations (version %s NOT NULL PRIMARY KEY, at %s NOT NULL, sha %s NOT NULL)`,
			types.Int, types.Int, types.ASCII(64),
		)
		if _, err := conn.ExecContext(ctx, table); err != nil {
			return fmt.Errorf("make the table of migrations: %w", err)
		}
		applied, err := appliedMigrations(ctx, conn)
		if err != nil {
			return err
		}
		todo, err := pending(steps, applied)
		if err != nil {
			return err
		}
		if len(todo) > 0 && db.config.Migrate == MigrateOff {
			return fmt.Errorf("the schema is %d, this program needs %d: run with migrations on", len(applied), steps[len(steps)-1].version)
		}
		for _, step := range todo {
			if err := db.apply(ctx, conn, step); err != nil {
				return fmt.Errorf("migrate the schema to %d: %w", step.version, err)
			}
		}
		return db.fillMeta(ctx, conn)
	})
}

func appliedMigrations(ctx context.Context, conn *sql.Conn) (map[int64]string, error) {
	rows, err := conn.QueryContext(ctx, `SELECT version, sha FROM migrations`)
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	applied := map[int64]string{}
	for rows.Next() {
		var version int64
		var sha string
		if err := rows.Scan(&version, &sha); err != nil {
			return nil, err
		}
		applied[version] = sha
	}
	return applied, rows.Err()
}

// pending returns the steps that a database lacks. It refuses a database that is newer, and one whose steps were others.
func pending(steps []migration, applied map[int64]string) ([]migration, error) {
	var known, found int64
	var todo []migration
	for _, step := range steps {
		known = max(known, step.version)
		sha, ok := applied[step.version]
		if !ok {
			todo = append(todo, step)
		} else if sha != step.sha {
			return nil, fmt.Errorf(
				"migration %d of the database is not the one of this program: the database was made by another program, or a migration was edited",
				step.version,
			)
		}
	}
	for version := range applied {
		found = max(found, version)
	}
	if found > known {
		return nil, &StartError{Exit: ExitNewerSchema, Err: fmt.Errorf("schema %d, this program knows up to %d: run the newer program", found, known)}
	}
	return todo, nil
}

// apply runs one step in a transaction. Where the database commits each statement of a schema by itself, what an
// interrupted run has made is there already, and the step goes on behind it.
func (db *DB) apply(ctx context.Context, conn *sql.Conn, step migration) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit there is nothing to undo
	for _, statement := range step.statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil && !db.dialect.alreadyThere(err) {
			first, _, _ := strings.Cut(statement, "\n")
			return fmt.Errorf("%s: %w", first, err)
		}
	}
	insert := db.dialect.rebind(`INSERT INTO migrations (version, at, sha) VALUES (?, 0, ?)`)
	if _, err := tx.ExecContext(ctx, insert, step.version, step.sha); err != nil {
		return err
	}
	return tx.Commit()
}

// fillMeta writes the numbers that every database has. The counter begins at 1, as 0 means "any" to clients.
func (db *DB) fillMeta(ctx context.Context, conn *sql.Conn) error {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	values := map[string]int64{
		"rv": 1, "compacted": 0, "clean": 1, "lease": 0,
		"instance": int64(binary.BigEndian.Uint64(random[:]) >> 1),
	}
	insert := db.dialect.rebind(
		`INSERT INTO meta (k, v) SELECT k, v FROM (SELECT '%s' AS k, %d AS v) AS wanted WHERE NOT EXISTS (SELECT 1 FROM meta WHERE meta.k = wanted.k)`,
	)
	var errs []error
	for key, value := range values {
		_, err := conn.ExecContext(ctx, fmt.Sprintf(insert, key, value))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
