// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
)

// Exit codes of a process that cannot start with its database.
const (
	ExitUnusable    = 1
	ExitInUse       = 3
	ExitNewerSchema = 4
)

// StartError says why a database cannot be used, and with which code the process ends.
type StartError struct {
	Exit int
	Err  error
}

// Error returns the reason.
func (e *StartError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *StartError) Unwrap() error { return e.Err }

// CommitError is a commit whose outcome the database did not tell.
type CommitError struct{ Err error }

// Error returns the reason.
func (e *CommitError) Error() string { return "commit: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *CommitError) Unwrap() error { return e.Err }

// ErrBusy is returned by a read that got no connection in time.
var ErrBusy = errors.New("no connection to the database is free")

// ErrAway is returned by a transaction whose database has stopped to answer.
var ErrAway = errors.New("the database does not answer")

// Class is what an error of the database means for a request.
type Class int

// Classes of errors.
const (
	ClassOther Class = iota // the statement, or a defect
	ClassAway               // the database cannot be reached, or it was asked to stop
	ClassBusy               // a lock or a connection was not free in time
	ClassFull               // the disk is full
)

// String is the class in one word, for metrics.
func (c Class) String() string {
	switch c {
	case ClassAway:
		return "away"
	case ClassBusy:
		return "busy"
	case ClassFull:
		return "full"
	case ClassOther:
	}
	return "other"
}

// Classify tells what an error of a transaction means.
func (db *DB) Classify(err error) Class {
	switch {
	case err == nil:
		return ClassOther
	case errors.Is(err, ErrAway):
		return ClassAway
	case errors.Is(err, ErrBusy), errors.Is(err, context.DeadlineExceeded):
		return ClassBusy
	}
	if class := db.dialect.classify(err); class != ClassOther {
		return class
	}
	var network net.Error
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) {
		return ClassAway
	}
	return ClassOther
}
