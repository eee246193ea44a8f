// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"fmt"
)

// Exit codes of the command line. They are part of its interface: pipelines rely on them.
const (
	// CodeDone means that what was asked for was done.
	CodeDone = 0
	// CodeErrored means that a Scan is Errored, that something failed, or wrong usage.
	CodeErrored = 1
	// CodeThreshold means that a Scan has findings at or above the severity of --fail-on.
	CodeThreshold = 2
	// CodeTimeout means that --timeout passed first; the Scan goes on.
	CodeTimeout = 3
	// CodeUnreached means that the scanner of a Scan reached nothing, which --fail-on takes for a failure unless
	// --allow-unreached is given.
	CodeUnreached = 4
	// CodeInterrupted means Ctrl-C, as shells have it.
	CodeInterrupted = 130
)

// ExitError ends a command with a code of its own. Err is printed unless it is nil.
type ExitError struct {
	Code int
	Err  error
}

// Error is the text of what happened.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns what happened.
func (e *ExitError) Unwrap() error { return e.Err }

// Exit makes an error that ends the command with a code. With a nil err nothing more is
// printed: the command has said it all.
func Exit(code int, err error) error { return &ExitError{Code: code, Err: err} }

// Code is the exit code that an error asks for, and the error to print, which is nil
// where the command has said it all.
func Code(err error) (int, error) {
	if err == nil {
		return CodeDone, nil
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code, exit.Err
	}
	return CodeErrored, err
}
