// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Replica is a copy of the database that follows it, for questions that may be answered as of some moments ago. Objects are never read
// from it for clients: who writes must read what was written.
type Replica struct {
	db       *sqldb.DB
	observer Observer
}

// OpenReplica prepares questions to a copy. The copy need not answer yet. Errors that end the process are *sqldb.StartError.
func OpenReplica(config sqldb.Config, observer Observer) (*Replica, error) {
	db, err := sqldb.OpenReplica(config)
	if err != nil {
		return nil, err
	}
	if observer == nil {
		observer = nobody{}
	}
	return &Replica{db: db, observer: observer}, nil
}

// Query runs fn in a snapshot of the copy. The connection is held until fn returns. Errors are those of [Store.Query].
func (r *Replica) Query(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return classified(ctx, r.db, r.observer, "query the copy", r.db.Read(ctx, fn))
}

// Close ends all connections.
func (r *Replica) Close() error { return r.db.Close() }
