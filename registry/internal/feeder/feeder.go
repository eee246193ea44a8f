// SPDX-License-Identifier: Apache-2.0

package feeder

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanyard/scanyard/registry/internal/feed"
	"github.com/scanyard/scanyard/registry/internal/inventory"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

const (
	// workerSilence is how long a worker counts that has not spoken.
	workerSilence = 30 * time.Second
	// perSlot is how many items are in flight for a slot.
	perSlot = 2
	// batch is how many images go in a message of matches.
	batch = 50
	// settle is how long a message may be on its way before a consumer that has nothing tells that it is gone.
	settle = 5 * time.Second
	// refusedPause is how long a Registry is not asked that has refused. Every secretPause one item goes out meanwhile, whose worker
	// looks whether the Secret is another one by now.
	refusedPause = 10 * time.Minute
	secretPause  = 5 * time.Second
	// putTimeout bounds a message on its way into the queue.
	putTimeout = 10 * time.Second
)

// Queue is where work goes.
type Queue interface {
	Put(ctx context.Context, m queue.Message) error
	Window(ctx context.Context, step queue.Step, adapter string, window int) error
	Waiting(ctx context.Context, step queue.Step, adapter string) (waiting, inFlight int, err error)
	Limit(l queue.Limits) error
}

// Bounds are those of the installation.
type Bounds struct {
	// Concurrent items of a namespace, HostConcurrent ones of a host; HostRequests are those of a second.
	Concurrent, HostConcurrent int
	HostRequests               float64
	// Bytes may be fetched for a namespace in 24 hours; 0: no bound.
	Bytes int64
}

// Offer is what a job at work would have let in.
type Offer struct {
	Namespace, Registry, RegistryUID string
	Generation                       int64
	Job                              queue.Ref
	Interactive                      bool
	Priority                         int32
	Concurrent                       int
	RequestsPerSecond                float64
	Host, Adapter, Database          string
	// Account is whose limits at the host count: the Registry's Secret, as namespace/name; "" is anonymous.
	Account  string
	Deadline time.Time
	Heads    []inventory.Head
	// Own are the bounds that the namespace's settings tighten, and its share; what is 0 is that of the installation.
	Own Own
	// Bytes may be fetched for the Registry in 24 hours; 0: no bound of its own.
	Bytes int64
}

// Own is what settings say of a namespace.
type Own struct {
	Weight     int64
	Concurrent int
	Bytes      int64
	// Bounds are for workers.
	Bounds *queue.Bounds
}

// key is an item in flight.
type key struct {
	namespace, name string
	step            feed.Step
}

// flight is a message that was let in.
type flight struct {
	item    feed.Item
	job     queue.Ref
	account account
	adapter string
	since   time.Time
	names   map[string]bool
	// probe: the item goes alone, to see whether its Registry still refuses.
	probe bool
}

// refusal is a Registry that is left alone.
type refusal struct {
	generation int64
	// until is when the registry is asked again; next is when an item goes out to look at the Secret. secret is the version that was
	// refused; "": there is none, or nobody could read it.
	until, next time.Time
	secret      string
}

// turn says whether one item may go out.
func (r refusal) turn(now time.Time) bool {
	return !now.Before(r.until) || r.secret != "" && !now.Before(r.next)
}

// Feeder lets work in. Its methods may be used by several goroutines.
type Feeder struct {
	clock  clock.PassiveClock
	bounds Bounds
	woken  func(namespace, kind, name string)
	admit  func(interactive bool, waited time.Duration)
	log    logr.Logger

	mu       sync.Mutex
	offers   map[string]Offer
	flights  map[string]*flight
	workers  map[string]heard
	paused   map[account]pause
	refusals map[string]refusal
	turns    feed.Turns
	windows  map[string]int
	spent    ledger
	told     map[account]telling
	// allowances are what hosts have told of their limits, by the UID of the Registry: they hang on its account.
	allowances map[string]Allowance
	wake       chan struct{}
}

// Allowance is what a host has told of its limits. Without Remaining it wants to be left alone until ResetTime.
type Allowance struct {
	Remaining *int64
	ResetTime time.Time
}

// account is whose limits a host counts: name is that of an Offer's Account.
type account struct{ host, name string }

// pause is how long an account is left alone. uid is what workers call the account.
type pause struct {
	until time.Time
	uid   string
}

type heard struct {
	queue.Worker

	at time.Time
}

// Options are those of a Feeder.
type Options struct {
	Clock  clock.PassiveClock
	Bounds Bounds
	// Woken is told of a job whose items have changed.
	Woken func(namespace, kind, name string)
	// Admitted hears how long an item has waited that is let in; nil: nobody does.
	Admitted func(interactive bool, waited time.Duration)
	Log      logr.Logger
}

// New returns a Feeder.
func New(o Options) *Feeder {
	return &Feeder{
		clock: o.Clock, bounds: o.Bounds, woken: o.Woken, admit: o.Admitted, log: o.Log, offers: map[string]Offer{}, flights: map[string]*flight{},
		workers: map[string]heard{}, paused: map[account]pause{}, refusals: map[string]refusal{}, windows: map[string]int{}, wake: make(chan struct{}, 1),
		spent: ledger{}, told: map[account]telling{}, allowances: map[string]Allowance{},
	}
}

// Offer tells what waits of a job at work. What was offered of it before is forgotten.
func (f *Feeder) Offer(o Offer) {
	f.mu.Lock()
	f.offers[o.Job.UID] = o
	f.mu.Unlock()
	f.look()
}

// Withdraw lets nothing more in of a job.
func (f *Feeder) Withdraw(jobUID string) {
	f.mu.Lock()
	delete(f.offers, jobUID)
	f.mu.Unlock()
}

// Held tells until when the Registry of a job is left alone, and its account at the host.
func (f *Feeder) Held(registryUID, host, accountName string, generation int64) (registry, paused time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r, found := f.refusals[registryUID]; found && r.generation == generation {
		registry = r.until
	}
	return registry, f.paused[account{host, accountName}].until
}

// Allowance is what the host of a Registry has told of its limits; false: nothing that counts still.
func (f *Feeder) Allowance(registryUID, host, accountName string) (Allowance, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if until := f.paused[account{host, accountName}].until; until.After(now) {
		return Allowance{ResetTime: until}, true
	}
	a, told := f.allowances[registryUID]
	return a, told && a.ResetTime.After(now)
}

// Pause leaves an account at a host alone until a time, as the host has asked a controller before this one.
func (f *Feeder) Pause(host, accountName string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := account{host, accountName}
	if p := f.paused[at]; until.After(p.until) {
		f.paused[at] = pause{until, p.uid}
	}
}

// Adapters are those that workers have told of lately, with the newest version of their engine.
func (f *Feeder) Adapters() map[string]queue.Adapter {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]queue.Adapter{}
	for _, w := range f.alive() {
		for _, a := range w.Adapters {
			all[a.Name] = a
		}
	}
	return all
}

// Workers counts those that have spoken lately.
func (f *Feeder) Workers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.alive())
}

func (f *Feeder) alive() []heard {
	now := f.clock.Now()
	var all []heard
	for _, w := range f.workers {
		if !w.Draining && now.Sub(w.at) <= workerSilence {
			all = append(all, w)
		}
	}
	return all
}

// Worker hears a worker.
func (f *Feeder) Worker(w queue.Worker) {
	f.mu.Lock()
	_, known := f.workers[w.Name]
	f.workers[w.Name] = heard{w, f.clock.Now()}
	for name, other := range f.workers {
		if f.clock.Now().Sub(other.at) > 2*workerSilence {
			delete(f.workers, name)
		}
	}
	f.mu.Unlock()
	if !known {
		f.look()
	}
}

// Ended hears of the end of an item.
func (f *Feeder) Ended(e queue.Ended) {
	now := f.clock.Now()
	step, isItem := steps[e.Step]
	if !isItem {
		return
	}
	f.mu.Lock()
	var job queue.Ref
	for id, at := range f.flights {
		if at.item.Namespace != e.Namespace || !at.names[e.Name] || at.item.Step != step {
			continue
		}
		job = at.job
		if e.RetryAfterSeconds > 0 && e.Outcome == outcomeThrottled {
			f.paused[at.account] = pause{now.Add(time.Duration(e.RetryAfterSeconds) * time.Second), e.Account}
		}
		if e.Remaining != nil {
			f.allowances[at.item.Registry] = Allowance{e.Remaining, e.ResetTime}
		}
		f.spent.add(ofNamespace(e.Namespace), now, e.Bytes)
		f.spent.add(at.item.Registry, now, e.Bytes)
		switch {
		case e.Outcome == outcomeRefused:
			f.refuse(at, e, now)
		case at.probe && e.Outcome != queue.Passed:
			delete(f.refusals, at.item.Registry)
		}
		if delete(at.names, e.Name); len(at.names) == 0 {
			delete(f.flights, id)
		}
		break
	}
	offer, offered := f.offers[job.UID]
	if offered {
		// What has ended does not wait: the job's next look says what became of it.
		offer.Heads = slices.DeleteFunc(slices.Clone(offer.Heads), func(h inventory.Head) bool { return h.Name == e.Name })
		f.offers[job.UID] = offer
	}
	f.mu.Unlock()
	if offered {
		f.woken(offer.Namespace, job.Kind, job.Name)
	}
	f.look()
}

// Outcomes that the Feeder goes by.
const (
	outcomeThrottled = "Throttled"
	outcomeRefused   = "Refused"
)

// refuse leaves a Registry alone. Where no request was made, it may be tried again soon.
func (f *Feeder) refuse(at *flight, e queue.Ended, now time.Time) {
	r := refusal{f.offers[at.job.UID].Generation, now.Add(refusedPause), now.Add(secretPause), e.Secret}
	old, found := f.refusals[at.item.Registry]
	switch {
	case slices.Contains([]string{"SecretNotFound", "SecretForbidden"}, e.Reason):
		r.until = r.next
	case found && old.generation == r.generation && r.secret != "" && old.secret == r.secret && now.Before(old.until):
		r.until = old.until // the registry was not asked once more
	}
	f.refusals[at.item.Registry] = r
}

// refuses tells whether a Registry has refused, and whether one item may look whether it still does: no other one is out.
func (f *Feeder) refuses(o Offer, now time.Time) (refuses, probe bool) {
	r, found := f.refusals[o.RegistryUID]
	if !found || r.generation != o.Generation {
		return false, false
	}
	for _, at := range f.flights {
		if at.probe && at.item.Registry == o.RegistryUID {
			return true, false
		}
	}
	return true, r.turn(now)
}

// onlyProbe leaves the first item that asks the registry.
func onlyProbe(all []bundled) []bundled {
	for _, b := range all {
		if b[0].Step != feed.Match {
			return []bundled{b}
		}
	}
	return nil
}

var (
	steps     = map[queue.Step]feed.Step{queue.Discover: feed.Discover, queue.SBOM: feed.SBOM, queue.Match: feed.Match}
	stepNames = map[feed.Step]queue.Step{feed.Discover: queue.Discover, feed.SBOM: queue.SBOM, feed.Match: queue.Match}
)

// look has Run look again soon.
func (f *Feeder) look() {
	select {
	case f.wake <- struct{}{}:
	default: // it will
	}
}

// Run lets work in until ctx ends.
func (f *Feeder) Run(ctx context.Context, q Queue, every <-chan time.Time) {
	for {
		if err := f.pass(ctx, q); err != nil && ctx.Err() == nil {
			f.log.Error(err, "Let work in")
		}
		select {
		case <-ctx.Done():
			return
		case <-every:
		case <-f.wake:
		}
	}
}

// pass looks once.
func (f *Feeder) pass(ctx context.Context, q Queue) error {
	if err := f.consumers(ctx, q); err != nil {
		return err
	}
	if err := f.forget(ctx, q); err != nil {
		return err
	}
	messages := f.choose()
	for _, m := range messages {
		within, cancel := context.WithTimeout(ctx, putTimeout)
		err := q.Put(within, m.message)
		cancel()
		if err != nil {
			f.mu.Lock()
			delete(f.flights, m.message.ID)
			f.mu.Unlock()
			return err
		}
	}
	return f.tell(q)
}

// consumers makes those of each step and adapter that workers have, and changes their windows.
func (f *Feeder) consumers(ctx context.Context, q Queue) error {
	f.mu.Lock()
	want := map[string]int{}
	for _, w := range f.alive() {
		want[consumer(queue.Discover, queue.AnyAdapter)] += perSlot * w.Slots[queue.Discover]
		for _, a := range w.Adapters {
			want[consumer(queue.SBOM, a.Name)] += perSlot * w.Slots[queue.SBOM]
			want[consumer(queue.Match, a.Name)] += perSlot * w.Slots[queue.Match]
			want[consumer(queue.Database, a.Name)]++
		}
	}
	changed := map[string]int{}
	for name, window := range want {
		if f.windows[name] != window {
			changed[name] = window
		}
	}
	f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		step, adapter := consumerParts(name)
		if err := q.Window(ctx, step, adapter, changed[name]); err != nil {
			return err
		}
		f.mu.Lock()
		f.windows[name] = changed[name]
		f.mu.Unlock()
	}
	return nil
}

const separator = "/"

func consumer(step queue.Step, adapter string) string { return string(step) + separator + adapter }

func consumerParts(name string) (queue.Step, string) {
	for i := range name {
		if name[i:i+1] == separator {
			return queue.Step(name[:i]), name[i+1:]
		}
	}
	return queue.Step(name), ""
}

// forget forgets what was let in and of which the queue knows nothing any more: its end was told to nobody.
func (f *Feeder) forget(ctx context.Context, q Queue) error {
	asked := f.clock.Now()
	f.mu.Lock()
	old := map[string]bool{}
	for _, at := range f.flights {
		if asked.Sub(at.since) > settle {
			old[consumer(stepNames[at.item.Step], at.adapter)] = true
		}
	}
	f.mu.Unlock()
	for name := range old {
		step, adapter := consumerParts(name)
		waiting, taken, err := q.Waiting(ctx, step, adapter)
		if err != nil {
			return err
		}
		if waiting+taken > 0 {
			continue
		}
		f.mu.Lock()
		for id, at := range f.flights {
			if consumer(stepNames[at.item.Step], at.adapter) == name && asked.Sub(at.since) > settle {
				delete(f.flights, id)
			}
		}
		f.mu.Unlock()
	}
	return nil
}

// let is a message that goes in.
type let struct{ message queue.Message }

// choose asks feed who is next, and notes them as in flight.
func (f *Feeder) choose() []let {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	state, batches := f.state(now)
	items, turns := feed.Next(state, now)
	f.turns = turns
	all := make([]let, 0, len(items))
	for _, item := range items {
		b := batches[key{item.Namespace, item.Name, item.Step}]
		m := queue.Message{
			Step: stepNames[item.Step], Namespace: item.Namespace, Registry: &queue.Ref{Name: b.offer.Registry, UID: b.offer.RegistryUID}, Job: new(b.offer.Job),
			Items: b.items, Adapter: b.adapter(item.Step), Deadline: b.offer.Deadline, ID: rand.Text(),
		}
		if item.Step != feed.Match {
			m.Bounds = b.offer.Own.Bounds
		}
		if item.Step == feed.SBOM {
			m.BudgetBytes = f.budget(b.offer, now)
		}
		at := &flight{
			item: item, job: b.offer.Job, account: account{b.offer.Host, b.offer.Account}, adapter: m.Adapter, since: now, names: map[string]bool{}, probe: b.probe,
		}
		if r := f.refusals[b.offer.RegistryUID]; b.probe && now.Before(r.until) {
			m.Refused = r.secret
		}
		for _, i := range b.items {
			at.names[i.Name] = true
		}
		if item.Step == feed.Match {
			m.Database = b.offer.Database
		}
		f.flights[m.ID] = at
		if f.admit != nil {
			f.admit(item.Interactive, now.Sub(latest(item.Since, item.NotBefore)))
		}
		all = append(all, let{m})
	}
	shares := f.shares()
	for i, item := range items {
		own := batches[key{item.Namespace, item.Name, item.Step}].offer.RequestsPerSecond
		if share := shares[item.Host]; own == 0 || share < own {
			own = share
		}
		all[i].message.RequestsPerSecond = own
	}
	return all
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// batched are images that go together, or one item.
type batched struct {
	offer Offer
	items []queue.Item
	probe bool
}

func (b batched) adapter(step feed.Step) string {
	if step == feed.Discover {
		return queue.AnyAdapter
	}
	return b.offer.Adapter
}

// state is what feed decides by.
func (f *Feeder) state(now time.Time) (feed.State, map[key]batched) {
	s := feed.State{Hosts: map[string]feed.Host{}, Windows: map[feed.Step]int{}, Turns: f.turns}
	for _, w := range f.alive() {
		for name, step := range steps {
			s.Windows[step] += perSlot * w.Slots[name]
		}
		if maps.Equal(w.Slots, w.Free) {
			s.IdleWorkers++
		}
	}
	taken := map[key]bool{}
	for _, at := range f.flights {
		s.Flight = append(s.Flight, at.item)
		for name := range at.names {
			taken[key{at.item.Namespace, name, at.item.Step}] = true
		}
	}
	batches, probes := map[key]batched{}, map[string]bool{}
	namespaces := map[string]*feed.Namespace{}
	for _, uid := range slices.Sorted(maps.Keys(f.offers)) {
		o := f.offers[uid]
		refuses, probe := f.refuses(o, now)
		if refuses && (!probe || probes[o.RegistryUID]) {
			continue
		}
		concurrent, _ := f.bounds.of(o.Host)
		s.Hosts[o.Host] = feed.Host{Concurrent: concurrent}
		n := namespaces[o.Namespace]
		if n == nil {
			n = f.namespace(o, now)
			namespaces[o.Namespace] = n
		}
		all := f.unpaused(o, bundle(o, now, taken), now)
		if refuses {
			all = onlyProbe(all)
			probes[o.RegistryUID] = len(all) > 0
		}
		all = f.affordable(o, all, now)
		for _, b := range all {
			item := itemOf(o, b)
			n.Waiting = append(n.Waiting, item)
			batches[key{item.Namespace, item.Name, item.Step}] = batched{o, b.items(), refuses}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		s.Namespaces = append(s.Namespaces, *namespaces[name])
	}
	return s, batches
}

// unpaused leaves out what would ask a host that has said to wait: matching asks none.
func (f *Feeder) unpaused(o Offer, all []bundled, now time.Time) []bundled {
	if !f.paused[account{o.Host, o.Account}].until.After(now) {
		return all
	}
	return slices.DeleteFunc(all, func(b bundled) bool { return b[0].Step != feed.Match })
}

// bundled are heads that go in one message.
type bundled []inventory.Head

func (b bundled) items() []queue.Item {
	items := make([]queue.Item, 0, len(b))
	for _, h := range b {
		items = append(items, queue.Item{Name: h.Name, UID: h.UID, Bytes: h.Bytes})
	}
	return items
}

// bundle makes batches of matches. An item that wants a worker for itself goes alone, and so does one that has failed before: its wait
// is nobody else's.
func bundle(o Offer, now time.Time, taken map[key]bool) []bundled {
	var all []bundled
	var matches bundled
	for _, h := range o.Heads {
		at := key{o.Namespace, h.Name, h.Step}
		if taken[at] || h.NotBefore.After(now) {
			continue
		}
		taken[at] = true // two jobs may want the same item
		if h.Step != feed.Match || h.Alone {
			all = append(all, bundled{h})
			continue
		}
		if matches = append(matches, h); len(matches) == batch {
			all, matches = append(all, matches), nil
		}
	}
	if len(matches) > 0 {
		all = append(all, matches)
	}
	return all
}

func itemOf(o Offer, b bundled) feed.Item {
	h := b[0]
	item := feed.Item{
		Namespace: o.Namespace, Name: h.Name, Step: h.Step, Registry: o.RegistryUID, Priority: o.Priority, Concurrent: o.Concurrent, Interactive: o.Interactive,
		Since: h.Since, NotBefore: h.NotBefore, Content: h.Content, Bytes: h.Bytes, Images: len(b), Alone: h.Alone,
	}
	if h.Step != feed.Match {
		item.Host = o.Host
	}
	return item
}

// Counts are for metrics: what waits and what is in flight, by step.
func (f *Feeder) Counts() (waiting, inFlight map[queue.Step]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	waiting, inFlight = map[queue.Step]int{}, map[queue.Step]int{}
	for _, o := range f.offers {
		for _, h := range o.Heads {
			waiting[stepNames[h.Step]]++
		}
	}
	for _, at := range f.flights {
		inFlight[stepNames[at.item.Step]] += len(at.names)
	}
	return waiting, inFlight
}

// Paused counts accounts at hosts that are left alone.
func (f *Feeder) Paused() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	count, now := 0, f.clock.Now()
	for _, p := range f.paused {
		if p.until.After(now) {
			count++
		}
	}
	return count
}

// Explain says why nothing is let in although something waits; "": there is a worker.
func (f *Feeder) Explain(adapter string) string {
	adapters := f.Adapters()
	if len(adapters) == 0 {
		return "no worker has spoken in the last 30 s: look at the pods of registry-worker"
	}
	if _, found := adapters[adapter]; !found {
		names := slices.SortedFunc(maps.Keys(adapters), cmp.Compare[string])
		return fmt.Sprintf("no worker has the adapter %q; they have %v", adapter, names)
	}
	return ""
}
