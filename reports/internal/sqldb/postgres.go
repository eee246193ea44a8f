// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgresDialect is PostgreSQL 13 and newer.
type postgresDialect struct{}

// Numbers of PostgreSQL that all replicas share.
const (
	postgresChannel      = "scanyard_reports"
	postgresAdvisoryLock = 0x7363616e72657074 // "scanrept"
	postgresSchemaLock   = 0x7363616e7363686d // "scanschm"
)

func postgresConfig(config Config) (*pgx.ConnConfig, error) {
	parsed, err := pgx.ParseConfig(string(config.DSN))
	if err != nil {
		return nil, errors.New("the DSN is not valid: must be a connection URI or keywords and values of PostgreSQL")
	}
	parsed.RuntimeParams["application_name"] = "reports-apiserver"
	parsed.RuntimeParams["lock_timeout"] = "5s"
	parsed.RuntimeParams["statement_timeout"] = strconv.FormatInt(statementTimeout.Milliseconds(), 10)
	if config.Schema != "" {
		parsed.RuntimeParams["search_path"] = pgx.Identifier{config.Schema}.Sanitize()
	}
	if parsed.ConnectTimeout == 0 {
		parsed.ConnectTimeout = config.Wait
	}
	return parsed, nil
}

func (postgresDialect) open(ctx context.Context, config Config) (pools, error) {
	parsed, err := postgresConfig(config)
	if err != nil {
		return pools{}, err
	}
	writer := stdlib.OpenDB(*parsed)
	writer.SetMaxOpenConns(1)
	if err := writer.PingContext(ctx); err != nil {
		return pools{}, errors.Join(fmt.Errorf("connect to PostgreSQL: %w", withoutDSN(err)), writer.Close())
	}
	if config.Schema != "" {
		if err := makeSchema(ctx, writer, config.Schema); err != nil {
			return pools{}, errors.Join(fmt.Errorf("make the schema %q: %w", config.Schema, err), writer.Close())
		}
	}
	const others = 3 // the writer, the probe, and who listens
	return pools{writer: writer, readers: newPool(stdlib.OpenDB(*parsed), config.readers(others)), probe: newPool(stdlib.OpenDB(*parsed), 1)}, nil
}

func (postgresDialect) replica(config Config) (pools, error) {
	parsed, err := postgresConfig(config)
	if err != nil {
		return pools{}, err
	}
	return pools{readers: newPool(stdlib.OpenDB(*parsed), config.readers(1)), probe: newPool(stdlib.OpenDB(*parsed), 1)}, nil
}

// makeSchema makes the schema if it is missing. CREATE SCHEMA IF NOT EXISTS by itself fails where two sessions run it
// at once, and where the schema is there and the user may not make any.
func makeSchema(ctx context.Context, db *sql.DB, schema string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, postgresSchemaLock)); err != nil {
		return err
	}
	var missing bool
	if err := tx.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)`, schema).Scan(&missing); err != nil {
		return err
	}
	if missing {
		if _, err := tx.ExecContext(ctx, `CREATE SCHEMA `+pgx.Identifier{schema}.Sanitize()); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// withoutDSN drops the host, user and database that errors of connecting begin with.
func withoutDSN(err error) error {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fmt.Errorf("%s (SQLSTATE %s)", answer.Message, answer.Code)
	}
	return errors.New("the server does not answer")
}

func (postgresDialect) rebind(query string) string {
	var bound strings.Builder
	n := 0
	for i := range len(query) {
		if query[i] != '?' {
			bound.WriteByte(query[i])
			continue
		}
		n++
		bound.WriteByte('$')
		bound.WriteString(strconv.Itoa(n))
	}
	return bound.String()
}

func (postgresDialect) lockCounter() string { return `SELECT v FROM meta WHERE k = 'rv' FOR UPDATE` }

func (postgresDialect) addTo(table string, key, columns []string) string {
	return addOnConflict(table, key, columns)
}

func (postgresDialect) arrays() bool { return true }

func (postgresDialect) orKeep(column string) string { return keepOnConflict(column) }

func (postgresDialect) migrationLock(ctx context.Context, db *sql.DB, wait time.Duration, fn func(*sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // gives the connection back
	for _, statement := range []string{
		fmt.Sprintf(`SET lock_timeout = %d`, wait.Milliseconds()), fmt.Sprintf(`SET statement_timeout = %d`, wait.Milliseconds()),
		fmt.Sprintf(`SELECT pg_advisory_lock(%d)`, postgresAdvisoryLock), `SET statement_timeout = 0`,
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("wait for another process that migrates: %w", err)
		}
	}
	errs := []error{fn(conn)}
	for _, statement := range []string{
		fmt.Sprintf(`SELECT pg_advisory_unlock(%d)`, postgresAdvisoryLock), `RESET lock_timeout`, `RESET statement_timeout`,
	} {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), statement)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (postgresDialect) alreadyThere(error) bool { return false }

func (postgresDialect) columns() columnTypes {
	return columnTypes{
		Key: `TEXT COLLATE "C"`, Bytes: "BYTEA", Int: "BIGINT", Small: "SMALLINT", Long: "TEXT", Real: "DOUBLE PRECISION",
		ascii: `COLLATE "C"`, partial: true,
	}
}

func (postgresDialect) classify(err error) Class {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) {
		if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
			return ClassAway
		}
		return ClassOther
	}
	switch {
	case answer.Code == "53100":
		return ClassFull
	case answer.Code == "55P03", answer.Code == "57014", strings.HasPrefix(answer.Code, "40"):
		return ClassBusy
	case strings.HasPrefix(answer.Code, "08"), strings.HasPrefix(answer.Code, "57P"), strings.HasPrefix(answer.Code, "53"), answer.Code == "25006":
		return ClassAway
	}
	return ClassOther
}

func (postgresDialect) notify() string { return `SELECT pg_notify('` + postgresChannel + `', $1)` }

func (postgresDialect) listen(ctx context.Context, config Config, up, wake func()) error {
	parsed, err := postgresConfig(config)
	if err != nil {
		return err
	}
	delete(parsed.RuntimeParams, "statement_timeout") // LISTEN waits as long as nothing happens
	conn, err := pgx.ConnectConfig(ctx, parsed)
	if err != nil {
		return fmt.Errorf("connect to listen: %w", withoutDSN(err))
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is written here
	if _, err := conn.Exec(ctx, `LISTEN `+postgresChannel); err != nil {
		return fmt.Errorf("listen: %w", withoutDSN(err))
	}
	up()
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("wait for a notification: %w", withoutDSN(err))
		}
		wake()
	}
}
