// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/decisions"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/queue"
	"github.com/scanyard/scanyard/operator/internal/rbac"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// Storage is the part of object storage that the life of a Scan needs.
type Storage interface {
	PresignUpload(ctx context.Context, o store.Owner, filename string, expiry time.Duration) (string, error)
	PresignDownload(ctx context.Context, o store.Owner, filename string, expiry time.Duration) (string, error)
	// PresignLink signs links for people, who may reach the storage under another name.
	PresignLink(ctx context.Context, method string, o store.Owner, filename string, expiry time.Duration) (string, error)
	// Exists reports whether a file is stored; a missing file is not an error.
	Exists(ctx context.Context, o store.Owner, filename string) (bool, error)
	// Modified returns whether and since when a file is stored; a missing file is not an error.
	Modified(ctx context.Context, o store.Owner, filename string) (time.Time, bool, error)
	// OwnsFolder reports whether everything below one folder belongs to the Scan, so that further
	// files there are removed with it.
	OwnsFolder(o store.Owner) bool
	// Read returns a file of at most limit bytes; a missing or larger file is not an error.
	Read(ctx context.Context, o store.Owner, filename string, limit int64) ([]byte, bool, error)
	// Write stores a file.
	Write(ctx context.Context, o store.Owner, filename string, text []byte) error
	// Remove removes all stored files of a Scan, the files in last after all others; missing files are not an error.
	Remove(ctx context.Context, o store.Owner, rawResultFile string, last ...string) error
}

// Expiry is how long the presigned URLs of each phase are valid.
type Expiry struct{ Scan, Parser, Hook time.Duration }

// Options are the options of a Reconciler.
type Options struct {
	// Client reads from the cache and waits there for its own writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Accounts reads accounts and their rights, see rbac.NewReader; nil means Live.
	Accounts client.Reader
	Events   events.EventRecorder
	Clock    clock.PassiveClock
	Storage  Storage
	Settings life.Settings
	Expiry   Expiry
	Jobs     jobs.Config
	// Tenancy returns the settings of a namespace; nil means that there are none.
	Tenancy Tenancy
	// Access knows which pods share a ServiceAccount.
	Access rbac.Mode
	// Namespaces are the only namespaces that the operator works in; an empty list means all.
	Namespaces []string
	Metrics    *Metrics
	// Queue decides when Scans begin. Without one there are no limits.
	Queue *queue.Queue
	// Health reports outages of storage; nil where storage is not checked.
	Health Health
	// Decisions is told what was decided; nil where nobody wants to know.
	Decisions *decisions.Log
}

// Reconciler leads Scans through their lives.
type Reconciler struct {
	client       client.Client
	live         client.Reader
	events       events.EventRecorder
	clock        clock.PassiveClock
	store        Storage
	catalog      *catalog.Catalog
	previousRuns *previousRuns
	mirrors      *catalog.Mirrors
	access       *rbac.Access
	settings     life.Settings
	expiry       Expiry
	jobs         jobs.Config
	metrics      *Metrics
	queue        *queue.Queue
	ledger       *ledger
	health       Health
	tenancy      Tenancy
	decisions    *decisions.Log
	// endedPods holds the succeeded pods of parsers and hooks. Nil without a manager: then the API is asked.
	endedPods cache.Cache
}

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler {
	if o.Queue == nil {
		o.Queue = queue.New(queue.Options{Clock: o.Clock})
	}
	if o.Accounts == nil {
		o.Accounts = o.Live
	}
	o.Settings.Namespaces = o.Namespaces
	return &Reconciler{
		queue: o.Queue, ledger: newLedger(), health: o.Health,
		client: o.Client, live: o.Live, events: o.Events, clock: o.Clock, store: o.Storage,
		catalog:      catalog.New(o.Client),
		previousRuns: newPreviousRuns(),
		mirrors:      catalog.NewMirrors(o.Client, o.Client),
		access:       rbac.New(o.Accounts, o.Client, o.Clock, o.Access),
		settings:     o.Settings, expiry: o.Expiry, jobs: o.Jobs, metrics: o.Metrics,
		tenancy: o.Tenancy, decisions: o.Decisions,
	}
}

// Reconcile observes a Scan once and takes the next step.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if o == nil {
		return reconcile.Result{}, err
	}
	awaits := r.ledger.awaits(o.Scan.UID)
	var d life.Decision
	if err == nil {
		d = life.Decide(o)
		d.PutBack(o)
		d.ReportOutage(o)
		log.FromContext(ctx).V(1).Info("Decided", "step", d.Step, "state", o.Scan.Status.State)
		err = r.act(ctx, o, &d)
	}
	r.leaveQueue(o, &d, err)
	if outage, ok := errors.AsType[*store.Error](err); ok {
		return reconcile.Result{}, errors.Join(err, r.reportOutage(ctx, o, outage))
	}
	switch {
	case err == nil && awaits && (d.RequeueAfter == 0 || d.RequeueAfter > madeTrusted):
		return reconcile.Result{RequeueAfter: madeTrusted}, nil // the Job may have gone before any watch has shown it
	case err == nil:
		return reconcile.Result{RequeueAfter: d.RequeueAfter}, nil
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		// No object can be created any more, and the Scan is about to be deleted.
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		// Another client has written the Scan; its new version comes by watch, and RequeueAfter
		// enqueues the Scan in any case.
		log.FromContext(ctx).V(1).Info("The Scan has changed meanwhile", "step", d.Step)
		return reconcile.Result{RequeueAfter: life.ConflictRetry}, nil
	default:
		return reconcile.Result{}, err
	}
}

// leaveQueue releases the slot of a Scan that did not begin in a pass, and observes how long a Scan
// that began had waited.
func (r *Reconciler) leaveQueue(o *life.Observation, d *life.Decision, err error) {
	if err == nil && d.StartsScanner() && o.Turn.Limited && !o.Turn.Delegated {
		r.metrics.began(o.Scan, o.Now)
		r.decisions.ScanStarted(o.Scan, o.Now.Sub(queue.WaitsSince(o.Scan)))
	}
	why := queue.Unready
	if d.AddFinalizer || apierrors.IsConflict(err) {
		why = queue.Interrupted // the next pass follows at once
	}
	r.queue.Release(o.Scan.UID, why)
}

// reportOutage shows on the Scan that an outage of storage keeps it from continuing. The pass is
// retried with a growing pause.
func (r *Reconciler) reportOutage(ctx context.Context, o *life.Observation, outage *store.Error) error {
	o.StorageError = outage.Error()
	d := life.Decide(o)
	if d.Status == nil {
		r.sendEvents(o, &d, o.Scan.Status.State)
		return nil
	}
	err := r.writeStatus(ctx, o, &d)
	if apierrors.IsConflict(err) {
		return nil // the next try reports the outage
	}
	return err
}
