// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/limits"
)

// Reason is why a registry cannot be asked: those of the condition Reachable, those of CatalogAvailable, and HostNotAllowed.
type Reason string

// The reasons.
const (
	Unauthorized    Reason = "Unauthorized"
	Forbidden       Reason = "Forbidden"
	NotFound        Reason = "NotFound"
	TLSFailed       Reason = "TLSFailed"
	NameNotResolved Reason = "NameNotResolved"
	Unreachable     Reason = "Unreachable"
	RateLimited     Reason = "RateLimited"
	// NoRegistry: what answers does not speak the OCI Distribution API.
	NoRegistry     Reason = "NoRegistry"
	HostNotAllowed Reason = egress.Reason

	CatalogNotSupported Reason = "CatalogNotSupported"
	CatalogForbidden    Reason = "CatalogForbidden"
	// RepositoryGone: the registry has no repository of this name.
	RepositoryGone Reason = "RepositoryGone"
)

// ForeignRealm is the detail of Unauthorized where a realm is nobody that may see the credentials.
const ForeignRealm = "ForeignRealm"

// Error is a request that was not answered as it should.
type Error struct {
	Reason Reason
	// Detail is a second reason, such as ForeignRealm, or the registry's error code.
	Detail string
	// Status is that of the answer; 0: there was none.
	Status int
	// NotBefore is when to ask again; zero: the caller's rules say.
	NotBefore time.Time
	cause     error
}

// Error tells reason, status and detail, and the cause where that is ours.
func (e *Error) Error() string {
	text := string(e.Reason)
	if denial, denied := errors.AsType[*egress.Error](e.cause); denied {
		return denial.Error()
	}
	if e.Status != 0 {
		text += fmt.Sprintf(": status %d", e.Status)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.cause }

// ReasonOf gives the reason of an error; "" is not an error of a registry.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// errTrickle is a body that comes too slowly.
var errTrickle = errors.New("the answer comes more slowly than 1 kB/s")

// classify gives the reason of a request that got no answer.
func classify(err error) *Error {
	e := &Error{Reason: Unreachable, cause: err}
	if _, ok := errors.AsType[*egress.Error](err); ok {
		e.Reason = HostNotAllowed
		return e
	}
	if paused, ok := errors.AsType[*limits.PausedError](err); ok {
		e.Reason, e.NotBefore = RateLimited, paused.Until
		return e
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		e.Reason = NameNotResolved
		return e
	}
	if isTLS(err) {
		e.Reason = TLSFailed
	}
	return e
}

func isTLS(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, host := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	operation, isOperation := errors.AsType[*net.OpError](err)
	return record || certificate || alert || authority || host || invalid || errors.Is(err, http.ErrSchemeMismatch) ||
		isOperation && (operation.Op == "remote error" || operation.Op == "local error")
}

// isPassing tells whether to try the same request again at once makes sense.
func isPassing(ctx context.Context, err error) bool {
	return ctx.Err() == nil && ReasonOf(err) == Unreachable
}

// codes are the error codes that messages may hold: those of the OCI Distribution Specification and of Docker's.
var codes = []string{
	"BLOB_UNKNOWN", "DENIED", "MANIFEST_INVALID", "MANIFEST_UNKNOWN", "NAME_INVALID", "NAME_UNKNOWN", "SIZE_INVALID", "TOOMANYREQUESTS", "UNAUTHORIZED",
	"UNAVAILABLE", "UNKNOWN", "UNSUPPORTED",
}

// codeOf reads the first error code of an answer; "" where there is none that is known.
func codeOf(body []byte) string {
	var answer struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	if json.Unmarshal(body, &answer) != nil || len(answer.Errors) == 0 || !slices.Contains(codes, answer.Errors[0].Code) {
		return ""
	}
	return answer.Errors[0].Code
}

// refused makes the error of an answer that is not a success.
func refused(a answer) *Error {
	e := &Error{Reason: Unreachable, Status: a.status, Detail: codeOf(a.body)}
	switch {
	case a.status == http.StatusUnauthorized:
		e.Reason = Unauthorized
	case a.status == http.StatusForbidden:
		e.Reason = Forbidden
	case a.status == http.StatusTooManyRequests:
		e.Reason = RateLimited
	case a.status == http.StatusNotFound && e.Detail == "NAME_UNKNOWN":
		e.Reason = RepositoryGone
	case a.status == http.StatusNotFound:
		e.Reason = NotFound
	case a.status < http.StatusInternalServerError:
		e.Reason = NoRegistry
	}
	return e
}
