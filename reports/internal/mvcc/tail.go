// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

const (
	tailStep = 500
	// endAfter is how long watches stay open without a database.
	endAfter = 30 * time.Second
	// relisten is the time between attempts to listen.
	relisten = 5 * time.Second
	// shortPoll is the time between polls while watchers wait and nobody tells of changes.
	shortPoll = 250 * time.Millisecond
)

// tailLoop brings to the hub what other replicas have written, and what the writer could not hand over.
func (s *Store) tailLoop(ctx context.Context) {
	var away time.Time
	for s.awaitChanges(ctx) {
		err := s.catchUp(ctx)
		switch {
		case err == nil:
			away = time.Time{}
			s.seenAt.Store(s.clock.Now().UnixNano())
		case errors.Is(err, ErrForeign):
			s.fail(err)
		case away.IsZero():
			away = s.clock.Now()
		case s.clock.Since(away) > endAfter:
			s.hub.end()
			away = time.Time{}
		}
	}
}

// awaitChanges returns when the log has to be read, and false when the Store is being closed.
func (s *Store) awaitChanges(ctx context.Context) bool {
	var poll <-chan time.Time
	if s.db.Shared() {
		every := s.options.Poll
		if s.hub.wanted() && !s.hub.listening() {
			every = min(every, shortPoll)
		}
		timer := s.clock.NewTimer(every)
		defer timer.Stop()
		poll = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.hub.woken:
	case <-poll:
	}
	return true
}

func (s *Store) fail(err error) {
	select {
	case s.failed <- err:
	default: // one reason is enough
	}
	s.hub.end()
}

// listenLoop is told by other replicas, where the database can, and tries again when the connection is lost.
func (s *Store) listenLoop(ctx context.Context) {
	for ctx.Err() == nil {
		// What is missed while nobody listens is found by the poll.
		_ = s.db.Listen(ctx, func() { s.hub.setListening(true) }, s.hub.wake)
		s.hub.setListening(false)
		timer := s.clock.NewTimer(relisten)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// catchUp reads the log until the hub has all of it.
func (s *Store) catchUp(ctx context.Context) error {
	for {
		revision, _ := s.hub.state()
		events, meta, err := s.readLog(ctx, revision, tailStep)
		if err != nil && !errors.Is(err, ErrCompacted) {
			return err
		}
		if meta["instance"] != s.instance || meta["rv"] < revision {
			return fmt.Errorf("%w: the counter is %d, %d was seen", ErrForeign, meta["rv"], revision)
		}
		if errors.Is(err, ErrCompacted) { // away for longer than the history, or a jump
			s.hub.skip(meta["compacted"])
			continue
		}
		s.hub.publish(events)
		if len(events) < tailStep {
			return nil
		}
	}
}

// readLog returns the changes after a revision, in order, with the states that they made.
func (s *Store) readLog(ctx context.Context, after int64, limit int) (events []Event, meta map[string]int64, err error) {
	err = s.db.Read(ctx, func(tx *sqldb.Tx) error {
		if meta, err = readMeta(ctx, tx); err != nil {
			return err
		}
		if after < meta["compacted"] {
			return ErrCompacted
		}
		if after >= meta["rv"] {
			return nil
		}
		if events, err = s.readChanges(ctx, tx, after, limit); err != nil {
			return err
		}
		return s.fillAfter(ctx, tx, events)
	})
	return events, meta, s.classified(ctx, "read the log", err)
}

func (s *Store) readChanges(ctx context.Context, tx *sqldb.Tx, after int64, limit int) ([]Event, error) {
	rows, err := tx.Query(ctx, `SELECT rv, "key", type, before_rv, before_head, before_payload FROM changes WHERE rv > ? ORDER BY rv LIMIT ?`, after, limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	var events []Event
	for rows.Next() {
		var event Event
		var kind int
		var before sql.NullInt64
		var row storedRow
		if err := rows.Scan(&event.Revision, &event.Key, &kind, &before, &row.head, &row.sha); err != nil {
			return nil, err
		}
		event.Type = EventType(kind)
		switch {
		case event.Type == compaction:
			event.upTo = before.Int64
		case before.Valid:
			row.revision = before.Int64
			if event.Before, err = s.value(&row, true); err != nil {
				return nil, err
			}
		}
		events = append(events, event)
	}
	return events, rows.Err()
}

// fillAfter finds the states that changes made: what the next change of the key found, or the present row.
func (s *Store) fillAfter(ctx context.Context, tx *sqldb.Tx, events []Event) error {
	next := map[string]*Value{}
	for i := len(events) - 1; i >= 0; i-- {
		event := &events[i]
		if event.Type == Added || event.Type == Modified {
			after, known := next[event.Key]
			if !known {
				var err error
				if after, err = s.stateAfter(ctx, tx, event); err != nil {
					return fmt.Errorf("state of %s after %d: %w", event.Key, event.Revision, err)
				}
			}
			event.After = after
		}
		next[event.Key] = event.Before
	}
	return nil
}

func (s *Store) stateAfter(ctx context.Context, tx *sqldb.Tx, event *Event) (*Value, error) {
	var row storedRow
	err := tx.QueryRow(ctx, `SELECT rv, head, payload FROM objects WHERE "key" = ? AND rv = ?`, event.Key, event.Revision).Scan(&row.revision, &row.head, &row.sha)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRow(ctx, `SELECT before_rv, before_head, before_payload FROM changes WHERE "key" = ? AND rv > ? ORDER BY rv LIMIT 1`,
			event.Key, event.Revision).Scan(&row.revision, &row.head, &row.sha)
	}
	if err != nil {
		return nil, err
	}
	return s.value(&row, true)
}

// Cursor is the place of one watcher in the log.
type Cursor struct {
	store    *Store
	revision int64
	ended    <-chan struct{}
}

// NewCursor begins behind a revision. The caller closes the cursor.
func (s *Store) NewCursor(revision int64) *Cursor {
	return &Cursor{store: s, revision: revision, ended: s.hub.join()}
}

// Close tells that nobody waits at the cursor any more.
func (c *Cursor) Close() { c.store.hub.leave() }

// Revision is the change up to which the watcher has seen all.
func (c *Cursor) Revision() int64 { return c.revision }

// Ended is closed when the watcher has to end.
func (c *Cursor) Ended() <-chan struct{} { return c.ended }

// Next returns the next events and goes on behind them. If there are none, it returns a channel that is closed when
// there may be some. ErrCompacted says that events are missing.
func (c *Cursor) Next(ctx context.Context, limit int) ([]Event, <-chan struct{}, error) {
	events, more, behind := c.store.hub.after(c.revision, limit)
	if behind {
		var err error
		if events, _, err = c.store.readLog(ctx, c.revision, limit); err != nil {
			if errors.Is(err, ErrCompacted) {
				c.store.observer.Expired()
			}
			return nil, nil, err
		}
	}
	if len(events) > 0 {
		c.revision = events[len(events)-1].Revision
	}
	return events, more, nil
}

// WaitFor waits until this process has seen a revision, and returns the newest that it has.
func (s *Store) WaitFor(ctx context.Context, revision int64, wait time.Duration) (int64, error) {
	timer := s.clock.NewTimer(wait)
	defer timer.Stop()
	for {
		seen, _ := s.hub.state()
		if seen >= revision {
			return seen, nil
		}
		_, more, _ := s.hub.after(seen, 0)
		select {
		case <-more:
		case <-timer.C():
			return seen, nil
		case <-ctx.Done():
			return seen, ctx.Err()
		}
	}
}
