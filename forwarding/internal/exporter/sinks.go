// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/delivery"
	"github.com/scanyard/scanyard/forwarding/internal/discreet"
	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/internal/sinkurl"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// sinkSet are the sinks that are served. They may be others later, while the program runs.
type sinkSet struct {
	p *program

	mu     sync.Mutex
	served map[string]*servedSink
	order  []string
}

// servedSink is one sink with its worker.
type servedSink struct {
	target sinkurl.Sink
	sink   sink.Sink
	worker *delivery.Worker
	stop   context.CancelFunc
	ended  chan struct{}
}

// open makes the sinks that are new or others than before. It changes nothing that runs.
func (s *sinkSet) open(targets []sinkurl.Sink) ([]*servedSink, error) {
	var all []*servedSink
	for _, target := range targets {
		if known := s.get(target.Config.Name); known != nil && reflect.DeepEqual(known.target, target) {
			all = append(all, known)
			continue
		}
		config := target.Config
		config.ClusterID, config.Version, config.Expires = s.p.s.clusterID, s.p.o.Version, s.p.metrics.expires(target.Config.Name)
		opened, err := discreet.Open(config)
		if err != nil {
			return nil, errors.Join(&usageError{err}, closeUnserved(all))
		}
		all = append(all, &servedSink{target: target, sink: opened})
	}
	return all, nil
}

// closeUnserved closes the sinks that no worker has.
func closeUnserved(all []*servedSink) (err error) {
	for _, one := range all {
		if one.worker == nil {
			err = errors.Join(err, one.sink.Close())
		}
	}
	return err
}

// apply serves these sinks and no others, until ctx ends.
func (s *sinkSet) apply(ctx context.Context, all []*servedSink, failed chan<- error) error {
	names := make([]string, 0, len(all))
	for _, one := range all {
		names = append(names, one.target.Config.Name)
	}
	if err := s.p.queue.SetSinks(names); err != nil {
		return errors.Join(err, closeUnserved(all))
	}
	s.mu.Lock()
	before := s.served
	s.served, s.order = map[string]*servedSink{}, names
	for _, one := range all {
		s.served[one.target.Config.Name] = one
	}
	s.mu.Unlock()
	var err error
	for name, one := range before {
		if s.get(name) != one {
			err = errors.Join(err, one.end())
		}
	}
	for _, one := range all {
		if one.worker == nil {
			s.start(ctx, one, failed)
		}
	}
	return err
}

func (s *sinkSet) start(ctx context.Context, one *servedSink, failed chan<- error) {
	p, target := s.p, one.target
	bounds := retry.Bounds{Initial: orElse(target.RetryInitial, p.s.retryInitial), Max: orElse(target.RetryMax, p.s.retryMax)}
	worker := delivery.New(delivery.Options{
		Name: target.Config.Name, Sink: one.sink, Queue: p.queue, ClusterID: p.s.clusterID, MaxRecords: target.MaxRecords, MaxBytes: int64(target.MaxBytes),
		Timeout: target.Config.Timeout, Retry: bounds, Now: p.o.Now, Log: p.log, Observe: p.metrics,
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	s.mu.Lock()
	one.worker, one.stop, one.ended = worker, stop, ended
	s.mu.Unlock()
	go func() {
		defer close(ended)
		if err := worker.Run(running); err != nil {
			failed <- err
		}
	}()
}

// end stops the worker, waits for the call that is under way, and closes the sink.
func (one *servedSink) end() error {
	if one.stop != nil {
		one.stop()
		<-one.ended
	}
	return one.sink.Close()
}

// close ends all.
func (s *sinkSet) close() (err error) {
	for _, name := range s.names() {
		err = errors.Join(err, s.get(name).end())
	}
	return err
}

func (s *sinkSet) get(name string) *servedSink {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served[name]
}

// names are those of the sinks, in the order in which they were given.
func (s *sinkSet) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order
}

// state tells how it goes with a tenant at a sink.
func (s *sinkSet) state(name, tenant string) delivery.State {
	s.mu.Lock()
	one := s.served[name]
	var worker *delivery.Worker
	if one != nil {
		worker = one.worker
	}
	s.mu.Unlock()
	if worker == nil {
		return delivery.State{Health: delivery.Unknown}
	}
	return worker.State(tenant)
}

func orElse(value, other time.Duration) time.Duration {
	if value != 0 {
		return value
	}
	return other
}
