// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"context"
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrCompacted is returned for a revision whose changes have been dropped.
	ErrCompacted = errors.New("the revision has been compacted")
	// ErrQueueFull is returned by a write when too many are waiting.
	ErrQueueFull = errors.New("too many writes are waiting")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the storage is closed")
	// ErrEnded ends the watches of a replica that has lost its database, or that is being stopped.
	ErrEnded = errors.New("watches have been ended")
	// ErrForeign ends a replica whose database has been replaced by another one, or by an older copy.
	ErrForeign = errors.New("the database is not the one that was opened, or an older copy of it")
	// ErrUnavailable is in every error of a database that cannot be reached.
	ErrUnavailable = errors.New("the database is not available")
	// ErrBusy is in every error of a database that did not answer in time.
	ErrBusy = errors.New("the database is busy")
	// ErrNoSpace is in every error of a database whose disk is full.
	ErrNoSpace = errors.New("no space is left in the database")
	// ErrFrozen is returned for a change that is refused for some seconds, see Freeze.
	ErrFrozen = errors.New("reports are being moved, try again in seconds")
	// ErrNotWritten is in every error of a write that the database is known not to hold.
	ErrNotWritten = errors.New("outcome known: not written")
)

// classified marks an error of the database with what it means, so that callers need not know databases.
func (s *Store) classified(ctx context.Context, doing string, err error) error {
	return classified(ctx, s.db, s.observer, doing, err)
}

func classified(ctx context.Context, db *sqldb.DB, observer Observer, doing string, err error) error {
	if err == nil || errors.Is(err, ErrCompacted) {
		return err
	}
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	class := db.Classify(err)
	observer.DatabaseError(class)
	switch class {
	case sqldb.ClassAway:
		return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
	case sqldb.ClassBusy:
		return fmt.Errorf("%s: %w: %w", doing, ErrBusy, err)
	case sqldb.ClassFull:
		return fmt.Errorf("%s: %w: %w", doing, ErrNoSpace, err)
	case sqldb.ClassOther:
	}
	return fmt.Errorf("%s: %w", doing, err)
}
