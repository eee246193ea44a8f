// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/tenancy"
)

const (
	// askReports is how often the reports API is asked whether it is there.
	askReports     = 10 * time.Second
	reportsTimeout = 5 * time.Second
	mostWoken      = 4096
)

// state is what reconcilers share: what is away.
type state struct {
	client  client.Client
	reports client.Client
	log     logr.Logger
	changed chan event.GenericEvent

	mu                     sync.Mutex
	reportsAway, queueAway string
	asked                  bool
}

func newState(cached, reports client.Client, log logr.Logger) *state {
	return &state{
		client: cached, reports: reports, log: log, changed: make(chan event.GenericEvent, mostWoken),
		reportsAway: "the reports API has not been asked yet", queueAway: "the queue of work has not been started yet",
	}
}

// away tells what is wrong with the reports API and the queue.
func (s *state) away() (reports, queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reportsAway, s.queueAway
}

// isReady is /readyz: the reports API answers.
func (s *state) isReady() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reportsAway != "" {
		return fmt.Errorf("%s", s.reportsAway)
	}
	return nil
}

func (s *state) setQueue(ctx context.Context, why string) {
	s.mu.Lock()
	same := s.queueAway == why
	s.queueAway = why
	s.mu.Unlock()
	if !same {
		s.wakeAll(ctx)
	}
}

// watchReports asks the reports API until ctx ends.
func (s *state) watchReports(ctx context.Context, every <-chan time.Time) {
	for {
		why := s.askReports(ctx)
		s.mu.Lock()
		same := s.asked && s.reportsAway == why
		s.reportsAway, s.asked = why, true
		s.mu.Unlock()
		if !same {
			s.wakeAll(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-every:
		}
	}
}

func (s *state) askReports(ctx context.Context) string {
	within, cancel := context.WithTimeout(ctx, reportsTimeout)
	defer cancel()
	err := s.reports.List(within, &reportsv1.VulnerabilityDatabaseList{}, client.Limit(1))
	switch {
	case err == nil:
		return ""
	case meta.IsNoMatchError(err):
		return "there is no API reports.scanyard.io/v1alpha1: install the chart reports"
	default:
		return "the reports API does not answer; look at the APIService v1alpha1.reports.scanyard.io"
	}
}

// lookForSettings is how often it is looked whether the kinds of settings are served by now.
const lookForSettings = 30 * time.Second

// settingsWatch has all Registries looked at when settings change; their changed conditions wake the jobs.
type settingsWatch struct {
	source *tenancy.Source
	state  *state
	clock  clock.WithTicker
}

// NeedLeaderElection has the manager start this on the leader.
func (w *settingsWatch) NeedLeaderElection() bool { return true }

// Start watches until ctx ends.
func (w *settingsWatch) Start(ctx context.Context) error {
	ticker := w.clock.NewTicker(lookForSettings)
	defer ticker.Stop()
	return w.source.Watch(ctx, ticker.C(), w.state.wakeAll)
}

// wakeAll has all Registries looked at; their changed conditions wake the jobs.
func (s *state) wakeAll(ctx context.Context) {
	list := &registryv1alpha1.RegistryList{}
	if err := s.client.List(ctx, list); err != nil {
		s.log.Error(err, "List Registries")
		return
	}
	for i := range list.Items {
		select {
		case s.changed <- event.GenericEvent{Object: &list.Items[i]}:
		case <-ctx.Done():
			return
		}
	}
}
