// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/scanyard/scanyard/reports/internal/mvcc"
)

const (
	pingEvery   = 2 * time.Second
	pingTimeout = 2 * time.Second
	// failedPings is how many failures in a row make the server not ready.
	failedPings = 2
	retryOther  = 1 // seconds after which a client asks another replica
)

var (
	errAway     = errors.New("the database does not answer")
	errStopping = errors.New("the server is being stopped")
)

// health knows whether the database answers, and whether the server is to stop.
type health struct {
	store    *mvcc.Store
	failures atomic.Int32
	stopping atomic.Bool
}

var _ healthz.HealthChecker = &health{}

func newHealth(store *mvcc.Store) *health { return &health{store: store} }

// Name implements healthz.HealthChecker.
func (*health) Name() string { return "database" }

// Check implements healthz.HealthChecker. It answers from memory.
func (h *health) Check(*http.Request) error {
	switch {
	case h.stopping.Load():
		return errStopping
	case h.failures.Load() >= failedPings:
		return errAway
	}
	return nil
}

// watch asks the database over and over, and ends the server where the database has been replaced.
func (h *health) watch(ctx context.Context) error {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-h.store.Failed():
			return err
		case <-ticker.C:
			h.ping(ctx)
		}
	}
}

func (h *health) ping(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := h.store.Ping(ctx); err != nil {
		h.failures.Add(1)
		return
	}
	h.failures.Store(0)
}

// refuseWhenStopping sends clients to another replica.
func (h *health) refuseWhenStopping(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !h.stopping.Load() || req.URL.Path == "/livez" || req.URL.Path == "/readyz" || req.URL.Path == "/healthz" {
			handler.ServeHTTP(w, req)
			return
		}
		err := apierrors.NewServiceUnavailable(errStopping.Error())
		err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryOther}
		w.Header().Set("Connection", "close")
		refuse(w, req, serializer, err)
	})
}
