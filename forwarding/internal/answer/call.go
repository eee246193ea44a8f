// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Done is the class of an answer that means delivered.
const Done sink.Class = "done"

// maxPause bounds what a far end may ask for.
const maxPause = 10 * time.Minute

// Call says what an error of a call by gRPC means. greeting is true before records are sent: then nothing is a fault of theirs.
func Call(err error, dialer *trust.Client, greeting bool) *sink.Error {
	if known, ok := errors.AsType[*sink.Error](err); ok {
		return known
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if reason := dialer.Reason(); reason != nil {
			return reason
		}
		return &sink.Error{Class: sink.Transport, Reason: sink.Timeout, Message: err.Error()}
	}
	if errors.Is(err, io.EOF) {
		return &sink.Error{Class: sink.Transport, Reason: sink.Disconnected, Message: "the far end ended the stream"}
	}
	said := status.Convert(err)
	e := &sink.Error{Class: sink.Transport, Reason: sink.Disconnected, Message: said.Code().String() + ": " + Words(said.Message())}
	var conflict bool
	for _, detail := range said.Details() {
		switch detail := detail.(type) {
		case *errdetails.RetryInfo:
			e.RetryAfter = min(detail.GetRetryDelay().AsDuration(), maxPause)
		case *errdetails.ErrorInfo:
			conflict = conflict || detail.GetReason() == forwardingv1.ErrorConflict
			if detail.GetReason() == forwardingv1.ErrorVersionNotSupported {
				e.Message = fmt.Sprintf("the receiver does not have wire version %s: it has %s", forwardingv1.Version, Words(detail.GetMetadata()["supported"]))
			}
		}
	}
	classify(e, said.Code(), dialer, greeting, conflict)
	return e
}

// classify is the table of codes.
func classify(e *sink.Error, code codes.Code, dialer *trust.Client, greeting, conflict bool) {
	switch code {
	case codes.Unauthenticated:
		e.Class, e.Reason = sink.Auth, sink.TokenRejected
		if unread := dialer.Unread(); unread != nil {
			*e = *unread
		}
	case codes.PermissionDenied:
		e.Class, e.Reason = sink.Auth, sink.PermissionDenied
	case codes.Unimplemented, codes.NotFound, codes.FailedPrecondition:
		e.Class, e.Reason = sink.Incompatible, sink.NotCompatible
	case codes.InvalidArgument, codes.OutOfRange:
		e.Class, e.Reason = sink.Refused, sink.RecordsRejected
		if greeting {
			e.Class, e.Reason = sink.Incompatible, sink.NotCompatible
		}
	case codes.AlreadyExists:
		e.Class, e.Reason = Done, sink.Unknown
		if conflict {
			e.Class, e.Reason = sink.Refused, sink.ResultsChanged
		}
	case codes.ResourceExhausted:
		e.Class, e.Reason = sink.Overload, sink.Overloaded
	case codes.Unavailable:
		if e.RetryAfter > 0 {
			e.Class, e.Reason = sink.Overload, sink.Overloaded
		} else if reason := dialer.Reason(); reason != nil {
			*e = *reason
		}
	case codes.DeadlineExceeded:
		e.Reason = sink.Timeout
		if reason := dialer.Reason(); reason != nil {
			*e = *reason
		}
	default:
	}
}
