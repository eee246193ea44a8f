// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
	"github.com/scanyard/scanyard/discovery/kubernetes/targets"
)

const eventAction = "Discover"

// EventRefused is the reason of an Event on a namespace where the API server refuses a
// ScheduledScan; its message says why.
const EventRefused = "ScheduledScanRefused"

// Options are what a Reconciler needs.
type Options struct {
	// Client reads from the caches and writes.
	Client  client.Client
	Config  *config.Compiled
	Events  events.EventRecorder
	Clock   clock.PassiveClock
	Metrics *Metrics
	// Gateway says whether the cluster serves the Gateway API.
	Gateway bool
}

// Reconciler keeps the ScheduledScans of namespaces as they should be.
type Reconciler struct {
	Options

	observer observer
	writer   writer
	starts   *rate.Limiter

	mu sync.Mutex
	// namespaces is what is remembered of each; losing it costs nothing but time.
	namespaces map[string]*memory
}

// memory is what is remembered of a namespace between passes.
type memory struct {
	unwanted map[types.NamespacedName]time.Time
	// reported are the causes of Events that were sent and that still hold.
	reported map[string]bool
	// wrote is what was written last, so that nothing is written, and above all no run
	// started, twice where a cache lags behind.
	wrote map[types.NamespacedName]lastWrite
}

// lastWrite is a change that was made.
type lastWrite struct {
	sum string
	at  time.Time
}

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler {
	r := &Reconciler{
		Options:    o,
		observer:   observer{reader: o.Client, config: o.Config, gateway: o.Gateway},
		writer:     writer{client: o.Client, owner: client.FieldOwner(o.Config.FieldOwner())},
		namespaces: map[string]*memory{},
	}
	if n := o.Config.Limits.StartsPerMinute; n > 0 {
		const tenSeconds = 6
		r.starts = rate.NewLimiter(rate.Limit(float64(n)/time.Minute.Seconds()), max(1, n/tenSeconds))
	}
	return r
}

// Reconcile makes one pass over a namespace.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	name := request.Name
	start := r.Clock.Now()
	var namespace corev1.Namespace
	if err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &namespace); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("get Namespace: %w", err)
	}
	m := r.memory(name)
	o, err := r.observe(ctx, &namespace, m)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := targets.Decide(o, r.Config)
	m.unwanted = d.Unwanted
	again, err := r.act(ctx, &d, m)
	r.report(&namespace, &d, m)
	r.Metrics.passed(name, d.Results, r.Clock.Since(start))
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: soonest(r.Config.Resync(), again, d.RequeueAfter)}, nil
}

func soonest(all ...time.Duration) time.Duration {
	first := time.Duration(0)
	for _, d := range all {
		if d > 0 && (first == 0 || d < first) {
			first = d
		}
	}
	return first
}

func (r *Reconciler) memory(namespace string) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.namespaces[namespace]
	if m == nil {
		m = &memory{reported: map[string]bool{}, wrote: map[types.NamespacedName]lastWrite{}}
		r.namespaces[namespace] = m
	}
	return m
}

func (r *Reconciler) forget(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.namespaces, namespace)
	r.Metrics.gone(namespace)
}

func (r *Reconciler) observe(ctx context.Context, namespace *corev1.Namespace, m *memory) (*targets.Observation, error) {
	l, err := r.observer.read(ctx, namespace.Name)
	if err != nil {
		return nil, err
	}
	v := l.observation(namespace, r.Config, r.Clock.Now())
	v.UnwantedSince = m.unwanted
	if r.Config.Limits.MaxScheduledScans > 0 {
		if v.Total, err = r.total(ctx); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// total counts the ScheduledScans of discoveries.
func (r *Reconciler) total(ctx context.Context) (int, error) {
	var all executionv1.ScheduledScanList
	if err := r.Client.List(ctx, &all, shared); err != nil {
		return 0, fmt.Errorf("list ScheduledScans: %w", err)
	}
	n := 0
	for i := range all.Items {
		if e := existing(&all.Items[i], r.Config.FieldOwner()); e.Ours || e.Upstream {
			n++
		}
	}
	return n, nil
}

// act writes the changes. One that is refused keeps no other from being written. It
// returns when those that had to be put off may be written.
func (r *Reconciler) act(ctx context.Context, p *targets.Decision, m *memory) (again time.Duration, err error) {
	log := ctrl.LoggerFrom(ctx)
	maps.DeleteFunc(m.wrote, func(_ types.NamespacedName, w lastWrite) bool { return r.Clock.Since(w.at) >= cacheLag })
	var problems []error
	for _, c := range p.Changes {
		now, sum := r.Clock.Now(), sumOf(c)
		if before := m.wrote[c.Key]; before.sum == sum && now.Sub(before.at) < cacheLag {
			again = soonest(again, cacheLag)
			continue
		}
		if starts(c) && r.starts != nil && !r.starts.AllowN(now, 1) {
			r.Metrics.postponed.Inc()
			again = soonest(again, time.Duration(float64(time.Second)/float64(r.starts.Limit()))+time.Second)
			continue
		}
		err := r.writer.write(ctx, c, now)
		r.Metrics.wrote(c, err)
		switch {
		case err == nil:
			log.Info("ScheduledScan written", "action", c.Action, "scheduledScan", c.Key, "restart", c.Restart)
			m.wrote[c.Key] = lastWrite{sum, now}
		case isRefused(err) && c.Action != targets.Delete:
			r.refused(p, c, err)
			log.Info("ScheduledScan refused", "action", c.Action, "scheduledScan", c.Key, "reason", err.Error())
		default:
			problems = append(problems, fmt.Errorf("%s %s: %w", c.Action, c.Key, err))
		}
	}
	return again, errors.Join(problems...)
}

// starts says whether a change starts a scan.
func starts(c targets.Change) bool { return c.Action == targets.Create || c.Restart }

// cacheLag is how far a cache may be behind what was written.
const cacheLag = 10 * time.Second

// sumOf identifies a change.
func sumOf(c targets.Change) string {
	sum := sha256.New()
	// A change that cannot be encoded as JSON cannot be applied either, and that error is reported.
	_ = json.NewEncoder(sum).Encode([]any{c.Action == targets.Delete, c.Want})
	return string(sum.Sum(nil))
}

// refused makes the API server's error about a change the result of its target.
func (r *Reconciler) refused(p *targets.Decision, c targets.Change, err error) {
	for i := range p.Results {
		if v := &p.Results[i]; v.ScheduledScan == c.Key.Name || v.ScheduledScan == c.Key.String() {
			v.Outcome, v.Reason, v.Message = targets.Waiting, EventRefused, err.Error()
		}
	}
}

// report sends an Event for each cause that a user must remove, once until the cause is gone.
func (r *Reconciler) report(namespace *corev1.Namespace, p *targets.Decision, m *memory) {
	now := map[string]bool{}
	for _, missing := range p.Missing {
		key := string(targets.ScanTypeMissing) + "/" + string(missing.Mode) + "/" + missing.Name
		if now[key] = true; !m.reported[key] {
			r.event(&missing.Object, string(targets.ScanTypeMissing), missing.Message())
			m.reported[key] = true
		}
	}
	for _, v := range p.Results {
		switch v.Reason {
		case targets.TemplateFailed, targets.NameTaken, EventRefused:
		default:
			continue
		}
		key := string(v.Reason) + "/" + v.ScheduledScan
		if now[key] = true; !m.reported[key] {
			r.event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: namespace.Name, UID: namespace.UID}, string(v.Reason),
				fmt.Sprintf("ScheduledScan %s for %s %s: %s", v.ScheduledScan, v.Kind, v.Name, v.Message))
			m.reported[key] = true
		}
	}
	maps.DeleteFunc(m.reported, func(key string, _ bool) bool { return !now[key] })
}

// maxEvent is how long the note of an Event may be.
const maxEvent = 1024

func (r *Reconciler) event(object *corev1.ObjectReference, reason, note string) {
	r.Events.Eventf(object, nil, corev1.EventTypeWarning, reason, eventAction, "%s", text.Cut(note, maxEvent))
}
