// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// StatusError is an answer whose status is not an accepted one.
type StatusError struct {
	// FarEnd is what the far end is called, Host is where it is.
	FarEnd, Host string
	Status       int
	// Excerpt is the beginning of what it said, on one line and without credentials. Often empty.
	Excerpt string
	// Location is scheme and host of where a redirect points.
	Location string
	// RetryAfter is what it asked to wait, 0 if it did not.
	RetryAfter time.Duration
}

// Error names the far end, host and status.
func (e *StatusError) Error() string {
	text := e.FarEnd + " at " + e.Host + " answers " + strconv.Itoa(e.Status)
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

// UnreachableError says that there was no answer, or only a part of one.
type UnreachableError struct {
	FarEnd, Host string
	// Status is that of an answer that broke off, 0 where there was none.
	Status int
	// Text is the reason, without credentials.
	Text string
	err  error
}

// Error names the far end and host.
func (e *UnreachableError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s at %s breaks off its answer of status %d: %s", e.FarEnd, e.Host, e.Status, e.Text)
	}
	return e.FarEnd + " at " + e.Host + " cannot be reached: " + e.Text
}

// Unwrap gives the cause, whose own text may hold what Text leaves out.
func (e *UnreachableError) Unwrap() error { return e.err }

// AnswerError is what a Request's Check found wrong with an answer.
type AnswerError struct {
	FarEnd, Host string
	Status       int
	err          error
}

// Error names the far end, host and status.
func (e *AnswerError) Error() string {
	return fmt.Sprintf("%s at %s answers %d: %v", e.FarEnd, e.Host, e.Status, e.err)
}

// Unwrap gives what Check returned.
func (e *AnswerError) Unwrap() error { return e.err }

var (
	errSilent  = errors.New("no sign of life in time")
	errEndless = errors.New("the request does not come to an end")
	// errSource marks an error of what is to be sent, not of the far end.
	errSource = errors.New("read what is to be sent")
)

// again is an error that may pass.
type again struct {
	err   error
	after time.Duration
}

func (a *again) Error() string { return a.err.Error() }

func (a *again) Unwrap() error { return a.err }

// TryAgain marks an error as one that may pass; after is how long the far end asked to wait, 0 if it did not.
func TryAgain(err error, after time.Duration) error { return &again{err: err, after: after} }

// MayPass says whether the same request may succeed later, and how long the far end asked to wait.
func MayPass(err error) (after time.Duration, yes bool) {
	var (
		status      *StatusError
		unreachable *UnreachableError
		marked      *again
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, errSource), errors.Is(err, context.Canceled):
		return 0, false
	case errors.As(err, &marked):
		return marked.after, true
	case errors.As(err, &status):
		return status.RetryAfter, statusMayPass(status.Status)
	case errors.As(err, &certificate), errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
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

// withoutURL drops the *url.Error that net/http wraps around everything, since that one carries the address.
func withoutURL(err error) error {
	for {
		wrapper, ok := errors.AsType[*url.Error](err)
		if !ok {
			return err
		}
		err = wrapper.Err
	}
}

// retryAfter reads the header of that name. A date is compared with the far end's own clock where it tells it.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(0, seconds), 1<<30)) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now))
}
