// SPDX-License-Identifier: Apache-2.0

package grype

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/vulnerability"

	"github.com/scanyard/scanyard/registry/internal/adapter/database"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

// databaseFile has all data.
const databaseFile = v6.VulnerabilityDBFileName

// schema is that of the database, as describe tells it.
const schema = "6"

// opened is a database that is read.
type opened struct {
	database.Installed

	reader   v6.Reader
	provider vulnerability.Provider
	users    int
}

// databases are those that are open.
type databases struct {
	usual database.Usual
	mutex sync.Mutex
	open  map[string]*opened
}

// use opens a database, or joins those who read it. The caller calls release.
func (d *databases) use(dir string) (o *opened, release func() error, err error) {
	dir = d.usual.Or(dir)
	d.mutex.Lock()
	defer d.mutex.Unlock()
	o = d.open[dir]
	if o == nil {
		if o, err = read(dir); err != nil {
			return nil, nil, err
		}
		d.open[dir] = o
	}
	o.users++
	return o, func() error { return d.leave(dir, o) }, nil
}

// leave closes what nobody reads, but the one that this process was started for.
func (d *databases) leave(dir string, o *opened) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if o.users--; o.users > 0 || dir == d.usual.Told {
		return nil
	}
	delete(d.open, dir)
	return o.reader.Close()
}

func read(dir string) (*opened, error) {
	i, err := database.Describe(dir)
	if err != nil {
		return nil, err
	}
	reader, err := v6.NewReader(v6.Config{DBDirPath: dir})
	if err != nil {
		return nil, protocol.Errorf(protocol.DatabaseCorrupt, "open database: %v", err)
	}
	return &opened{Installed: i, reader: reader, provider: v6.NewVulnerabilityProvider(reader)}, nil
}

// drop removes a database. One that is read goes on being read: its file is open.
func (e *engine) drop(_ context.Context, call serve.Call) (any, error) {
	var params protocol.DatabaseParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	return struct{}{}, database.Drop(params.Dir)
}

// view reads a database in SQL.
func view(dir string, look func(tables *sql.DB) error) (err error) {
	low, err := v6.NewLowLevelDB(filepath.Join(dir, databaseFile), false, false, false)
	if err != nil {
		return protocol.Errorf(protocol.DatabaseCorrupt, "open database: %v", err)
	}
	tables, err := low.DB()
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	return look(tables)
}

// check reads what is in a new database, and makes its indexes: an artifact comes without them.
func check(ctx context.Context, dir string) (database.Installed, error) {
	var i database.Installed
	err := view(dir, func(tables *sql.DB) error {
		var model int
		if err := tables.QueryRowContext(ctx, `SELECT model FROM db_metadata`).Scan(&model); err != nil {
			return protocol.Errorf(protocol.DatabaseCorrupt, "the database does not tell its schema: %v", err)
		}
		if got := strconv.Itoa(model); got != schema {
			return protocol.Errorf(protocol.DatabaseSchema, "the database has the schema %s, and %s is known", got, schema)
		}
		return nil
	})
	if err != nil {
		return i, err
	}
	if err := v6.Hydrater()(dir); err != nil {
		if isFull(err) {
			return i, local(err)
		}
		return i, protocol.Errorf(protocol.DatabaseCorrupt, "make indexes: %v", err)
	}
	said, err := v6.ReadDescription(filepath.Join(dir, databaseFile))
	if err != nil {
		return i, protocol.Errorf(protocol.DatabaseCorrupt, "the database does not tell when it was built: %v", err)
	}
	i.BuiltAt = said.Built.UTC()
	return i, view(dir, func(tables *sql.DB) error {
		return tables.QueryRowContext(ctx, `SELECT count(*) FROM vulnerability_handles`).Scan(&i.Records)
	})
}
