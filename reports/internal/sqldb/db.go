// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/lru"
)

// statementTimeout bounds one read of a request.
const statementTimeout = 30 * time.Second

// dialect is what differs between databases.
type dialect interface {
	// open connects; release gives up what keeps other processes off, and may be nil.
	open(ctx context.Context, config Config) (pools, error)
	// replica prepares connections that only read, to a copy that follows the database. Nothing is asked yet.
	replica(config Config) (pools, error)
	// rebind turns the placeholders ? into those of the driver.
	rebind(query string) string
	// lockCounter is the query that reads the counter and keeps other writers waiting until the transaction ends.
	lockCounter() string
	// addTo is the end of an INSERT that adds the numbers in columns to those of a row that is there already.
	addTo(table string, key, columns []string) string
	// orKeep is the end of an INSERT that leaves rows alone that are there already; column is one of the table's.
	orKeep(column string) string
	// arrays tells whether a parameter can be an array.
	arrays() bool
	// migrationLock runs fn while no other process migrates; wait bounds the time until it may.
	migrationLock(ctx context.Context, db *sql.DB, wait time.Duration, fn func(*sql.Conn) error) error
	// alreadyThere tells that a statement of a migration failed because it has been run before, which only databases
	// without transactions for schemas answer.
	alreadyThere(err error) bool
	columns() columnTypes
	classify(err error) Class
	// notify is the statement that wakes other replicas at commit, with the counter as its parameter; "" if there is none.
	notify() string
	// listen calls wake whenever another replica has committed, until ctx ends or the connection is lost.
	listen(ctx context.Context, config Config, up func(), wake func()) error
}

// pools are the connections of one process.
type pools struct {
	writer, readers *sql.DB // writer is nil for a copy that is only read
	probe           *sql.DB // asks whether the database answers; nil where it is part of the process
	release         func() error
}

// newPool bounds a pool, which keeps all its connections.
func newPool(pool *sql.DB, connections int) *sql.DB {
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool
}

// DB is an open database whose schema is current.
type DB struct {
	dialect dialect
	config  Config
	pools   pools
	rebound sync.Map // query text to query text with the driver's placeholders
	numbers *lru.Cache
}

// Open connects to a database and brings its schema up to date. Errors that end the process are *StartError.
func Open(ctx context.Context, config Config) (*DB, error) {
	if errs := config.Validate(); len(errs) > 0 {
		return nil, &StartError{Exit: ExitUnusable, Err: errs.ToAggregate()}
	}
	config = config.withDefaults()
	db := &DB{config: config, dialect: dialectOf(config.Driver), numbers: newNumbers(config.Driver)}
	var err error
	if db.pools, err = db.dialect.open(ctx, config); err != nil {
		return nil, asStartError(err)
	}
	if err := db.migrate(ctx); err != nil {
		return nil, asStartError(errors.Join(err, db.Close()))
	}
	return db, nil
}

func dialectOf(driver Driver) dialect {
	switch driver {
	case PostgreSQL:
		return postgresDialect{}
	case MySQL:
		return mysqlDialect{}
	case SQLite:
	}
	return sqliteDialect{}
}

// OpenToRead opens a database that another process may be serving, for reads only. Its schema must be the program's.
func OpenToRead(ctx context.Context, config Config) (*DB, error) {
	config.Migrate = MigrateOff
	if config.Driver != SQLite {
		return Open(ctx, config)
	}
	if errs := config.Validate(); len(errs) > 0 {
		return nil, &StartError{Exit: ExitUnusable, Err: errs.ToAggregate()}
	}
	config = config.withDefaults()
	path, readers, err := sqliteReaders(ctx, config)
	if err != nil {
		return nil, asStartError(err)
	}
	db := &DB{config: config, dialect: sqliteDialect{}, pools: pools{writer: readers, readers: readers}}
	if err := checkSchema(ctx, readers); err != nil {
		return nil, asStartError(errors.Join(fmt.Errorf("database %s: %w", path, err), db.Close()))
	}
	return db, nil
}

// OpenReplica prepares reads from a copy of a database that follows it, such as a standby of PostgreSQL. The copy need not answer yet,
// and nothing can be written. Errors that end the process are *StartError.
func OpenReplica(config Config) (*DB, error) {
	if errs := config.Validate(); len(errs) > 0 {
		return nil, &StartError{Exit: ExitUnusable, Err: errs.ToAggregate()}
	}
	config = config.withDefaults()
	db := &DB{config: config, dialect: dialectOf(config.Driver)}
	var err error
	if db.pools, err = db.dialect.replica(config); err != nil {
		return nil, asStartError(err)
	}
	return db, nil
}

func asStartError(err error) error {
	if start, ok := errors.AsType[*StartError](err); ok {
		return start
	}
	return &StartError{Exit: ExitUnusable, Err: err}
}

// Close ends all connections.
func (db *DB) Close() error {
	errs := []error{db.pools.readers.Close()}
	if db.pools.writer != nil {
		errs = append(errs, db.pools.writer.Close())
	}
	if db.pools.probe != nil {
		errs = append(errs, db.pools.probe.Close())
	}
	if db.pools.release != nil {
		errs = append(errs, db.pools.release())
	}
	return errors.Join(errs...)
}

// Shared tells whether other processes may write to the database at the same time.
func (db *DB) Shared() bool { return db.config.Driver != SQLite }

// Driver returns the kind of database.
func (db *DB) Driver() Driver { return db.config.Driver }

// Stats returns the state of the pool of readers.
func (db *DB) Stats() sql.DBStats { return db.pools.readers.Stats() }

// Ping tells whether the database answers.
func (db *DB) Ping(ctx context.Context) error { return db.pools.readers.PingContext(ctx) }

// Listen calls wake whenever another replica has committed, as long as the connection lives; up is called once it does.
// Databases that cannot tell block until ctx ends.
func (db *DB) Listen(ctx context.Context, up, wake func()) error {
	return db.dialect.listen(ctx, db.config, up, wake)
}

// GiveBackSpace returns pages that SQLite does not use any more to the file system, a few thousand at a time. The other
// databases do so by themselves.
func (db *DB) GiveBackSpace(ctx context.Context) error {
	if db.config.Driver != SQLite {
		return nil
	}
	_, err := db.pools.writer.ExecContext(ctx, `PRAGMA incremental_vacuum(2000)`)
	return err
}

// GiveBackMemory has the writer of SQLite forget the pages that it keeps, which are read again when they are asked for. The other
// databases have processes of their own.
func (db *DB) GiveBackMemory(ctx context.Context) error {
	if db.config.Driver != SQLite {
		return nil
	}
	_, err := db.pools.writer.ExecContext(ctx, `PRAGMA shrink_memory`)
	return err
}

// Read runs fn in a snapshot. The connection is held until fn returns, so fn must not wait for a client. ErrAway says that
// the database has stopped to answer meanwhile.
func (db *DB) Read(ctx context.Context, fn func(*Tx) error) error {
	guarded, done := db.guard(ctx)
	defer done()
	err := db.read(guarded, ctx, fn)
	if err != nil && errors.Is(context.Cause(guarded), ErrAway) {
		return ErrAway
	}
	return err
}

func (db *DB) read(ctx, asked context.Context, fn func(*Tx) error) error {
	wait, cancelWait := context.WithTimeout(ctx, db.config.Wait)
	conn, err := db.pools.readers.Conn(wait)
	cancelWait()
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return ErrBusy
		}
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { _ = conn.Close() }() // gives the connection back; a broken one is dropped by the pool
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	options := &sql.TxOptions{ReadOnly: true}
	if db.Shared() {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := conn.BeginTx(ctx, options)
	if err != nil {
		return fmt.Errorf("begin to read: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	return fn(&Tx{db: db, tx: tx, asked: asked, ctx: ctx})
}

// Write runs fn in a transaction that holds the counter; revision is the counter's present value. An error of fn undoes
// everything. A *CommitError says that the outcome is not known, ErrAway that the database has stopped to answer.
func (db *DB) Write(ctx context.Context, fn func(tx *Tx, revision int64) error) error {
	guarded, done := db.guard(ctx)
	defer done()
	err := db.write(guarded, ctx, fn)
	if err == nil || !errors.Is(context.Cause(guarded), ErrAway) {
		return err
	}
	if _, ok := errors.AsType[*CommitError](err); ok {
		return &CommitError{Err: ErrAway}
	}
	return ErrAway
}

func (db *DB) write(ctx, asked context.Context, fn func(tx *Tx, revision int64) error) error {
	tx, err := db.pools.writer.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin to write: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit there is nothing to undo
	t := &Tx{db: db, tx: tx, asked: asked, ctx: ctx}
	var revision int64
	if err := t.QueryRow(ctx, db.dialect.lockCounter()).Scan(&revision); err != nil {
		return fmt.Errorf("lock the counter: %w", err)
	}
	if err := fn(t, revision); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &CommitError{Err: err}
	}
	t.keepNumbers()
	return nil
}

// Tx is a transaction. Queries are written with ? for parameters.
type Tx struct {
	db *DB
	tx *sql.Tx
	// asked is the context that the transaction was asked for with. Its statements are given the narrower ctx, which ends
	// with the transaction and when the database has stopped to answer.
	asked, ctx context.Context //nolint:containedctx // of the transaction
	noted      map[string]int64
}

func (t *Tx) within(ctx context.Context) context.Context {
	if ctx == t.asked {
		return t.ctx
	}
	return ctx
}

func (t *Tx) bind(query string) string {
	if bound, ok := t.db.rebound.Load(query); ok {
		return bound.(string)
	}
	bound := t.db.dialect.rebind(query)
	t.db.rebound.Store(query, bound)
	return bound
}

// Exec runs a statement and returns how many rows it found.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := t.tx.ExecContext(t.within(ctx), t.bind(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query runs a query. The caller closes the rows.
func (t *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.tx.QueryContext(t.within(ctx), t.bind(query), args...)
}

// QueryRow runs a query of one row.
func (t *Tx) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(t.within(ctx), t.bind(query), args...)
}

// Notify wakes other replicas once the transaction has committed.
func (t *Tx) Notify(ctx context.Context, revision int64) error {
	statement := t.db.dialect.notify()
	if statement == "" {
		return nil
	}
	_, err := t.tx.ExecContext(t.within(ctx), statement, strconv.FormatInt(revision, 10))
	return err
}

// AddTo returns the end of an INSERT into table that adds the numbers in columns to those of a row with the same key.
func (t *Tx) AddTo(table string, key, columns []string) string {
	return t.db.dialect.addTo(table, key, columns)
}

// OrKeep returns the end of an INSERT that leaves rows alone that are there already. column is one of the table's.
func (t *Tx) OrKeep(column string) string { return t.db.dialect.orKeep(column) }
