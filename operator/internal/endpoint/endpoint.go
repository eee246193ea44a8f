// SPDX-License-Identifier: Apache-2.0

// Package endpoint is the HTTPS server that pods of Scans and the forwarder call. Handlers of other packages answer the calls.
//
// The package authenticates callers by a token that the API server has issued for one audience, and bounds concurrent calls.
package endpoint

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// AnswerTimeout bounds how long a handler works on one answer.
	AnswerTimeout = 30 * time.Second

	readTimeout    = 10 * time.Second
	shutdownPeriod = 5 * time.Second
	maxToken       = 16 << 10
)

// Server is a Runnable of a manager and runs on every replica.
type Server struct {
	listener net.Listener
	cert     tls.Certificate
	handlers map[string]http.Handler
}

// NewServer returns a Server that serves POST requests on a listener, with a handler for each path.
func NewServer(l net.Listener, cert tls.Certificate, handlers map[string]http.Handler) *Server {
	return &Server{listener: l, cert: cert, handlers: handlers}
}

// NeedLeaderElection is false: every replica serves.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	mux := http.NewServeMux()
	for path, h := range s.handlers {
		mux.Handle("POST "+path, h)
	}
	h := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: AnswerTimeout + readTimeout,
		MaxHeaderBytes: 2 * maxToken,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		TLSConfig:      &tls.Config{Certificates: []tls.Certificate{s.cert}, MinVersion: tls.VersionTLS12},
	}
	stopped := make(chan error, 1)
	go func() { stopped <- h.ServeTLS(s.listener, "", "") }()
	log.FromContext(ctx).Info("Serving upload URLs and results", "address", s.listener.Addr().String())
	select {
	case err := <-stopped:
		return fmt.Errorf("serve upload URLs and results: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownPeriod)
	defer cancel()
	return h.Shutdown(end)
}

// Slots bound concurrent calls.
type Slots chan struct{}

// Take takes a slot and returns the function that releases it; false: no slot is free.
func (s Slots) Take() (release func(), ok bool) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, true
	default:
		return nil, false
	}
}

// Authenticate returns the user whose bearer token a request has, as the API server knows the user; false: the token is not valid for the
// audience. Review creates TokenReviews.
func Authenticate(ctx context.Context, review client.Writer, req *http.Request, audience string) (*authenticationv1.UserInfo, bool, error) {
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" || len(token) > maxToken {
		return nil, false, nil
	}
	r := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}}}
	if err := review.Create(ctx, r); err != nil {
		return nil, false, fmt.Errorf("review token: %w", err)
	}
	return &r.Status.User, r.Status.Authenticated && slices.Contains(r.Status.Audiences, audience), nil
}
