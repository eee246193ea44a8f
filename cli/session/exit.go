// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
)

// Exit codes of the command line. They are part of its interface: pipelines rely on them.
const (
	// CodeDone means that the command has done its work.
	CodeDone = 0
	// CodeErrored means that a Scan is Errored, that an operation failed, or wrong usage.
	CodeErrored = 1
	// CodeThreshold means that a Scan has findings at or above the severity of --fail-on.
	CodeThreshold = 2
	// CodeTimeout means that --timeout passed first; the Scan continues.
	CodeTimeout = 3
	// CodeUnreached means that the scanner of a Scan reached nothing, which --fail-on counts as a failure unless
	// --allow-unreached is given.
	CodeUnreached = 4
	// CodeInterrupted means Ctrl-C, as in shells.
	CodeInterrupted = 130
)

// ExitError ends a command with an exit code. Err is printed unless it is nil.
type ExitError struct {
	Code int
	Err  error
}

// Error is the text of the cause.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Exit makes an error that ends the command with a code. With a nil err nothing more is printed: the
// command has printed everything.
func Exit(code int, err error) error { return &ExitError{Code: code, Err: err} }

// Code returns the exit code of an error, and the error to print, which is nil if the command has printed
// everything.
func Code(err error) (int, error) {
	if err == nil {
		return CodeDone, nil
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code, exit.Err
	}
	return CodeErrored, err
}
