// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/feeder"
	"github.com/scanyard/scanyard/registry/internal/job"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/tenancy"
)

const (
	// writeEvery is the least time between two writes of sums, lookLeast that between two looks at the items.
	writeEvery = 5 * time.Second
	lookLeast  = time.Second
	// conflictRetry is when a pass is repeated whose object somebody else has written meanwhile.
	conflictRetry = time.Second
	// mostWaiting bounds the channel of jobs that are to be looked at again: what does not fit is found when the job is looked at anyway.
	mostWaiting = 1024
)

// Options are those of a Reconciler.
type Options struct {
	// Client reads from the cache, Reports has none.
	Client  client.Client
	Reports client.Client
	Feeder  *feeder.Feeder
	Events  events.EventRecorder
	Clock   clock.PassiveClock
	Config  *config.Config
	// Limits tells what is in force for a namespace.
	Limits func(ctx context.Context, namespace string) (tenancy.Limits, error)
	// Away tells what is wrong with the reports API and the queue; "": nothing.
	Away func() (reports, queue string)
	// Zones finds time zones; the name "" is that of the controller.
	Zones func(name string) (*time.Location, error)
	// Cancel tells workers that a job is to end.
	Cancel func(jobUID string) error
	// Unaffected hears, at the end of a ScanJob, how many images it has left alone; nil: nobody does.
	Unaffected func(images int64)
}

// Reconciler runs the jobs of one kind.
type Reconciler struct {
	Options

	kind  job.Kind
	woken chan event.GenericEvent

	mu       sync.Mutex
	looked   map[types.UID]time.Time
	written  map[types.UID]time.Time
	previews map[types.UID]*registryv1alpha1.DiscoveryJobStatus
}

// NewReconciler returns that of a kind.
func NewReconciler(kind job.Kind, o Options) *Reconciler {
	return &Reconciler{
		Options: o, kind: kind, woken: make(chan event.GenericEvent, mostWaiting), looked: map[types.UID]time.Time{}, written: map[types.UID]time.Time{},
		previews: map[types.UID]*registryv1alpha1.DiscoveryJobStatus{},
	}
}

// Wake has a job looked at.
func (r *Reconciler) Wake(namespace, name string) {
	o := r.empty().object()
	o.SetNamespace(namespace)
	o.SetName(name)
	select {
	case r.woken <- event.GenericEvent{Object: o}:
	default: // it is looked at every 30 s in any case
	}
}

// Previewed hears what a dry run has found.
func (r *Reconciler) Previewed(e queue.Ended) {
	if e.Preview == nil || e.Job == "" {
		return
	}
	r.mu.Lock()
	r.previews[types.UID(e.Job)] = e.Preview
	r.mu.Unlock()
}

func (r *Reconciler) empty() anyJob {
	if r.kind == job.Scan {
		return scanJob{&registryv1alpha1.ScanJob{}}
	}
	return discoveryJob{&registryv1alpha1.DiscoveryJob{}}
}

func (r *Reconciler) list(ctx context.Context, namespace string) ([]anyJob, error) {
	var all []anyJob
	if r.kind == job.Scan {
		list := &registryv1alpha1.ScanJobList{}
		if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list ScanJobs: %w", err)
		}
		for i := range list.Items {
			all = append(all, scanJob{&list.Items[i]})
		}
		return all, nil
	}
	list := &registryv1alpha1.DiscoveryJobList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list DiscoveryJobs: %w", err)
	}
	for i := range list.Items {
		all = append(all, discoveryJob{&list.Items[i]})
	}
	return all, nil
}

// Reconcile observes a job once, and does what is to be done.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	a := r.empty()
	if err := r.Client.Get(ctx, request.NamespacedName, a.object()); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("get %s: %w", r.kind, err)
	}
	if wait := r.early(a); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	s, err := r.observe(ctx, a)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := job.Decide(s.observed)
	log.FromContext(ctx).V(1).Info("Decided", "step", d.Step)
	switch err := r.act(ctx, s, d); {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: d.RequeueAfter}, nil
}

// early says how long to wait before a job at work is looked at once more: the end of each item wakes it.
func (r *Reconciler) early(a anyJob) time.Duration {
	uid := a.object().GetUID()
	now := r.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.isEnded() || !a.object().GetDeletionTimestamp().IsZero() {
		delete(r.looked, uid)
		delete(r.written, uid)
		delete(r.previews, uid)
		return 0
	}
	if a.spec().Cancel {
		return 0
	}
	return r.looked[uid].Add(lookLeast).Sub(now)
}
