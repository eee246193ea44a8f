// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/registry/internal/cloud"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/engine"
	"github.com/scanyard/scanyard/registry/internal/limits"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
)

// Clock tells the time and waits.
type Clock interface {
	Now() time.Time
	// Wait ends with the error of the context where that ends first.
	Wait(ctx context.Context, d time.Duration) error
}

// Options are what a Worker needs. Only those that say so may be missing.
type Options struct {
	// Name is a part of subjects: letters, digits and dashes.
	Name string
	// Namespace is that of the installation: the Secrets of databases are there.
	Namespace string
	// Namespaces are those that are worked for; none: all.
	Namespaces []string
	Config     *config.Config
	Queue      *queue.Queue
	Reports    *reportsclient.Client
	// Cluster reads Registries, jobs and Secrets, and writes Events.
	Cluster client.Client
	Engine  *engine.Engine
	Dialer  *egress.Dialer
	// Identities are those of the pod at clouds; they may be missing.
	Identities *cloud.Identities
	// Roots are trusted besides the system's; it may be missing.
	Roots *x509.CertPool
	// Slots are how many messages of a step are worked on at once.
	Slots map[queue.Step]int
	// Drain is how long what was begun may go on once the worker is to end.
	Drain time.Duration
	// CacheDir is where the engine keeps its files.
	CacheDir string
	Clock    Clock
	// Chance gives numbers from 0 to 1.
	Chance func() float64
	// Draw gives a text that nobody else has.
	Draw    func() string
	Log     *slog.Logger
	Metrics *Metrics
	// Beat is how often the queue hears of a message that is worked on; 0: 20 s. The controller hears of the worker twice as often, and the
	// reports API after every third beat.
	Beat time.Duration
}

const (
	// beat is how often the queue hears of a message that is worked on.
	beat = 20 * time.Second
	// renewals of a lease are that many beats apart.
	renewal = 3
	// hellos to the controller go with each beat.
	hellos = 2
	// pause is how long is waited where the queue does not answer.
	pause = 5 * time.Second
	// writing bounds what is written of a step that was ended.
	writing = 30 * time.Second
	// rounds of a conflict before an item is left to the next message.
	rounds = 5
	// taking is how long a slot waits for messages of one adapter where there are several.
	taking = 2 * time.Second
)

// Worker works on messages.
type Worker struct {
	Options

	hosts    *limits.Hosts
	gate     gate
	alone    sync.RWMutex
	updating sync.Mutex
	mutex    sync.Mutex
	free     map[queue.Step]int
	draining bool
	// running are the steps of jobs, by the UID of the job.
	running map[string]map[int]context.CancelCauseFunc
	number  int
	// items are those in flight at a host.
	items map[string]map[*limits.Item]bool
	// failed counts the looks for a database that failed in a row; updating guards it.
	failed  map[string]int
	evicted time.Time
}

// New makes a Worker.
func New(o Options) *Worker {
	if o.Beat == 0 {
		o.Beat = beat
	}
	bounds := limits.Bounds{Items: o.Config.Hosts.Concurrent, RequestsPerSecond: o.Config.Hosts.RequestsPerSecond}
	w := &Worker{
		Options: o, hosts: limits.NewHosts(bounds), free: map[queue.Step]int{}, running: map[string]map[int]context.CancelCauseFunc{},
		items: map[string]map[*limits.Item]bool{}, failed: map[string]int{}, evicted: o.Clock.Now(),
	}
	w.gate.changed = make(chan struct{})
	maps.Copy(w.free, o.Slots)
	return w
}

// Run works until ctx ends, and then as long as Drain allows for what was begun.
func (w *Worker) Run(ctx context.Context) error {
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	var all sync.WaitGroup
	failed := make(chan error, 1)
	listening, deaf := context.WithCancel(context.WithoutCancel(ctx))
	defer deaf()
	all.Go(func() {
		err := w.Queue.Listen(listening, queue.Heard{Cancel: w.cancelJob, Limited: w.limited}, func() {})
		if err != nil {
			failed <- err
		}
	})
	all.Go(func() { w.sayHello(listening) })
	var slots sync.WaitGroup
	for step, n := range w.Slots {
		for range n {
			slots.Go(func() { w.slot(ctx, work, step) })
		}
	}
	slots.Go(func() { w.slot(ctx, work, queue.Database) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	w.drain(&slots, stop)
	deaf()
	all.Wait()
	return err
}

// drain waits for what was begun. What is not done in time is given back.
func (w *Worker) drain(slots *sync.WaitGroup, stop context.CancelCauseFunc) {
	w.mutex.Lock()
	w.draining = true
	w.mutex.Unlock()
	w.tellWorker()
	done := make(chan struct{})
	go func() {
		slots.Wait()
		close(done)
	}()
	timer := time.NewTimer(w.Drain)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		stop(errDraining)
		<-done
	}
}

func (w *Worker) isDraining() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.draining
}

// adaptersOf are the adapters whose messages a slot of a step takes.
func (w *Worker) adaptersOf(step queue.Step) []string {
	if step == queue.Discover {
		return []string{queue.AnyAdapter}
	}
	var names []string
	for _, name := range w.Config.Adapters {
		if _, has := w.Engine.Describe(name); has {
			names = append(names, name)
		}
	}
	return names
}

// slot takes one message after the other. ctx ends the taking, work what was begun.
func (w *Worker) slot(ctx, work context.Context, step queue.Step) {
	adapters := w.adaptersOf(step)
	for turn := 0; ctx.Err() == nil && len(adapters) > 0; turn++ {
		if step == queue.SBOM && !w.hasRoom(ctx) {
			w.rest(ctx)
			continue
		}
		d, err := w.take(ctx, step, adapters[turn%len(adapters)], len(adapters) > 1)
		switch {
		case err != nil && ctx.Err() == nil:
			w.Log.Debug("no work can be taken", "step", step, "error", err)
			w.rest(ctx)
		case d != nil && ctx.Err() != nil:
			w.giveBack(d)
		case d != nil:
			w.deliver(work, d)
		}
	}
}

// rest waits a little. A worker that ends does not.
func (w *Worker) rest(ctx context.Context) {
	if err := w.Clock.Wait(ctx, pause); err != nil {
		return
	}
}

// take waits for a message. Where there are several adapters, each is asked for a while.
func (w *Worker) take(ctx context.Context, step queue.Step, adapter string, several bool) (*queue.Delivery, error) {
	within := ctx
	if several {
		limited, cancel := context.WithTimeout(ctx, taking)
		defer cancel()
		within = limited
	}
	d, err := w.Queue.Take(within, step, adapter)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return nil, nil // there was nothing to do
	}
	return d, err
}

func (w *Worker) giveBack(d *queue.Delivery) {
	if err := d.GiveBack(); err != nil {
		w.Log.Warn("a message could not be given back; it comes again after a minute", "error", err)
	}
}

// deliver works on one message.
func (w *Worker) deliver(work context.Context, d *queue.Delivery) {
	w.change(d.Step, -1)
	defer w.change(d.Step, +1)
	if d.Redelivered {
		w.Metrics.redelivered.WithLabelValues(string(d.Step)).Inc()
	}
	ctx, done := w.begin(work, d)
	defer done()
	w.gate.enter()
	defer w.gate.leave()
	back := false
	switch {
	case d.Step == queue.Database:
		w.database(ctx, d)
	case len(w.Namespaces) > 0 && !slices.Contains(w.Namespaces, d.Namespace):
		w.Log.Warn("a message names a namespace that is not ours", "namespace", d.Namespace)
	case d.Step == queue.Discover:
		back = w.discover(ctx, d)
	case d.Step == queue.SBOM:
		back = w.sbom(ctx, d)
	case d.Step == queue.Match:
		back = w.match(ctx, d)
	}
	if back {
		w.giveBack(d)
		return
	}
	acknowledging, cancel := context.WithTimeout(context.WithoutCancel(work), writing)
	defer cancel()
	if err := d.Done(acknowledging); err != nil {
		w.Log.Warn("a message could not be acknowledged; it comes again", "step", d.Step, "error", err)
	}
}

// begin gives the context of a message's work, which a cancelled job ends, and keeps the queue from giving the message to others.
func (w *Worker) begin(work context.Context, d *queue.Delivery) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(work)
	job := ""
	if d.Job != nil {
		job = d.Job.UID
	}
	w.mutex.Lock()
	w.number++
	number := w.number
	if w.running[job] == nil {
		w.running[job] = map[int]context.CancelCauseFunc{}
	}
	w.running[job][number] = cancel
	w.mutex.Unlock()
	var beating sync.WaitGroup
	beating.Go(func() {
		ticker := time.NewTicker(w.Beat)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if err := d.InProgress(); err != nil {
					w.Log.Debug("the queue does not hear that a message is worked on", "error", err)
				}
			}
		}
	})
	return ctx, func() {
		w.mutex.Lock()
		delete(w.running[job], number)
		if len(w.running[job]) == 0 {
			delete(w.running, job)
		}
		w.mutex.Unlock()
		cancel(nil)
		beating.Wait()
	}
}

// cancelJob ends what is worked on for a job.
func (w *Worker) cancelJob(uid string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, cancel := range w.running[uid] {
		cancel(errCancelled)
	}
}

// limited takes what the controller tells of a host.
func (w *Worker) limited(l queue.Limits) {
	now := w.Clock.Now()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if l.Until.After(now) {
		w.hosts.Host(limits.Key{Host: l.Host, Account: l.Account}).Pause(l.Until)
	}
	if l.RequestsPerSecond > 0 {
		for item := range w.items[l.Host] {
			item.Share(now, l.RequestsPerSecond)
		}
	}
}

// change counts the free slots of a step, and tells the controller.
func (w *Worker) change(step queue.Step, by int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if _, counted := w.Slots[step]; counted {
		w.free[step] += by
	}
}

// sayHello tells the controller of this worker, again and again.
func (w *Worker) sayHello(ctx context.Context) {
	w.tellWorker()
	ticker := time.NewTicker(w.Beat / hellos)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.tellWorker()
		}
	}
}

func (w *Worker) tellWorker() {
	told := queue.Worker{Name: w.Name, Slots: w.Slots, Free: map[queue.Step]int{}}
	for _, name := range w.Config.Adapters {
		about, has := w.Engine.Describe(name)
		if !has {
			continue
		}
		a := queue.Adapter{Name: name, Version: about.Version, EngineVersion: about.Engine.Version}
		if database, there := w.Engine.Database(name); there {
			a.Database = database.Version
			w.Metrics.databaseAge.WithLabelValues(name).Set(w.Clock.Now().Sub(database.BuiltAt).Seconds())
		}
		told.Adapters = append(told.Adapters, a)
	}
	w.mutex.Lock()
	maps.Copy(told.Free, w.free)
	told.Draining = w.draining
	w.mutex.Unlock()
	if err := w.Queue.SayWorker(told); err != nil {
		w.Log.Debug("the controller does not hear of this worker", "error", err)
	}
}

// say tells the controller what became of an item.
func (w *Worker) say(e queue.Ended) {
	w.Metrics.work.WithLabelValues(string(e.Step), e.Outcome).Inc()
	if err := w.Queue.Say(e); err != nil {
		w.Log.Debug("the controller does not hear of an item; it will ask", "error", err)
	}
}

// endedOf is what is told of an item of a message.
func endedOf(d *queue.Delivery, name string) queue.Ended {
	e := queue.Ended{Namespace: d.Namespace, Name: name, Step: d.Step}
	if d.Job != nil {
		e.Job = d.Job.UID
	}
	return e
}

// Ready tells whether the worker can work.
func (w *Worker) Ready() error {
	if !w.Queue.Connected() {
		return errors.New("the queue does not answer")
	}
	for _, name := range w.Config.Adapters {
		if _, has := w.Engine.Describe(name); !has {
			return fmt.Errorf("adapter %s does not answer", name)
		}
	}
	return nil
}
