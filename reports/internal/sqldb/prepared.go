// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"modernc.org/sqlite"
)

// How many statements a connection keeps prepared. Those of the writer are fewer; the bound is for texts that differ by the length of a list.
// There are several readers.
const (
	keptByWriter = 200
	keptByReader = 50
)

// openPrepared opens a pool of SQLite whose connections keep some statements prepared. SQLite translates each statement before it runs, which
// takes a tenth of the time of a large INSERT, and more than the rest of a query that finds one row by an index.
func openPrepared(name string, most int) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(name)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(preparing{connector, most}), nil
}

// preparing makes connections that keep their statements.
type preparing struct {
	driver.Connector

	most int
}

// sqliteConn is what database/sql uses of a connection of SQLite.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// Connect implements driver.Connector.
func (p preparing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	whole, ok := conn.(sqliteConn)
	if !ok {
		return nil, errors.Join(errors.New("the driver of SQLite lacks what its connections are used for"), conn.Close())
	}
	return &preparedConn{sqliteConn: whole, most: p.most, kept: map[string]*keptStatement{}}, nil
}

// preparedConn is a connection with its statements, by their texts. database/sql has one goroutine at a time use it.
type preparedConn struct {
	sqliteConn

	most int
	kept map[string]*keptStatement
}

// keptStatement is a prepared statement. While its rows are read it cannot be run again.
type keptStatement struct {
	statement

	busy bool
}

// statement is what is used of a prepared statement.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// freeing are rows that free their statement at their end.
type freeing struct {
	driver.Rows

	of *keptStatement
}

// Close implements driver.Rows.
func (r freeing) Close() error {
	r.of.busy = false
	return r.Rows.Close()
}

// closing are rows of a statement that nobody keeps.
type closing struct {
	driver.Rows

	of statement
}

// Close implements driver.Rows.
func (r closing) Close() error { return errors.Join(r.Rows.Close(), r.of.Close()) }

// ExecContext implements driver.ExecerContext.
func (c *preparedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	kept, err := c.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	if !kept.busy {
		return kept.ExecContext(ctx, args)
	}
	another, err := c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := another.ExecContext(ctx, args)
	return result, errors.Join(err, another.Close())
}

// QueryContext implements driver.QueryerContext.
func (c *preparedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	kept, err := c.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	if !kept.busy {
		rows, err := kept.QueryContext(ctx, args)
		if err != nil {
			return nil, err
		}
		kept.busy = true
		return freeing{rows, kept}, nil
	}
	another, err := c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := another.QueryContext(ctx, args)
	if err != nil {
		return nil, errors.Join(err, another.Close())
	}
	return closing{rows, another}, nil
}

func (c *preparedConn) prepared(ctx context.Context, query string) (*keptStatement, error) {
	if kept, ok := c.kept[query]; ok {
		return kept, nil
	}
	if len(c.kept) >= c.most {
		if err := c.forget(func(s *keptStatement) bool { return !s.busy }); err != nil {
			return nil, err
		}
	}
	made, err := c.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	c.kept[query] = &keptStatement{statement: made}
	return c.kept[query], nil
}

func (c *preparedConn) prepare(ctx context.Context, query string) (statement, error) {
	made, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	whole, ok := made.(statement)
	if !ok {
		return nil, errors.Join(errors.New("the driver of SQLite lacks what its statements are used for"), made.Close())
	}
	return whole, nil
}

func (c *preparedConn) forget(which func(*keptStatement) bool) error {
	var errs []error
	for query, kept := range c.kept {
		if which(kept) {
			errs = append(errs, kept.Close())
			delete(c.kept, query)
		}
	}
	return errors.Join(errs...)
}

// Close implements driver.Conn.
func (c *preparedConn) Close() error {
	return errors.Join(c.forget(func(*keptStatement) bool { return true }), c.sqliteConn.Close())
}
