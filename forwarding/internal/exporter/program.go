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
	"sync/atomic"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/intake"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/internal/sinkurl"
)

// program is one run of the exporter over one opened queue.
type program struct {
	o           Options
	s           *settings
	watcher     *watcher
	log         *slog.Logger
	metrics     *metrics
	quarantined int

	queue   *queue.Queue
	sinks   *sinkSet
	filling *filling
	takers  sync.WaitGroup // what takes records in, and what answers
	failed  chan error     // what the program cannot go on after

	configValid atomic.Bool

	mu    sync.Mutex
	ready bool
}

func newProgram(o Options, s *settings, w *watcher, log *slog.Logger, quarantined int) *program {
	p := &program{o: o, s: s, watcher: w, log: log, quarantined: quarantined, filling: &filling{}, failed: make(chan error, 16)}
	p.configValid.Store(true)
	p.sinks = &sinkSet{p: p}
	p.metrics = newMetrics(p)
	return p
}

// run serves until ctx ends; again: the queue is damaged, and is to be opened anew.
func (p *program) run(ctx context.Context) (again bool, err error) {
	sinks, err := p.sinks.open(p.s.targets)
	if err != nil {
		return false, err
	}
	if err := p.openQueue(sinks); err != nil {
		return false, errors.Join(err, closeUnserved(sinks))
	}
	defer func() { err = errors.Join(err, p.queue.Close()) }()
	return p.serve(ctx, sinks)
}

func (p *program) openQueue(sinks []*servedSink) error {
	names := make([]string, 0, len(sinks))
	for _, one := range sinks {
		names = append(names, one.target.Config.Name)
	}
	q, err := queue.Open(queue.Options{
		Dir: p.s.dir, MaxBytes: int64(p.s.queueMax), TenantMaxBytes: int64(p.s.tenantMax), DiskReserve: int64(p.s.reserve), OnFull: queue.Policy(p.s.onFull),
		SyncInterval: p.s.interval, Quarantine: p.s.onDamage == "quarantine", Sinks: names, Now: p.o.Now, Log: p.log,
		Committed: p.metrics.Committed, Keys: p.s.keys,
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

func (p *program) intakeOptions() intake.Options {
	return intake.Options{
		Queue: p.queue, Tenant: p.s.tenant, ByNamespace: p.s.tenantFrom == "resourceNamespace", RejectWhenFull: p.s.onFull == string(queue.Reject),
		Volatile: p.s.volatile, MaxLineBytes: int(p.s.maxLine), Now: p.o.Now, Log: p.log, Observe: p.metrics,
	}
}

// serve starts everything, waits, and ends it in the order that loses nothing.
func (p *program) serve(ctx context.Context, sinks []*servedSink) (again bool, err error) {
	delivering, stopDelivery := context.WithCancel(context.WithoutCancel(ctx))
	taking, stopTaking := context.WithCancel(ctx)
	defer func() {
		stopTaking()
		p.takers.Wait()
		stopDelivery()
		err = errors.Join(err, p.sinks.close())
	}()
	if err := p.sinks.apply(delivering, sinks, p.failed); err != nil {
		return false, err
	}
	for _, listen := range []func(context.Context) error{p.serveSocket, p.serveGRPC, p.serveAudit, p.serveDoor, p.serveAdmin} {
		if err := listen(taking); err != nil {
			return false, err
		}
	}
	p.takers.Go(func() { p.filling.watch(taking, p) })
	if p.s.config != "" {
		p.takers.Go(func() {
			p.watcher.watch(taking, func(targets []sinkurl.Sink) error { return p.replaceSinks(delivering, targets) }, p.configValid.Store)
		})
	}
	p.setReady(true)
	if err := p.announce(); err != nil {
		return false, err
	}
	select {
	case err := <-p.failed:
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
	p.takers.Wait() // everything that was read is synced and acknowledged now
	p.drain(ctx)
	return false, nil
}

// replaceSinks serves other sinks from now on. A sink that is gone keeps its cursor for a day.
func (p *program) replaceSinks(ctx context.Context, targets []sinkurl.Sink) error {
	all, err := p.sinks.open(targets)
	if err != nil {
		return err
	}
	p.s.targets = targets
	return p.sinks.apply(ctx, all, p.failed)
}

// serveSocket takes records by the unix socket until ctx ends.
func (p *program) serveSocket(ctx context.Context) error {
	if p.s.socket == "" {
		return nil
	}
	socket, err := intake.Listen(ctx, p.s.socket, p.s.access, p.intakeOptions())
	if err != nil {
		return err
	}
	p.takers.Go(func() {
		if err := socket.Serve(ctx); err != nil {
			p.failed <- err
		}
	})
	return nil
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
func (p *program) announce() error {
	if !p.s.printAddress {
		return nil
	}
	line, err := json.Marshal(struct {
		Program string         `json:"program"`
		PID     int            `json:"pid"`
		Socket  string         `json:"socket"`
		GRPC    string         `json:"grpc"`
		Audit   string         `json:"audit"`
		HTTP    string         `json:"http"`
		Queue   map[string]any `json:"queue"`
	}{
		"exporter", os.Getpid(), p.s.socket, p.s.grpc.listen, p.s.audit.listen, p.s.httpListen,
		map[string]any{"id": p.queue.ID(), "records": p.queue.Usage().Records, "durable": p.durable()},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.o.Out, "%s\n", line)
	return err
}

// serveDoor starts the door. Its address stays the same when the program is started anew inside.
func (p *program) serveDoor(ctx context.Context) error {
	if p.s.httpListen == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.s.httpListen)
	if err != nil {
		return usage("--http-listen: %w", err)
	}
	p.s.httpListen = listener.Addr().String()
	p.serveHTTP(ctx, listener, plainServer(p.door()))
	return nil
}

// serveHTTP serves until ctx ends. Calls that are under way then have a moment to end; those that are cut are asked for again.
func (p *program) serveHTTP(ctx context.Context, listener net.Listener, server *http.Server) {
	p.takers.Go(func() {
		ended := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(ended)
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
			defer cancel()
			if server.Shutdown(bounded) != nil {
				_ = server.Close() // some calls did not end
			}
		})
		var err error
		if server.TLSConfig != nil {
			err = server.ServeTLS(listener, "", "")
		} else {
			err = server.Serve(listener)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			p.failed <- err
		}
		if !stop() {
			<-ended
		}
	})
}

// closingTime is what calls by HTTP have to end.
const closingTime = 2 * time.Second

func plainServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
}

// serveAdmin answers the commands over the queue.
func (p *program) serveAdmin(ctx context.Context) error {
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
	p.serveHTTP(ctx, listener, plainServer(adminHandler(p.queue, p.sinks.state)))
	return nil
}
