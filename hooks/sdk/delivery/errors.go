// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/podkit/retry"
)

// StatusError is a response whose status is not an accepted one.
type StatusError struct {
	// Remote is the name of the remote service, Host is its host.
	Remote, Host string
	Status       int
	// Excerpt is the beginning of the response, on one line and without credentials. Often empty.
	Excerpt string
	// Location is scheme and host of the target of a redirect.
	Location string
	// RetryAfter is how long the service asked to wait, 0 if it did not.
	RetryAfter time.Duration
}

// Error names the remote service, host and status.
func (e *StatusError) Error() string {
	text := e.Remote + " at " + e.Host + " answers " + strconv.Itoa(e.Status)
	if words := http.StatusText(e.Status); words != "" {
		text += " " + words
	}
	if e.Location != "" {
		text += ", a redirect to " + e.Location + "; redirects are not followed, set the final address"
	}
	if e.Excerpt != "" {
		text += ": " + e.Excerpt
	}
	return text
}

// ExitCode is the exit code of the container: a retry has the same credentials.
func (e *StatusError) ExitCode() int {
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		return exitcode.Refused
	}
	return 1
}

// UnreachableError says that there was no response, or only a part of one.
type UnreachableError struct {
	Remote, Host string
	// Status is the status of a response that broke off, 0 if there was no response.
	Status int
	// Text is the reason, without credentials.
	Text string
	err  error
}

// Error names the remote service and host.
func (e *UnreachableError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s at %s breaks off its response of status %d: %s", e.Remote, e.Host, e.Status, e.Text)
	}
	return e.Remote + " at " + e.Host + " cannot be reached: " + e.Text
}

// Unwrap returns the cause, whose own text may contain what Text leaves out.
func (e *UnreachableError) Unwrap() error { return e.err }

// AnswerError is what a Request's Check found wrong with a response.
type AnswerError struct {
	Remote, Host string
	Status       int
	err          error
}

// Error names the remote service, host and status.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("%s at %s answers %d: %v", e.Remote, e.Host, e.Status, e.err)
}

// Unwrap returns the error of Check.
func (e *AnswerError) Unwrap() error { return e.err }

var (
	errSilent  = errors.New("no sign of life in time")
	errEndless = errors.New("the request does not come to an end")
	// errSource marks an error of the data to send, not of the remote service.
	errSource = errors.New("read what is to be sent")
)

// again is an error that may pass.
type again struct {
	err   error
	after time.Duration
}

func (a *again) Error() string { return a.err.Error() }

func (a *again) Unwrap() error { return a.err }

// ExitCode is the exit code of the container: a retry may succeed, whatever the error is.
func (a *again) ExitCode() int { return 1 }

// TryAgain marks an error as one that may pass; after is how long the service asked to wait, 0 if it did not.
func TryAgain(err error, after time.Duration) error { return &again{err: err, after: after} }

// MayPass reports whether the same request may succeed later, and how long the service asked to wait.
func MayPass(err error) (after time.Duration, yes bool) {
	var (
		status      *StatusError
		unreachable *UnreachableError
		marked      *again
	)
	switch {
	case errors.Is(err, errSource), errors.Is(err, context.Canceled):
		return 0, false
	case errors.As(err, &marked):
		return marked.after, true
	case errors.As(err, &status):
		return status.RetryAfter, statusMayPass(status.Status)
	case retry.IsLasting(err):
		return 0, false
	case errors.As(err, &unreachable):
		return 0, true
	}
	return 0, false
}

func statusMayPass(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented:
		return false
	}
	return status >= 500
}
