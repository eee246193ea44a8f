// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"time"

	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Observer counts what happens in a Store. Its methods are called often and must return at once.
type Observer interface {
	// Committed is called for each transaction of the writer, with what it changed. The events are not the observer's.
	Committed(events []Event, took time.Duration)
	// Conflict is called for a change that was made from another revision than the present one.
	Conflict()
	// Rejected is called for a change that found the queue full.
	Rejected()
	// DatabaseError is called for each failure.
	DatabaseError(class sqldb.Class)
	// Damaged is called for a payload that is not what was written.
	Damaged()
	// Expired is called for a watcher that fell behind the compaction.
	Expired()
}

// nobody is an Observer that counts nothing.
type nobody struct{}

// Committed implements Observer.
func (nobody) Committed([]Event, time.Duration) {}

// Conflict implements Observer.
func (nobody) Conflict() {}

// Rejected implements Observer.
func (nobody) Rejected() {}

// DatabaseError implements Observer.
func (nobody) DatabaseError(sqldb.Class) {}

// Damaged implements Observer.
func (nobody) Damaged() {}

// Expired implements Observer.
func (nobody) Expired() {}
