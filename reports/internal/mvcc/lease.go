// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Lease lets one of several replicas do some work again and again. It is for one goroutine.
type Lease struct {
	store *Store
	name  string
	lasts time.Duration
	until int64 // what this replica has noted last, in nanoseconds
}

// NewLease makes a lease that is nobody's longer than it lasts, once its holder has gone.
func (s *Store) NewLease(name string, lasts time.Duration) *Lease {
	return &Lease{store: s, name: "lease-" + name, lasts: lasts}
}

// Take takes the lease, or keeps it. It tells whether this replica has it now.
func (l *Lease) Take(ctx context.Context) (mine bool, err error) {
	if !l.store.db.Shared() {
		return true, nil
	}
	now := l.store.clock.Now()
	until := now.Add(l.lasts).UnixNano()
	err = l.store.Maintain(ctx, "take a lease", func(tx *sqldb.Tx) error {
		var noted int64
		if err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(v), 0) FROM meta WHERE k = ?`, l.name).Scan(&noted); err != nil {
			return err
		}
		// A lease further away than a lease lasts was taken by a clock that has been set back since.
		if mine = noted == l.until || noted < now.UnixNano() || noted > until; !mine {
			return nil
		}
		return putMeta(ctx, tx, l.name, until)
	})
	if err != nil || !mine {
		return false, err
	}
	l.until = until
	return true, nil
}
