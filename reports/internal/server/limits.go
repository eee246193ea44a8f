// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/utils/clock"

	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
)

const retryBusy = 1 // seconds

// refuse answers with a Status.
func refuse(w http.ResponseWriter, req *http.Request, serializer runtime.NegotiatedSerializer, err error) {
	responsewriters.ErrorNegotiated(err, serializer, schema.GroupVersion{}, w, req)
}

// bounds count what is in work.
type bounds struct {
	limits   Limits
	observer Observer

	mu      sync.Mutex
	bytes   int64
	watches int
	byUser  map[string]int
}

func newBounds(limits Limits, observer Observer) *bounds {
	return &bounds{limits: limits, observer: observer, byUser: map[string]int{}}
}

// withBodies refuses a request before its body is read where too many bytes are in work. A body of unknown length counts
// as the largest that is allowed.
func (b *bounds) withBodies(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		size := req.ContentLength
		if info, ok := request.RequestInfoFrom(req.Context()); ok && streamed(info) {
			handler.ServeHTTP(w, req) // its body never lies in memory, and has bounds of its own
			return
		}
		switch {
		case size == 0 || req.Body == nil || req.Body == http.NoBody:
			handler.ServeHTTP(w, req)
			return
		case size > b.limits.RequestBytes:
			refuse(w, req, serializer, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", b.limits.RequestBytes)))
			return
		case size < 0:
			size = b.limits.RequestBytes
		}
		if !b.take(size) {
			b.observer.Refused("bytes")
			refuse(w, req, serializer, apierrors.NewTooManyRequests("the bodies of requests in work take too much memory", retryBusy))
			return
		}
		defer b.give(size)
		handler.ServeHTTP(w, req)
	})
}

func (b *bounds) take(size int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes+size > max(b.limits.InflightBytes, b.limits.RequestBytes) {
		return false
	}
	b.bytes += size
	return true
}

// streamed tells whether a request is for a sub-resource whose documents pass through in chunks.
func streamed(info *request.RequestInfo) bool {
	if info.APIGroup != kinds.Scanyard.Group {
		return false
	}
	switch info.Resource + "/" + info.Subresource {
	case "sboms/document", "vulnerabilityreports/findings", "vulnerabilityreports/sarif", "repositories/tags", "vulnerabilitydatabases/changes":
		return true
	}
	return false
}

func (b *bounds) give(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= size
}

// passage knows whether a request has come past the library's bound of requests at once, which lies in the chain of handlers
// before authorisation and tells nobody whom it refuses.
type passage struct {
	http.ResponseWriter

	passed atomic.Bool // set by another goroutine where the time of a request is bounded
	code   int
}

var _ responsewriter.UserProvidedDecorator = &passage{}

type passageKey struct{}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (p *passage) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (p *passage) WriteHeader(code int) {
	p.code = code
	p.ResponseWriter.WriteHeader(code)
}

// countRefused counts requests that were refused because of too many others before they came to notePassed.
func (b *bounds) countRefused(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p := &passage{ResponseWriter: w}
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(p), req.WithContext(context.WithValue(req.Context(), passageKey{}, p)))
		if p.code == http.StatusTooManyRequests && !p.passed.Load() {
			b.observer.Refused("inflight")
		}
	})
}

// notePassed notes that a request has come past the bounds of the library.
func notePassed(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if p, ok := req.Context().Value(passageKey{}).(*passage); ok {
			p.passed.Store(true)
		}
		handler.ServeHTTP(w, req)
	})
}

// withWatches bounds the watches of all users and of each.
func (b *bounds) withWatches(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || info.Verb != "watch" {
			handler.ServeHTTP(w, req)
			return
		}
		name := ""
		if user, ok := request.UserFrom(req.Context()); ok {
			name = user.GetName()
		}
		if !b.join(name) {
			b.observer.Refused("watches")
			refuse(w, req, serializer, apierrors.NewTooManyRequests("too many watches are open", retryBusy))
			return
		}
		defer b.leave(name)
		stalling := &stalling{ResponseWriter: w, control: http.NewResponseController(w), most: b.limits.WatchStall, stalled: sync.OnceFunc(b.observer.Stalled)}
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(stalling), req)
	})
}

// stalling ends a response whose client takes nothing: a write that waits for too long fails, and with it the request. Without that
// such a client would hold its watch, and the events that are decoded for it, for as long as its connection is there.
type stalling struct {
	http.ResponseWriter

	control *http.ResponseController
	most    time.Duration
	stalled func() // is called when a write has waited for too long
}

var (
	_ responsewriter.UserProvidedDecorator = &stalling{}
	_ http.Flusher                         = &stalling{}
)

// Unwrap implements responsewriter.UserProvidedDecorator.
func (s *stalling) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Write implements http.ResponseWriter.
func (s *stalling) Write(p []byte) (int, error) {
	var n int
	err := s.bounded(func() (err error) {
		n, err = s.ResponseWriter.Write(p)
		return err
	})
	return n, err
}

// Flush implements http.Flusher.
func (s *stalling) Flush() {
	_ = s.bounded(s.control.Flush) // the next write fails, too
}

// bounded bounds how long a write waits for the client. Between writes nothing is bounded: HTTP/2 ends a stream whose time has passed
// even if nothing waits. What has failed when its time was over has failed because of that: HTTP/2 says only that the stream is closed.
func (s *stalling) bounded(write func() error) error {
	deadline := clock.RealClock{}.Now().Add(s.most)
	// A connection that knows no deadlines has no bound.
	_ = s.control.SetWriteDeadline(deadline)
	defer func() { _ = s.control.SetWriteDeadline(time.Time{}) }()
	err := write()
	if err != nil && !(clock.RealClock{}).Now().Before(deadline) {
		s.stalled()
	}
	return err
}

func (b *bounds) join(user string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watches >= b.limits.Watches || b.byUser[user] >= b.limits.UserWatches {
		return false
	}
	b.watches++
	b.byUser[user]++
	return true
}

func (b *bounds) leave(user string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watches--
	if b.byUser[user]--; b.byUser[user] == 0 {
		delete(b.byUser, user)
	}
}

// withoutImpersonation refuses what only kube-apiserver decides. Its proxy does not send these headers on.
func withoutImpersonation(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for name := range req.Header {
			if strings.HasPrefix(strings.ToLower(name), "impersonate-") {
				refuse(w, req, serializer, apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("the header %s is for kube-apiserver only", name)))
				return
			}
		}
		handler.ServeHTTP(w, req)
	})
}

// transforms are the answers that are made from an object without its payload.
type transforms struct{}

// AllowsMediaTypeTransform implements negotiation.EndpointRestrictions.
func (transforms) AllowsMediaTypeTransform(_, _ string, to *schema.GroupVersionKind) bool {
	return to == nil || to.Group == metav1.GroupName
}

// AllowsServerVersion implements negotiation.EndpointRestrictions.
func (transforms) AllowsServerVersion(string) bool { return false }

// AllowsStreamSchema implements negotiation.EndpointRestrictions.
func (transforms) AllowsStreamSchema(schema string) bool { return schema == "watch" }

// withHeadOnly has reads that are answered with a table or with metadata leave payloads in the database.
func withHeadOnly(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if ok && info.IsResourceRequest && (info.Verb == "get" || info.Verb == "list" || info.Verb == "watch") && showsHead(req, serializer) {
			req = req.WithContext(sqlstorage.WithHeadOnly(req.Context()))
		}
		handler.ServeHTTP(w, req)
	})
}

func showsHead(req *http.Request, serializer runtime.NegotiatedSerializer) bool {
	options, ok := negotiation.NegotiateMediaTypeOptions(req.Header.Get("Accept"), serializer.SupportedMediaTypes(), transforms{})
	if !ok || options.Convert == nil {
		return false
	}
	whole := req.URL.Query().Get("includeObject") == string(metav1.IncludeObject)
	return options.Convert.Kind != "Table" || !whole
}
