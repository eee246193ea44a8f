// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// Together these bound how long it takes to notice an outage of storage: Scans that wait for the
	// storage must say so within 15 s.
	checkEvery   = 5 * time.Second
	checkTimeout = 5 * time.Second
	// staleAfter is the age from which the last check is not believed any more.
	staleAfter = 3 * checkEvery
)

// errUnchecked is the error of a Monitor before its first check has ended.
var errUnchecked = errors.New("object storage has not been checked yet")

// Monitor checks at regular intervals whether the storage can be used, so that a probe gets its
// result at once. It is a Runnable of a manager.
type Monitor struct {
	check func(context.Context) error
	clock clock.WithTicker

	mu      sync.Mutex
	err     error
	at      time.Time
	changed []func()
}

// NewMonitor returns a Monitor of a Store.
func NewMonitor(s *Store, c clock.WithTicker) *Monitor {
	return &Monitor{check: s.Check, clock: c, err: errUnchecked}
}

// Start checks until the context ends.
func (m *Monitor) Start(ctx context.Context) error {
	ticker := m.clock.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		m.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// NeedLeaderElection is false: each replica checks for itself.
func (m *Monitor) NeedLeaderElection() bool { return false }

func (m *Monitor) look(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := m.check(bounded)
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	before := m.err
	m.err, m.at = err, m.clock.Now()
	callbacks := m.changed
	m.mu.Unlock()
	if isOutage(err) != isOutage(before) {
		for _, f := range callbacks {
			f()
		}
	}
	switch {
	case err != nil && (before == nil || errors.Is(before, errUnchecked)):
		log.FromContext(ctx).Error(err, "Object storage cannot be used; Scans wait until it can")
	case err == nil && before != nil:
		log.FromContext(ctx).Info("Object storage can be used")
	}
}

// Outage returns why the storage could not be used at the last check; nil if it could be used, or was
// not checked yet.
func (m *Monitor) Outage() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !isOutage(m.err) {
		return nil
	}
	return m.err
}

// OnChange has f called whenever the result of Outage changes.
func (m *Monitor) OnChange(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed = append(m.changed, f)
}

func isOutage(err error) bool { return err != nil && !errors.Is(err, errUnchecked) }

// Healthz returns an error if the storage could not be used a moment ago. It is a healthz.Checker.
func (m *Monitor) Healthz(*http.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	if age := m.clock.Since(m.at); age > staleAfter {
		return fmt.Errorf("object storage was last checked %s ago", age.Round(time.Second))
	}
	return nil
}
