// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Code is why a request has no result.
type Code string

// The codes.
const (
	Unsupported    Code = "Unsupported"
	InvalidRequest Code = "InvalidRequest"
	// InvalidInput: the image or the SBOM is broken, and will be.
	InvalidInput     Code = "InvalidInput"
	NotAnImage       Code = "NotAnImage"
	TooLarge         Code = "TooLarge"
	TooManyFiles     Code = "TooManyFiles"
	RatioExceeded    Code = "RatioExceeded"
	NotFound         Code = "NotFound"
	Unauthorized     Code = "Unauthorized"
	RateLimited      Code = "RateLimited"
	Unavailable      Code = "Unavailable"
	Timeout          Code = "Timeout"
	Cancelled        Code = "Cancelled"
	DatabaseMissing  Code = "DatabaseMissing"
	DatabaseCorrupt  Code = "DatabaseCorrupt"
	DatabaseSchema   Code = "DatabaseSchema"
	DiskFull         Code = "DiskFull"
	Internal         Code = "Internal"
	DatabaseRollback Code = "Rollback"
)

// Codes are those that an adapter may answer with. Rollback is the worker's own.
var Codes = []Code{
	Unsupported, InvalidRequest, InvalidInput, NotAnImage, TooLarge, TooManyFiles, RatioExceeded, NotFound, Unauthorized, RateLimited, Unavailable,
	Timeout, Cancelled, DatabaseMissing, DatabaseCorrupt, DatabaseSchema, DiskFull, Internal,
}

var retryable = []Code{RateLimited, Unavailable, Timeout, DiskFull, DatabaseMissing, Internal}

// MayRetry tells whether an error of a code may be retryable.
func MayRetry(code Code) bool { return slices.Contains(retryable, code) }

// Error is why a request has no result.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Retryable: the same request may succeed later.
	Retryable         bool  `json:"retryable"`
	RetryAfterSeconds int64 `json:"retryAfterSeconds"`
}

// Errorf makes an Error that is retryable where its code may be.
func Errorf(code Code, format string, arguments ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, arguments...), Retryable: MayRetry(code)}
}

// Error tells code and message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// RetryAfter is how long to wait at least.
func (e *Error) RetryAfter() time.Duration { return time.Duration(e.RetryAfterSeconds) * time.Second }

// CodeOf gives the code of an error; "" is not an error of an adapter.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// maxRetryAfter is what is believed of an adapter that asks for time.
const maxRetryAfter = int64(time.Hour / time.Second)

// check takes an error of an adapter: only what the protocol allows is believed.
func (e *Error) check() error {
	if !slices.Contains(Codes, e.Code) {
		return fmt.Errorf("an error has the code %q, which the protocol does not know", e.Code)
	}
	e.Retryable = e.Retryable && MayRetry(e.Code)
	e.RetryAfterSeconds = min(max(e.RetryAfterSeconds, 0), maxRetryAfter)
	return nil
}

// Decode reads params or a result. Members that are not known are ignored.
func Decode(text json.RawMessage, into any) error {
	if len(text) == 0 {
		text = json.RawMessage("{}")
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read members: %w", err)
	}
	return nil
}
