// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/podkit/redact"
	"github.com/scanyard/scanyard/podkit/retry"
)

// ErrChanged says that the object was replaced during the download.
var ErrChanged = errors.New("the object changed during the download")

// ErrSizeMismatch says that the source of an upload had more or fewer bytes than announced.
var ErrSizeMismatch = errors.New("the source does not have the announced size")

// StatusError is a response of the store other than success.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// S3Code is the store's error code, such as NoSuchKey. Empty if the response had none.
	S3Code string
	// S3Message is the store's message, cut to one short line.
	S3Message string
	// RetryAfter is how long the store asked to wait, 0 if it did not.
	RetryAfter time.Duration
}

func (e *StatusError) Error() string {
	text := "the store answers " + strconv.Itoa(e.Code)
	if words := http.StatusText(e.Code); words != "" {
		text += " " + words
	}
	switch {
	case e.S3Code != "" && e.S3Message != "":
		text += fmt.Sprintf(" (%s: %s)", e.S3Code, e.S3Message)
	case e.S3Code != "":
		text += fmt.Sprintf(" (%s)", e.S3Code)
	}
	return text
}

// IsExpired reports whether an error means that the presigned URL, or the session in which it was signed, has expired. A
// new URL helps then.
func IsExpired(err error) bool {
	var status *StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.S3Code {
	case "ExpiredToken", "RequestExpired", "TokenRefreshRequired":
		return true
	case "AccessDenied", "":
		return status.Code == http.StatusForbidden && strings.Contains(strings.ToLower(status.S3Message), "expired")
	}
	return false
}

const (
	maxErrorBody    = 16 << 10
	maxErrorMessage = 300
)

// newStatusError reads the store's error, up to a bound, and closes the body.
func newStatusError(resp *http.Response, now time.Time) *StatusError {
	defer resp.Body.Close()
	e := &StatusError{Code: resp.StatusCode, RetryAfter: retry.After(resp.Header, now)}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && len(body) == 0 {
		return e // the status is enough; the message is optional
	}
	var answer struct {
		XMLName xml.Name `xml:"Error"`
		Code    string   `xml:"Code"`
		Message string   `xml:"Message"`
	}
	if err := xml.Unmarshal(body, &answer); err == nil {
		e.S3Code = oneLine(answer.Code)
		e.S3Message = oneLine(answer.Message)
	}
	return e
}

func oneLine(s string) string { return text.CutRunes(text.Line(redact.URLs(s)), maxErrorMessage) }

// permanent marks an error that a retry cannot mend.
type permanent struct{ err error }

func (p permanent) Error() string { return p.err.Error() }

func (p permanent) Unwrap() error { return p.err }

// isRetryable reports whether the same request may succeed a little later.
func isRetryable(err error) bool {
	if _, lasting := errors.AsType[permanent](err); lasting {
		return false
	}
	if status, ok := errors.AsType[*StatusError](err); ok {
		return status.retryable()
	}
	return !retry.IsLasting(err)
}

// withoutURL is an error of net/http without the address, which is a secret.
func withoutURL(err error) error { return redact.Error(redact.WithoutURL(err)) }

// ExitCode is the exit code of the container: a retry has the same presigned URL.
func (e *StatusError) ExitCode() int {
	if IsExpired(e) {
		return exitcode.Refused
	}
	return 1
}

func (e *StatusError) retryable() bool {
	switch {
	case e.Code == http.StatusNotImplemented:
		return false
	case e.Code >= 500, e.Code == http.StatusRequestTimeout, e.Code == http.StatusTooManyRequests:
		return true
	}
	switch e.S3Code {
	case "RequestTimeout", "SlowDown", "OperationAborted", "IncompleteBody", "InternalError":
		return true
	}
	return false
}
