// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Bounds of what is kept and of what one compaction does.
const (
	compactStep = 5_000
	blobGrace   = 10 * time.Minute
	blobStep    = 100
	leaseTime   = 2 * time.Minute
	// historyBytes bounds the states in the log; above it changes are dropped that are not old yet.
	historyBytes = 256 << 20
)

// Compact drops the changes up to a revision, as a numbered change of its own.
func (s *Store) Compact(ctx context.Context, upTo int64) error {
	_, err := s.enqueue(ctx, &write{compact: upTo})
	return err
}

func (s *Store) applyCompaction(ctx context.Context, tx *sqldb.Tx, w *write, revision int64) (*Event, error) {
	upTo := min(w.compact, revision-1)
	if err := dropReferences(ctx, tx, upTo, s.clock.Now()); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM changes WHERE rv <= ?`, upTo); err != nil {
		return nil, fmt.Errorf("drop changes: %w", err)
	}
	if _, err := tx.Exec(ctx, `UPDATE meta SET v = ? WHERE k = 'compacted' AND v < ?`, upTo, upTo); err != nil {
		return nil, fmt.Errorf("note the compaction: %w", err)
	}
	if err := s.logChange(ctx, tx, changeRow{revision: revision, kind: compaction, upTo: upTo}); err != nil {
		return nil, err
	}
	w.outcome = Outcome{Written: true, Revision: revision}
	return &Event{Revision: revision, Type: compaction, upTo: upTo}, nil
}

func (s *Store) applyAdvance(ctx context.Context, tx *sqldb.Tx, w *write, revision int64) (*Event, error) {
	revision = max(revision, w.advance)
	if err := setMeta(ctx, tx, map[string]int64{"compacted": revision}); err != nil {
		return nil, fmt.Errorf("note the compaction: %w", err)
	}
	if err := s.logChange(ctx, tx, changeRow{revision: revision, kind: compaction, upTo: revision}); err != nil {
		return nil, err
	}
	w.outcome = Outcome{Written: true, Revision: revision}
	return &Event{Revision: revision, Type: compaction, upTo: revision}, nil
}

// dropReferences lowers the counts of payloads that the dropped changes name.
func dropReferences(ctx context.Context, tx *sqldb.Tx, upTo int64, now time.Time) error {
	rows, err := tx.Query(ctx, `SELECT before_payload, COUNT(*) FROM changes WHERE rv <= ? AND before_payload IS NOT NULL GROUP BY before_payload`, upTo)
	if err != nil {
		return fmt.Errorf("count payloads: %w", err)
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	dropped := map[string]int64{}
	for rows.Next() {
		var sha string
		var n int64
		if err := rows.Scan(&sha, &n); err != nil {
			return err
		}
		dropped[sha] = n
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for sha, n := range dropped {
		if _, err := tx.Exec(ctx, `UPDATE blobs SET refs = refs - ?, at = ? WHERE sha = ?`, n, now.UnixMilli(), sha); err != nil {
			return fmt.Errorf("drop references: %w", err)
		}
	}
	return nil
}

// compactLoop compacts again and again; of several replicas, the one that holds the lease.
func (s *Store) compactLoop(ctx context.Context) {
	ticker := s.clock.NewTicker(s.options.CompactEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			// Errors are counted by the observer; the next round tries again.
			_ = s.CompactOnce(ctx)
		}
	}
}

// CompactOnce drops the changes that are older than the history to be kept, and payloads that nobody names any more, and
// does the chores, if no other replica has done so within the last minutes.
func (s *Store) CompactOnce(ctx context.Context) error {
	mine, err := s.takeLease(ctx)
	if err != nil || !mine {
		return err
	}
	upTo, err := s.compactable(ctx)
	if err != nil {
		return err
	}
	if upTo > 0 {
		if err := s.Compact(ctx, upTo); err != nil {
			return err
		}
	}
	if err := s.dropBlobs(ctx); err != nil {
		return err
	}
	if err := s.classified(ctx, "give back space", s.db.GiveBackSpace(ctx)); err != nil {
		return err
	}
	s.doChores(ctx)
	return nil
}

// takeLease lets one replica compact. The lease is a time in milliseconds until which others do not.
func (s *Store) takeLease(ctx context.Context) (bool, error) {
	if !s.db.Shared() {
		return true, nil
	}
	now := s.clock.Now()
	var found int64
	err := s.db.Write(ctx, func(tx *sqldb.Tx, _ int64) error {
		var err error
		// A lease further away than a lease lasts was taken by a clock that has been set back since.
		found, err = tx.Exec(ctx, `UPDATE meta SET v = ? WHERE k = 'lease' AND (v < ? OR v > ?)`,
			now.Add(s.options.CompactEvery/2).UnixMilli(), now.UnixMilli(), now.Add(leaseTime).UnixMilli())
		return err
	})
	return found == 1, s.classified(ctx, "take the lease of compactions", err)
}

// compactable is the revision up to which changes are older than the history to be kept, 0 if there is nothing to do.
func (s *Store) compactable(ctx context.Context) (int64, error) {
	var upTo sql.NullInt64
	cutoff := s.clock.Now().Add(-s.options.History).UnixNano()
	err := s.db.Read(ctx, func(tx *sqldb.Tx) error {
		var bytes int64
		if err := tx.QueryRow(ctx, `SELECT COALESCE(SUM(LENGTH(before_head)), 0) FROM changes`).Scan(&bytes); err != nil {
			return err
		}
		if bytes > historyBytes {
			cutoff = math.MaxInt64 // what is kept is bounded in size as well as in time
		}
		return tx.QueryRow(ctx, `SELECT MAX(rv) FROM (SELECT rv, at FROM changes
			WHERE rv <= (SELECT v FROM meta WHERE k = 'rv') - ? AND rv > (SELECT v FROM meta WHERE k = 'compacted') ORDER BY rv LIMIT ?) AS old WHERE at < ?`,
			s.options.KeepChanges, compactStep, cutoff).Scan(&upTo)
	})
	return upTo.Int64, s.classified(ctx, "look for old changes", err)
}

// dropBlobs deletes payloads that have been without a reference for a while. The grace lets reads finish that have seen
// the row which named the payload.
func (s *Store) dropBlobs(ctx context.Context) error {
	err := s.db.Write(ctx, func(tx *sqldb.Tx, _ int64) error {
		cutoff := s.clock.Now().Add(-blobGrace).UnixMilli()
		shas, err := sqldb.Column[string](ctx, tx, `SELECT sha FROM blobs WHERE refs <= 0 AND at < ? LIMIT ?`, cutoff, blobStep)
		if err != nil || len(shas) == 0 {
			return err
		}
		in, args := tx.In("sha", shas)
		_, err = tx.Exec(ctx, `DELETE FROM blobs WHERE refs <= 0 AND `+in, args...)
		return err
	})
	return s.classified(ctx, "drop payloads", err)
}
