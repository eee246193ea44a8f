// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
)

// Fairness says how a flood of one namespace is measured against others.
type Fairness struct {
	// Tenants is how many small namespaces there are, Each how many Scans they start.
	Tenants, Each int
	// Flood is how many Scans another namespace has waiting.
	Flood int
	// Limit is how many Scans the cluster runs at a time.
	Limit int
}

// Fair is what was seen.
type Fair struct {
	// Alone and Beside are how long it took, from the creation of the first Scan of a small
	// namespace to the end of its last, without the flood and beside it.
	Alone, Beside []time.Duration
	// LateAlone and LateBeside are the same for one namespace by itself.
	LateAlone, LateBeside time.Duration
	// FloodStarted is how many Scans of the flood started while the small namespaces' were
	// there to start, FloodLeft how many of them waited still when these had ended.
	FloodStarted, FloodLeft int
	// MostRunning is how many Scans were seen to run at a time at the most.
	MostRunning int
}

// Ratio compares how long namespaces took beside the flood and without it: in the middle,
// and of those that took longest.
func (f *Fair) Ratio() (median, worst float64) {
	middle, last := func(d []time.Duration) time.Duration { return d[len(d)/2] }, func(d []time.Duration) time.Duration { return d[len(d)-1] }
	of := func(pick func([]time.Duration) time.Duration) float64 {
		return pick(f.Beside).Seconds() / pick(f.Alone).Seconds()
	}
	return of(middle), of(last)
}

// flooded is the namespace with many Scans.
const flooded = "flood"

// RunFairness measures how small namespaces get on beside a large one.
func RunFairness(ctx context.Context, o Options, f Fairness) (*Fair, error) {
	cluster, err := localcluster.Start(ctx, localcluster.Options{
		Binary: filepath.Join(o.Bin, "localcluster"), JobSyncs: o.JobSyncs,
		Node: localcluster.NodeOptions{SimNodes: o.SimNodes, SimDelay: localcluster.Duration(time.Millisecond)},
	})
	if err != nil {
		return nil, err
	}
	defer cluster.Stop()
	o.Limit = f.Limit
	b, err := newRun(ctx, o, cluster)
	if err != nil {
		return nil, err
	}
	defer b.operator.stop()
	r := &fairRun{run: b, Fairness: f, tally: newTally(ctx, b.client)}
	return r.measure(ctx)
}

// fairRun is a cluster under measurement.
type fairRun struct {
	*run
	Fairness

	tally *tally
	wave  int
}

func (r *fairRun) measure(ctx context.Context) (*Fair, error) {
	names := []string{flooded}
	for i := range r.Tenants {
		names = append(names, fmt.Sprintf("team-%02d", i))
	}
	for _, n := range names {
		if err := prepare(ctx, r.client, n, r.o); err != nil {
			return nil, err
		}
	}
	small := names[1:]
	r.say("one Scan of each namespace, so that what each needs once is there\n")
	if _, err := r.let(ctx, names, 1); err != nil {
		return nil, err
	}
	var out Fair
	var err error
	if out.Alone, err = r.let(ctx, small, r.Each); err != nil {
		return nil, err
	}
	r.say("%d namespaces with %d Scans each, idle cluster: median %s, longest %s\n", r.Tenants, r.Each, middle(out.Alone), out.Alone[len(out.Alone)-1])
	if out.LateAlone, err = r.letOne(ctx, small[0]); err != nil {
		return nil, err
	}
	r.say("one of them by itself, idle cluster: %s\n", out.LateAlone)
	if err := r.flood(ctx); err != nil {
		return nil, err
	}
	before := r.tally.of(flooded)
	if out.Beside, err = r.let(ctx, small, r.Each); err != nil {
		return nil, err
	}
	after := r.tally.of(flooded)
	out.FloodStarted, out.FloodLeft = after.started-before.started, after.created-after.started
	r.say("%d namespaces with %d Scans each, beside the flood: median %s, longest %s; %d of the flood started, %d wait still\n",
		r.Tenants, r.Each, middle(out.Beside), out.Beside[len(out.Beside)-1], out.FloodStarted, out.FloodLeft)
	if out.LateBeside, err = r.letOne(ctx, small[0]); err != nil {
		return nil, err
	}
	r.say("one of them by itself, beside the flood: %s\n", out.LateBeside)
	out.MostRunning = r.tally.most()
	return &out, nil
}

func (r *fairRun) say(format string, args ...any) { fmt.Fprintf(r.o.Out, format, args...) }

func middle(d []time.Duration) time.Duration { return d[len(d)/2] }

// flood has the one namespace fill the queue.
func (r *fairRun) flood(ctx context.Context) error {
	before, err := r.operator.read(ctx)
	if err != nil {
		return err
	}
	began, ended := time.Now(), r.tally.total().ended
	if err := r.create(ctx, []string{flooded}, r.Flood); err != nil {
		return err
	}
	err = r.tally.until(ctx, func() bool { return r.tally.running() >= min(r.Limit, r.Flood) })
	if err != nil {
		return err
	}
	after, err := r.operator.read(ctx)
	if err != nil {
		return err
	}
	r.say("the flood is there: %d Scans created in %s, of which %d have ended; %.2f writes of the operator per Scan created, RSS %d MiB\n",
		r.Flood, time.Since(began).Round(time.Second), r.tally.total().ended-ended, (after.writes-before.writes)/float64(r.Flood), after.rss>>20)
	return nil
}

// let has namespaces start Scans at once, and returns how long each took, sorted.
func (r *fairRun) let(ctx context.Context, namespaces []string, each int) ([]time.Duration, error) {
	r.tally.mark(namespaces)
	if err := r.create(ctx, namespaces, each); err != nil {
		return nil, err
	}
	err := r.tally.until(ctx, func() bool {
		return !slices.ContainsFunc(namespaces, func(n string) bool { return r.tally.spaces[n].sinceMark < each })
	})
	if err != nil {
		return nil, err
	}
	took := r.tally.took(namespaces)
	slices.Sort(took)
	return took, nil
}

func (r *fairRun) letOne(ctx context.Context, namespace string) (time.Duration, error) {
	took, err := r.let(ctx, []string{namespace}, r.Each)
	if err != nil {
		return 0, err
	}
	return took[0], nil
}

// create creates Scans, of all namespaces in turn.
func (r *fairRun) create(ctx context.Context, namespaces []string, each int) error {
	r.wave++
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *executionv1.Scan)
	var workers sync.WaitGroup
	for range creators {
		workers.Go(func() {
			for s := range next {
				if err := r.client.Create(ctx, s); err != nil {
					cancel(fmt.Errorf("create Scan %s: %w", s.Name, err))
					return
				}
			}
		})
	}
create:
	for i := range each {
		for _, n := range namespaces {
			select {
			case next <- scans.New(n, fmt.Sprintf("wave-%d-%05d", r.wave, i), "nmap", "example.com"):
			case <-ctx.Done():
				break create
			}
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// clusterLimit is the settings of the cluster with nothing but a limit.
func clusterLimit(n int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "settings.scanyard.io/v1alpha2", "kind": "ClusterScanSetting", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"limits": map[string]any{"maxRunning": int64(n)}},
	}}
}

// space counts the Scans of one namespace.
type space struct {
	created, started, ended int
	// first is when the first Scan since the mark was created, last when one of them ended.
	first, last time.Time
	sinceMark   int
}

// tally counts what a watch shows of Scans.
type tally struct {
	mu      sync.Mutex
	changed *sync.Cond
	spaces  map[string]*space
	seen    map[string]executionv1.ScanState // by namespace and name: the last state
	peak    int
	failed  string
}

func newTally(ctx context.Context, c client.WithWatch) *tally {
	t := &tally{spaces: map[string]*space{}, seen: map[string]executionv1.ScanState{}}
	t.changed = sync.NewCond(&t.mu)
	follow.Start(ctx, c, &executionv1.ScanList{}, t.scan)
	context.AfterFunc(ctx, t.changed.Broadcast)
	return t
}

func hasBegun(s executionv1.ScanState) bool { return s != executionv1.ScanStateNew }

func hasEnded(s executionv1.ScanState) bool {
	return s == executionv1.ScanStateDone || s == executionv1.ScanStateErrored
}

func (t *tally) scan(s *executionv1.Scan, there bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.space(s.Namespace)
	key := s.Namespace + "/" + s.Name
	before, known := t.seen[key]
	if !there || known && before == s.Status.State {
		return
	}
	now := time.Now()
	if !known {
		n.created++
		if n.first.IsZero() {
			n.first = now
		}
	}
	if !hasBegun(before) && hasBegun(s.Status.State) {
		n.started++
	}
	if !hasEnded(before) && hasEnded(s.Status.State) {
		n.ended++
		n.sinceMark++
		n.last = now
	}
	if s.Status.State == executionv1.ScanStateErrored {
		t.failed = fmt.Sprintf("Scan %s is Errored: %s", key, s.Status.ErrorDescription)
	}
	t.seen[key] = s.Status.State
	t.peak = max(t.peak, t.running())
	t.changed.Broadcast()
}

func (t *tally) space(name string) *space {
	n := t.spaces[name]
	if n == nil {
		n = &space{}
		t.spaces[name] = n
	}
	return n
}

// running is how many Scans have begun and not ended. The lock is held.
func (t *tally) running() int {
	sum := t.sum()
	return sum.started - sum.ended
}

func (t *tally) sum() space {
	var sum space
	for _, n := range t.spaces {
		sum.created += n.created
		sum.started += n.started
		sum.ended += n.ended
	}
	return sum
}

func (t *tally) total() space {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum()
}

func (t *tally) of(name string) space {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *t.space(name)
}

func (t *tally) most() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.peak
}

// mark begins to measure namespaces anew.
func (t *tally) mark(names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		n := t.space(name)
		n.first, n.last, n.sinceMark = time.Time{}, time.Time{}, 0
	}
}

func (t *tally) took(names []string) []time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []time.Duration
	for _, name := range names {
		n := t.space(name)
		out = append(out, n.last.Sub(n.first).Round(time.Millisecond))
	}
	return out
}

// until waits until something holds of the tally.
func (t *tally) until(ctx context.Context, holds func() bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for !holds() {
		if err := cmp.Or(ctx.Err(), failure(t.failed)); err != nil {
			return err
		}
		t.changed.Wait()
	}
	return nil
}

func failure(message string) error {
	if message == "" {
		return nil
	}
	return fmt.Errorf("%s", message)
}

// PrintFairness measures and prints.
func PrintFairness(ctx context.Context, o Options, f Fairness) error {
	fair, err := RunFairness(ctx, o, f)
	if err != nil {
		return err
	}
	median, worst := fair.Ratio()
	_, err = io.WriteString(o.Out, fmt.Sprintf(`
beside the flood / idle cluster: median %.2f, longest %.2f (goal: at most 3)
one namespace by itself:         %.2f
running at a time:               %d at the most, of %d
`, median, worst, fair.LateBeside.Seconds()/fair.LateAlone.Seconds(), fair.MostRunning, f.Limit))
	return err
}
