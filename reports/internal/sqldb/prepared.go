// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"modernc.org/sqlite"
)

// keptStatements is how many statements a connection keeps prepared. Those of the writer are fewer; the bound is for texts that
// differ by the length of a list.
const keptStatements = 200

// openPrepared opens a pool of SQLite whose connections keep their statements prepared. SQLite translates each statement
// before it runs, which takes a tenth of the time of a large INSERT. A statement must not be run while rows of the same one are read.
func openPrepared(name string) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(name)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(preparing{connector}), nil
}

// preparing makes connections that keep their statements.
type preparing struct{ driver.Connector }

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
	return &preparedConn{sqliteConn: whole, kept: map[string]keptStatement{}}, nil
}

// preparedConn is a connection with its statements, by their texts. database/sql has one goroutine at a time use it.
type preparedConn struct {
	sqliteConn

	kept map[string]keptStatement
}

// keptStatement is what is used of a prepared statement.
type keptStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// ExecContext implements driver.ExecerContext.
func (c *preparedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	statement, err := c.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return statement.ExecContext(ctx, args)
}

// QueryContext implements driver.QueryerContext.
func (c *preparedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	statement, err := c.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return statement.QueryContext(ctx, args)
}

func (c *preparedConn) prepared(ctx context.Context, query string) (keptStatement, error) {
	if kept, ok := c.kept[query]; ok {
		return kept, nil
	}
	if len(c.kept) >= keptStatements {
		if err := c.forget(); err != nil {
			return nil, err
		}
	}
	made, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	statement, ok := made.(keptStatement)
	if !ok {
		return nil, errors.Join(errors.New("the driver of SQLite lacks what its statements are used for"), made.Close())
	}
	c.kept[query] = statement
	return statement, nil
}

func (c *preparedConn) forget() error {
	var errs []error
	for query, statement := range c.kept {
		errs = append(errs, statement.Close())
		delete(c.kept, query)
	}
	return errors.Join(errs...)
}

// Close implements driver.Conn.
func (c *preparedConn) Close() error { return errors.Join(c.forget(), c.sqliteConn.Close()) }
