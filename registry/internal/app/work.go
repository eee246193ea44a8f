// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/registry/internal/feeder"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

const (
	// feedEvery is how often work is let in where nobody tells of an end: a new Secret is seen that fast.
	feedEvery  = 5 * time.Second
	sweepEvery = 5 * time.Minute
	// idleWait is how long a new leader waits for what workers have.
	idleWait   = 90 * time.Second
	idleLook   = 500 * time.Millisecond
	queueRetry = 5 * time.Second
)

// work is what only the leader does: the queue, and what goes through it.
type work struct {
	options *Options
	client  client.Client // without a cache
	clock   clock.WithTicker
	feeder  *feeder.Feeder
	state   *state
	ended   func(queue.Ended)
	dead    func(queue.Step)
	data    *databases
	log     logr.Logger

	mu    sync.Mutex
	queue *queue.Queue
}

// NeedLeaderElection has the manager start this on the leader.
func (w *work) NeedLeaderElection() bool { return true }

// Start works until ctx ends. A queue that cannot be had is tried again: the controller says so meanwhile.
func (w *work) Start(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	reports := w.clock.NewTicker(askReports)
	defer reports.Stop()
	group.Go(func() { w.state.watchReports(ctx, reports.C()) })
	for ctx.Err() == nil {
		err := w.run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		w.log.Error(err, "Keep the queue")
		why := "the queue does not answer"
		if mismatch, is := errors.AsType[*queue.MismatchError](err); is {
			why = "StreamMismatch: " + mismatch.Error()
		}
		w.state.setQueue(ctx, why)
		select {
		case <-ctx.Done():
		case <-w.clock.After(queueRetry):
		}
	}
	return nil
}

// run has the queue, as long as it is there.
func (w *work) run(ctx context.Context) error {
	options, stop, err := w.server(ctx)
	if err != nil {
		return err
	}
	defer stop()
	options.Name = "registry-controller"
	options.Changed = func(connected bool, _ error) {
		why := "the queue does not answer"
		if connected {
			why = ""
		}
		w.state.setQueue(ctx, why)
	}
	q, err := queue.Connect(options)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := w.begin(ctx, q); err != nil {
		return err
	}
	w.set(q)
	defer w.set(nil)
	w.state.setQueue(ctx, "")
	return w.keep(ctx, q)
}

// begin makes the streams ready for a new leader.
func (w *work) begin(ctx context.Context, q *queue.Queue) error {
	if err := q.Ensure(ctx); err != nil {
		return err
	}
	if err := q.PurgeWaiting(ctx); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, idleWait)
	defer cancel()
	_, err := q.WaitIdle(within, idleLook)
	return err
}

// keep listens and lets work in until ctx ends.
func (w *work) keep(ctx context.Context, q *queue.Queue) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	feed, sweep := w.clock.NewTicker(feedEvery), w.clock.NewTicker(sweepEvery)
	defer feed.Stop()
	defer sweep.Stop()
	failed := func(err error) { w.log.Error(err, "Keep the dead letters") }
	group.Go(func() { w.feeder.Run(ctx, q, feed.C()) })
	group.Go(func() {
		if err := q.BuryDelivered(ctx, failed); err != nil && ctx.Err() == nil {
			failed(err)
		}
	})
	group.Go(func() { w.data.run(ctx, q) })
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-sweep.C():
				if _, err := q.Sweep(ctx); err != nil && ctx.Err() == nil {
					failed(err)
				}
			}
		}
	})
	return q.Listen(ctx, queue.Heard{Ended: w.ended, Worker: w.feeder.Worker, Dead: w.dead}, func() {})
}

func (w *work) set(q *queue.Queue) {
	w.mu.Lock()
	w.queue = q
	w.mu.Unlock()
}

// cancel tells workers that a job is to end. Without a queue they hear of it when they read the job.
func (w *work) cancel(jobUID string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue == nil {
		return nil
	}
	return w.queue.Cancel(jobUID)
}

// server starts the embedded queue, or names the external one.
func (w *work) server(ctx context.Context) (queue.Options, func(), error) {
	if w.options.NATSURLs != "" {
		o, err := external(w.options)
		return o, func() {}, err
	}
	o := w.options
	host := o.NATSService + "." + o.Namespace + ".svc"
	s, err := ensureSecret(ctx, w.client, client.ObjectKey{Namespace: o.Namespace, Name: o.NATSSecret}, []string{host, o.NATSService, "127.0.0.1"},
		[]string{keyControllerPassword, keyWorkerPassword}, w.clock.Now())
	if err != nil {
		return queue.Options{}, nil, err
	}
	folder, err := os.MkdirTemp("", "registry-nats-")
	if err != nil {
		return queue.Options{}, nil, fmt.Errorf("make a folder for the queue: %w", err)
	}
	server, err := queue.StartServer(queue.ServerOptions{
		Address: o.NATSAddress, TLS: &tls.Config{Certificates: []tls.Certificate{s.certificate}, MinVersion: tls.VersionTLS12}, StoreDir: folder,
		ControllerPassword: string(s.data[keyControllerPassword]), WorkerPassword: string(s.data[keyWorkerPassword]),
	})
	if err != nil {
		return queue.Options{}, nil, errors.Join(err, os.RemoveAll(folder))
	}
	stop := func() {
		server.Stop()
		if err := os.RemoveAll(folder); err != nil {
			w.log.Error(err, "Remove the folder of the queue")
		}
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimPrefix(server.URL(), "tls://"), "nats://"))
	if err != nil {
		stop()
		return queue.Options{}, nil, fmt.Errorf("read the address of the queue: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.authority)
	return queue.Options{
		URLs: []string{"tls://127.0.0.1:" + port}, User: queue.ControllerUser, Password: string(s.data[keyControllerPassword]),
		TLS: &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12},
	}, stop, nil
}

func external(o *Options) (queue.Options, error) {
	q := queue.Options{URLs: strings.Split(o.NATSURLs, ","), CredentialsFile: o.NATSCredentials, External: true, Replicas: o.NATSReplicas}
	if o.NATSAuthority == "" {
		return q, nil
	}
	data, err := os.ReadFile(o.NATSAuthority)
	if err != nil {
		return q, fmt.Errorf("--nats-ca-file: %w", err)
	}
	q.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !q.TLS.RootCAs.AppendCertsFromPEM(data) {
		return q, errors.New("--nats-ca-file: there is no certificate in it; write PEM")
	}
	return q, nil
}
