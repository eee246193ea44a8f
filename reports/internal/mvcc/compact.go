// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Bounds of what is kept and of what one compaction does. Writers wait for a step, and not between steps: a compaction takes as
// many as are needed, so that it keeps up with whatever is written, up to the number that leaves what is left to the next one.
const (
	compactStep  = 5_000
	compactSteps = 100
	blobGrace    = 10 * time.Minute
	blobStep     = 100
	blobSteps    = 1_000
	leaseTime    = 2 * time.Minute
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
	if err := inSteps(compactSteps, func() (bool, error) { return s.compactSome(ctx) }); err != nil {
		return err
	}
	if err := inSteps(blobSteps, func() (bool, error) { return s.dropBlobs(ctx) }); err != nil {
		return err
	}
	if err := s.classified(ctx, "give back space", s.db.GiveBackSpace(ctx)); err != nil {
		return err
	}
	s.doChores(ctx)
	return nil
}

// inSteps does some work step by step, until nothing is left or a number of steps is done.
func inSteps(most int, step func() (more bool, err error)) error {
	for range most {
		if more, err := step(); err != nil || !more {
			return err
		}
	}
	return nil
}

// compactSome drops the oldest changes that need not be kept, and tells whether there may be more.
func (s *Store) compactSome(ctx context.Context) (more bool, err error) {
	upTo, more, err := s.compactable(ctx)
	if err != nil || upTo == 0 {
		return false, err
	}
	return more, s.Compact(ctx, upTo)
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

// compactable is the revision up to which a step drops changes: those that are older than the history to be kept, and those before
// the history that there is room for. It is 0 if there is nothing to do; more tells that another step may find something.
func (s *Store) compactable(ctx context.Context) (upTo int64, more bool, err error) {
	cutoff := s.clock.Now().Add(-s.options.History).UnixNano()
	err = s.db.Read(ctx, func(tx *sqldb.Tx) error {
		tooMany, err := s.beyondRoom(ctx, tx)
		if err != nil {
			return err
		}
		var last sql.NullInt64
		var found int
		err = tx.QueryRow(ctx, `SELECT MAX(rv), COUNT(*) FROM (SELECT rv, at FROM changes
			WHERE rv <= (SELECT v FROM meta WHERE k = 'rv') - ? AND rv > (SELECT v FROM meta WHERE k = 'compacted') ORDER BY rv LIMIT ?) AS old
			WHERE at < ? OR rv <= ?`, s.options.KeepChanges, compactStep, cutoff, tooMany).Scan(&last, &found)
		upTo, more = last.Int64, found == compactStep
		return err
	})
	return upTo, more, s.classified(ctx, "look for old changes", err)
}

// beyondRoom is the revision up to which changes are more than there is room for, with the states before them; 0 where all have room.
// Of a payload that others name as well, each has a part. How many bytes are stored is asked only where those before compression,
// which the table has as a number, might be too many.
func (s *Store) beyondRoom(ctx context.Context, tx *sqldb.Tx) (int64, error) {
	var most float64 // databases do not agree on what a division of whole numbers gives
	err := tx.QueryRow(ctx, `SELECT COALESCE(SUM(COALESCE(LENGTH(c.before_head), 0) + COALESCE(b.raw_size / b.refs, 0)), 0)
		FROM changes c LEFT JOIN blobs b ON b.sha = c.before_payload AND b.refs > 0`).Scan(&most)
	if err != nil || most <= float64(s.options.HistoryBytes) {
		return 0, err
	}
	var upTo sql.NullInt64
	err = tx.QueryRow(ctx, `SELECT MAX(rv) FROM (
		SELECT c.rv, SUM(COALESCE(LENGTH(c.before_head), 0) + COALESCE(LENGTH(b.data) / b.refs, 0)) OVER (ORDER BY c.rv DESC) AS newer
		FROM changes c LEFT JOIN blobs b ON b.sha = c.before_payload AND b.refs > 0) AS sums WHERE newer > ?`, s.options.HistoryBytes).Scan(&upTo)
	return upTo.Int64, err
}

// dropBlobs deletes some payloads that have been without a reference for a while, and tells whether there may be more. The grace lets
// reads finish that have seen the row which named the payload.
func (s *Store) dropBlobs(ctx context.Context) (more bool, err error) {
	err = s.db.Write(ctx, func(tx *sqldb.Tx, _ int64) error {
		cutoff := s.clock.Now().Add(-blobGrace).UnixMilli()
		shas, err := sqldb.Column[string](ctx, tx, `SELECT sha FROM blobs WHERE refs <= 0 AND at < ? LIMIT ?`, cutoff, blobStep)
		if err != nil || len(shas) == 0 {
			return err
		}
		more = len(shas) == blobStep
		in, args := tx.In("sha", shas)
		_, err = tx.Exec(ctx, `DELETE FROM blobs WHERE refs <= 0 AND `+in, args...)
		return err
	})
	return more, s.classified(ctx, "drop payloads", err)
}
