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
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/queue"
	"github.com/scanyard/scanyard/operator/internal/rbac"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// Storage is what the life of a Scan needs of object storage.
type Storage interface {
	PresignUpload(ctx context.Context, o store.Owner, filename string, expiry time.Duration) (string, error)
	PresignDownload(ctx context.Context, o store.Owner, filename string, expiry time.Duration) (string, error)
	// PresignLink signs links for people, who may reach the storage under another name.
	PresignLink(ctx context.Context, method string, o store.Owner, filename string, expiry time.Duration) (string, error)
	// Exists says whether a file is stored; not being there is no error.
	Exists(ctx context.Context, o store.Owner, filename string) (bool, error)
	// Modified says whether and since when a file is stored; not being there is no error.
	Modified(ctx context.Context, o store.Owner, filename string) (time.Time, bool, error)
	// OwnsFolder says whether all that lies below one folder is the Scan's, so that further
	// files there go with it.
	OwnsFolder(o store.Owner) bool
	// Read returns a file of at most limit bytes; not being there, or being larger, is no error.
	Read(ctx context.Context, o store.Owner, filename string, limit int64) ([]byte, bool, error)
	// Remove removes all of a Scan; what is not there is no error.
	Remove(ctx context.Context, o store.Owner, rawResultFile string) error
}

// Expiry is how long the presigned URLs of each phase are good.
type Expiry struct{ Scan, Parser, Hook time.Duration }

// Options are what a Reconciler is made of.
type Options struct {
	// Client reads from the cache and waits there for its own writes.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Events   events.EventRecorder
	Clock    clock.PassiveClock
	Storage  Storage
	Settings life.Settings
	Expiry   Expiry
	Jobs     jobs.Config
	// Tenancy tells what the settings of a namespace say; nil means that there are none.
	Tenancy Tenancy
	// Access says whose pods share a ServiceAccount.
	Access rbac.Mode
	// Namespaces are the only ones that the operator works in; none means all.
	Namespaces []string
	Metrics    *Metrics
	// Queue lets Scans begin. Without one there are no limits.
	Queue *queue.Queue
	// Health tells when storage is away; nil where nobody looks.
	Health Health
}

// Reconciler leads Scans through their lives.
type Reconciler struct {
	client   client.Client
	live     client.Reader
	events   events.EventRecorder
	clock    clock.PassiveClock
	store    Storage
	catalog  *catalog.Catalog
	lineage  *lineage
	mirrors  *catalog.Mirrors
	access   *rbac.Access
	settings life.Settings
	expiry   Expiry
	jobs     jobs.Config
	metrics  *Metrics
	queue    *queue.Queue
	ledger   *ledger
	health   Health
	tenancy  Tenancy
	// speakers holds the pods of parsers and hooks that have ended well. Nil without a manager: then the API is asked.
	speakers cache.Cache
}

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler {
	if o.Queue == nil {
		o.Queue = queue.New(queue.Options{Clock: o.Clock})
	}
	o.Settings.Namespaces = o.Namespaces
	return &Reconciler{
		queue: o.Queue, ledger: newLedger(), health: o.Health,
		client: o.Client, live: o.Live, events: o.Events, clock: o.Clock, store: o.Storage,
		catalog:  catalog.New(o.Client),
		lineage:  newLineage(),
		mirrors:  catalog.NewMirrors(o.Client, o.Client),
		access:   rbac.New(o.Live, o.Client, o.Clock, o.Access),
		settings: o.Settings, expiry: o.Expiry, jobs: o.Jobs, metrics: o.Metrics,
		tenancy: o.Tenancy,
	}
}

// Reconcile takes one look at a Scan and does what is next.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if o == nil {
		return reconcile.Result{}, err
	}
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
	case err == nil:
		return reconcile.Result{RequeueAfter: d.RequeueAfter}, nil
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		// Nothing can be created any more, and the Scan is about to be deleted.
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		// Somebody else has written the Scan; its new version comes by watch, and the
		// queue brings us back in any case.
		log.FromContext(ctx).V(1).Info("The Scan has changed meanwhile", "step", d.Step)
		return reconcile.Result{RequeueAfter: life.ConflictRetry}, nil
	default:
		return reconcile.Result{}, err
	}
}

// leaveQueue gives the slot back of a Scan that did not begin in a pass, and counts how long it had
// waited where it did.
func (r *Reconciler) leaveQueue(o *life.Observation, d *life.Decision, err error) {
	if err == nil && d.StartsScanner() && o.Turn.Limited && !o.Turn.Delegated {
		r.metrics.began(o.Scan, o.Now)
	}
	why := queue.Unready
	if d.AddFinalizer || apierrors.IsConflict(err) {
		why = queue.Interrupted // the next pass follows at once
	}
	r.queue.Release(o.Scan.UID, why)
}

// reportOutage shows on the Scan that storage keeps it from going on. The pass is tried
// again with a growing pause.
func (r *Reconciler) reportOutage(ctx context.Context, o *life.Observation, outage *store.Error) error {
	o.StorageError = outage.Error()
	d := life.Decide(o)
	if d.Status == nil {
		r.sendEvents(o, &d, o.Scan.Status.State)
		return nil
	}
	err := r.writeStatus(ctx, o, &d)
	if apierrors.IsConflict(err) {
		return nil // the next try tells it
	}
	return err
}
