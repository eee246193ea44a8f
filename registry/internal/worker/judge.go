// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/adapter"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/item"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
)

// The reasons of items that are the worker's own.
const (
	reasonReportsUnavailable = "ReportsUnavailable"
	reasonConflict           = "Conflict"
	reasonTimeout            = "Timeout"
	reasonGivenBack          = "GivenBack"
	reasonInternal           = "Internal"
	// ReasonSBOMMissing is an Image whose SBOM somebody has deleted.
	ReasonSBOMMissing = "SBOMMissing"
)

// The ends of steps that are not a fault of the item.
var (
	// errDropped: the claim is somebody else's. Nothing is written.
	errDropped = errors.New("the claim was lost")
	// errDraining: this worker ends.
	errDraining = errors.New("the worker ends")
	// errCancelled: the job was cancelled.
	errCancelled = errors.New("the job was cancelled")
)

// refusedError is a Registry that cannot be asked, for a reason of the Registry's condition.
type refusedError struct{ reason, message string }

func (e *refusedError) Error() string { return e.reason + ": " + e.message }

// verdict is what an error says of a try.
type verdict struct {
	outcome item.Outcome
	// dropped: nothing is written.
	dropped         bool
	reason, message string
	// notBefore is what the other side asks for, retryAfter the same as a time to wait.
	notBefore  time.Time
	retryAfter time.Duration
}

// outcomes are the names that the controller and metrics know.
var outcomes = map[item.Outcome]string{
	item.Done: "Done", item.Transient: "Transient", item.Crashed: "Crashed", item.Unscannable: "Unscannable", item.Broken: "Broken", item.Refused: "Refused",
	item.Throttled: "Throttled", item.GivenBack: "GivenBack",
}

// judge says what an error means for the item that was worked on. ended is why the context of the step ended; nil: it did not.
func judge(err, ended error) verdict {
	v := verdict{outcome: item.Transient, reason: reasonInternal}
	if err == nil {
		return verdict{outcome: item.Done}
	}
	v.message = clean(err.Error())
	switch {
	case errors.Is(err, errDropped), errors.Is(ended, errDropped), reportsclient.ReasonOf(err) == reportsv1.ReasonClaimLost:
		v.dropped = true
		return v
	case errors.Is(ended, errDraining), errors.Is(ended, errCancelled):
		v.outcome, v.reason, v.message = item.GivenBack, reasonGivenBack, clean(ended.Error())
		return v
	}
	for _, kind := range []func(error, *verdict) bool{ofCrash, ofRegistry, ofAdapter, ofFilter, ofReports} {
		if kind(err, &v) {
			return v
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		v.reason = reasonTimeout
	}
	return v
}

func ofCrash(err error, v *verdict) bool {
	crash, ok := errors.AsType[*adapter.CrashError](err)
	if !ok {
		return false
	}
	v.outcome, v.reason = item.Crashed, crash.Reason
	if crash.PeakBytes > 0 {
		v.message = clean(fmt.Sprintf("%s, with %d MiB of memory at most", v.message, crash.PeakBytes>>20))
	}
	return true
}

// ofRegistry: a refusal of one repository is the error of that repository; that nobody is let in concerns the Registry.
func ofRegistry(err error, v *verdict) bool {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		v.outcome, v.reason = item.Refused, refused.reason
		return true
	}
	e, ok := errors.AsType[*distribution.Error](err)
	if !ok {
		return false
	}
	v.reason, v.notBefore = string(e.Reason), e.NotBefore
	switch e.Reason {
	case distribution.Unauthorized, distribution.HostNotAllowed:
		v.outcome = item.Refused
	case distribution.Forbidden, distribution.NotFound, distribution.RepositoryGone, distribution.CatalogForbidden, distribution.CatalogNotSupported:
		v.outcome = item.Broken
	case distribution.RateLimited:
		v.outcome = item.Throttled
	case distribution.TLSFailed, distribution.NameNotResolved, distribution.Unreachable, distribution.NoRegistry:
	}
	return true
}

// unscannable are the codes of what can never be looked at.
var unscannable = []protocol.Code{protocol.NotAnImage, protocol.Unsupported, protocol.TooLarge, protocol.TooManyFiles, protocol.RatioExceeded}

func ofAdapter(err error, v *verdict) bool {
	e, ok := errors.AsType[*protocol.Error](err)
	if !ok {
		return false
	}
	v.reason, v.retryAfter = string(e.Code), e.RetryAfter()
	switch {
	case slices.Contains(unscannable, e.Code):
		v.outcome = item.Unscannable
	case e.Code == protocol.Unauthorized:
		v.outcome = item.Refused
	case e.Code == protocol.RateLimited:
		v.outcome = item.Throttled
	case !e.Retryable && e.Code != protocol.Cancelled:
		v.outcome = item.Broken
	}
	return true
}

func ofFilter(err error, v *verdict) bool {
	e, ok := errors.AsType[*filter.Error](err)
	if ok {
		v.outcome, v.reason = item.Broken, string(e.Code)
	}
	return ok
}

func ofReports(err error, v *verdict) bool {
	if reportsclient.IsUnavailable(err) {
		v.reason = reasonReportsUnavailable
		return true
	}
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return false
	}
	reason := reportsclient.ReasonOf(err)
	switch {
	case reason == reportsv1.ReasonTooLarge:
		v.outcome, v.reason = item.Unscannable, reason
	case reason == reportsv1.ReasonNotSPDX, reason == reportsv1.ReasonNotFindings:
		v.outcome, v.reason = item.Broken, reason
	case apierrors.IsNotFound(status):
		v.dropped = true
	case apierrors.IsConflict(status):
		v.reason = reasonConflict
	case reason != "":
		v.reason = reason
	case status.ErrStatus.Reason != "":
		v.reason = string(status.ErrStatus.Reason)
	}
	return true
}

// maxMessage is how long a message for people may be.
const maxMessage = 1024

// clean makes a text fit for a status: what strangers wrote has no control or direction characters there.
func clean(text string) string {
	runes := []rune(strings.ToValidUTF8(text, "�"))
	for i, r := range runes {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			runes[i] = ' '
		}
	}
	return string(runes[:min(len(runes), maxMessage)])
}

// waitUntil is how long to wait from now on by what the other side asks for; 0: nothing.
func (v verdict) waitUntil(now time.Time) time.Duration {
	if v.notBefore.After(now) {
		return v.notBefore.Sub(now)
	}
	return v.retryAfter
}
