// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/delivery"
	"github.com/scanyard/scanyard/forwarding/internal/intake"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// program is one run of the exporter over one opened queue.
type program struct {
	o           Options
	s           *settings
	log         *slog.Logger
	metrics     *metrics
	quarantined int

	queue   *queue.Queue
	workers map[string]*delivery.Worker
	order   []string // names of the sinks as they were given
	filling *filling

	mu    sync.Mutex
	ready bool
}

func newProgram(o Options, s *settings, log *slog.Logger, quarantined int) *program {
	p := &program{o: o, s: s, log: log, workers: map[string]*delivery.Worker{}, quarantined: quarantined, filling: &filling{}}
	p.metrics = newMetrics(p)
	return p
}

// run serves until ctx ends; again: the queue is damaged, and is to be opened anew.
func (p *program) run(ctx context.Context) (again bool, err error) {
	sinks, err := p.openSinks()
	if err != nil {
		return false, err
	}
	defer func() {
		for _, s := range sinks {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := p.openQueue(); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.queue.Close()) }()
	return p.serve(ctx, sinks)
}

func (p *program) openSinks() (sinks []sink.Sink, err error) {
	for _, target := range p.s.targets {
		config := target.Config
		config.ClusterID, config.Version = p.s.clusterID, p.o.Version
		opened, err := sink.Open(config)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--sink: %w", err)}
		}
		sinks = append(sinks, opened)
		p.order = append(p.order, config.Name)
	}
	return sinks, nil
}

func (p *program) openQueue() error {
	q, err := queue.Open(queue.Options{
		Dir: p.s.dir, MaxBytes: int64(p.s.queueMax), TenantMaxBytes: int64(p.s.tenantMax), DiskReserve: int64(p.s.reserve), OnFull: queue.Policy(p.s.onFull),
		SyncInterval: p.s.interval, Quarantine: p.s.onDamage == "quarantine", Sinks: p.order, Now: p.o.Now, Log: p.log,
	})
	if err != nil {
		return err
	}
	if q.Quarantined != "" {
		p.quarantined++
	}
	p.queue = q
	return nil
}

// serve starts everything, waits, and ends it in the order that loses nothing.
func (p *program) serve(ctx context.Context, sinks []sink.Sink) (again bool, err error) {
	delivering, stopDelivery := context.WithCancel(context.WithoutCancel(ctx))
	taking, stopTaking := context.WithCancel(ctx)
	failed := make(chan error, 8)
	var deliverers, takers sync.WaitGroup
	defer func() {
		stopTaking()
		takers.Wait()
		stopDelivery()
		deliverers.Wait()
	}()
	for i, target := range p.s.targets {
		bounds := retry.Bounds{Initial: orElse(target.RetryInitial, p.s.retryInitial), Max: orElse(target.RetryMax, p.s.retryMax)}
		worker := delivery.New(delivery.Options{
			Name: target.Config.Name, Sink: sinks[i], Queue: p.queue, ClusterID: p.s.clusterID, MaxRecords: target.MaxRecords, MaxBytes: int64(target.MaxBytes),
			Timeout: target.Config.Timeout, Retry: bounds, Now: p.o.Now, Log: p.log, Observe: p.metrics,
		})
		p.workers[target.Config.Name] = worker
	}
	socket, err := intake.Listen(ctx, p.s.socket, p.s.access, intake.Options{
		Queue: p.queue, Tenant: p.s.tenant, ByNamespace: p.s.tenantFrom == "resourceNamespace", RejectWhenFull: p.s.onFull == string(queue.Reject),
		MaxLineBytes: int(p.s.maxLine), Now: p.o.Now, Log: p.log, Observe: p.metrics,
	})
	if err != nil {
		return false, err
	}
	takers.Go(func() {
		if err := socket.Serve(taking); err != nil {
			failed <- err
		}
	})
	address, err := p.listenHTTP(taking, &takers, failed)
	if err != nil {
		return false, err
	}
	if err := p.serveAdmin(taking, &takers, failed); err != nil {
		return false, err
	}
	for _, worker := range p.workers {
		deliverers.Go(func() {
			if err := worker.Run(delivering); err != nil {
				failed <- err
			}
		})
	}
	takers.Go(func() { p.filling.watch(taking, p) })
	p.setReady(true)
	if err := p.announce(address); err != nil {
		return false, err
	}
	select {
	case err := <-failed:
		return false, err
	case <-p.queue.Damaged():
		if p.s.onDamage == "fail" {
			return false, &queue.DamagedError{Dir: p.s.dir, Err: errors.New("a frame cannot be read")}
		}
		p.log.Error("the queue is damaged; it is opened anew")
		return true, nil
	case <-ctx.Done():
	}
	p.setReady(false)
	stopTaking()
	takers.Wait() // everything that was read is synced and acknowledged now
	p.drain(ctx)
	return false, nil
}

func orElse(value, other time.Duration) time.Duration {
	if value != 0 {
		return value
	}
	return other
}

func (p *program) setReady(ready bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = ready
}

func (p *program) isReady() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// drain delivers until the queue is empty or the time is over, and logs what is left.
func (p *program) drain(ctx context.Context) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.s.shutdownTimeout)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for p.queue.Usage().Records > 0 && bounded.Err() == nil {
		select {
		case <-ticker.C:
		case <-bounded.Done():
		}
	}
	p.log.Info("the exporter ends", "left", p.queue.Usage().Records)
}

// announce prints where the program listens, as one line.
func (p *program) announce(httpAddress string) error {
	if !p.s.printAddress {
		return nil
	}
	line, err := json.Marshal(struct {
		Program string         `json:"program"`
		PID     int            `json:"pid"`
		Socket  string         `json:"socket"`
		GRPC    string         `json:"grpc"`
		HTTP    string         `json:"http"`
		Queue   map[string]any `json:"queue"`
	}{"exporter", os.Getpid(), p.s.socket, "", httpAddress, map[string]any{"id": p.queue.ID(), "records": p.queue.Usage().Records, "durable": p.queue.Durable()}})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.o.Out, "%s\n", line)
	return err
}

// listenHTTP starts the door. Its address stays the same when the program is started anew inside.
func (p *program) listenHTTP(ctx context.Context, all *sync.WaitGroup, failed chan<- error) (string, error) {
	if p.s.httpListen == "" {
		return "", nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.s.httpListen)
	if err != nil {
		return "", usage("--http-listen: %w", err)
	}
	p.s.httpListen = listener.Addr().String()
	p.serveHTTP(ctx, listener, p.door(), all, failed)
	return p.s.httpListen, nil
}

func (p *program) serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler, all *sync.WaitGroup, failed chan<- error) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	all.Go(func() {
		stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // answers that are cut are asked for again
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	})
}

// serveAdmin answers the commands over the queue.
func (p *program) serveAdmin(ctx context.Context, all *sync.WaitGroup, failed chan<- error) error {
	path := filepath.Join(p.s.dir, adminSocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	p.serveHTTP(ctx, listener, adminHandler(p.queue, p.state), all, failed)
	return nil
}

func (p *program) state(sinkName, tenant string) delivery.State {
	if w := p.workers[sinkName]; w != nil {
		return w.State(tenant)
	}
	return delivery.State{Health: delivery.Unknown}
}
