// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// MaxFreeze is how long writes may be refused at once: nobody is there to end it if who began it has died.
const MaxFreeze = 20 * time.Second

// frozenKey is the time in milliseconds until which writes are refused, in the table of numbers.
const frozenKey = "frozen"

// Freeze has all replicas refuse changes of the keys that Options.Freezable names, for a time from now on; 0 lets them
// through again. It returns when the last change before is committed.
func (s *Store) Freeze(ctx context.Context, d time.Duration) error {
	var until int64
	if d > 0 {
		until = s.clock.Now().Add(min(d, MaxFreeze)).UnixMilli()
	}
	return s.Maintain(ctx, "refuse writes", func(tx *sqldb.Tx) error {
		return putMeta(ctx, tx, frozenKey, until)
	})
}

// frozen tells whether a transaction must leave out the changes that can be refused. The counter's lock, which it holds,
// orders it with Freeze.
func (s *Store) frozen(ctx context.Context, tx *sqldb.Tx, batch []*write) (bool, error) {
	if !slices.ContainsFunc(batch, s.freezable) {
		return false, nil
	}
	var until int64
	if err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(v), 0) FROM meta WHERE k = ?`, frozenKey).Scan(&until); err != nil {
		return false, fmt.Errorf("read whether writes are refused: %w", err)
	}
	now := s.clock.Now()
	// A time further away than a freeze lasts was set by a clock that has been set back since.
	return until > now.UnixMilli() && until <= now.Add(MaxFreeze).UnixMilli(), nil
}

func (s *Store) freezable(w *write) bool {
	return s.options.Freezable != nil && w.change.Key != "" && s.options.Freezable(w.change.Key)
}

// putMeta writes a number that need not be there yet.
func putMeta(ctx context.Context, tx *sqldb.Tx, key string, value int64) error {
	found, err := tx.Exec(ctx, `UPDATE meta SET v = ? WHERE k = ?`, value, key)
	if err != nil || found > 0 {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO meta (k, v) VALUES (?, ?)`, key, value)
	return err
}
