// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/scanyard/scanyard/operator/internal/access"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/jobs"
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
	Settings Settings
	Expiry   Expiry
	Jobs     jobs.Config
	// Tenancy tells what the settings of a namespace say; nil means that there are none.
	Tenancy Tenancy
	// Access says whose pods share a ServiceAccount.
	Access access.Mode
	// Namespaces are the only ones that the operator works in; none means all.
	Namespaces []string
	Metrics    *Metrics
	// Gate lets Scans begin. Without one there are no limits.
	Gate *Gate
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
	access   *access.Access
	settings Settings
	expiry   Expiry
	jobs     jobs.Config
	metrics  *Metrics
	gate     *Gate
	tenancy  Tenancy
	// namespaces are the only ones that the operator works in; none means all.
	namespaces []string
}

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler {
	if o.Gate == nil {
		o.Gate = NewGate(GateOptions{Clock: o.Clock})
	}
	return &Reconciler{
		gate:   o.Gate,
		client: o.Client, live: o.Live, events: o.Events, clock: o.Clock, store: o.Storage,
		catalog:  catalog.New(o.Client),
		lineage:  newLineage(),
		mirrors:  catalog.NewMirrors(o.Client, o.Client),
		access:   access.New(o.Live, o.Client, o.Clock, o.Access),
		settings: o.Settings, expiry: o.Expiry, jobs: o.Jobs, metrics: o.Metrics, namespaces: o.Namespaces,
		tenancy: o.Tenancy,
	}
}

// Reconcile takes one look at a Scan and does what is next.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, req.NamespacedName)
	if o == nil {
		return reconcile.Result{}, err
	}
	var d decision
	if err == nil {
		d = decide(o)
		log.FromContext(ctx).V(1).Info("Decided", "step", d.step, "state", o.scan.Status.State)
		err = r.act(ctx, o, &d)
	}
	r.afterPass(o, &d, err)
	if outage, ok := errors.AsType[*store.Error](err); ok {
		return reconcile.Result{}, errors.Join(err, r.tellOutage(ctx, o, outage))
	}
	switch {
	case err == nil:
		return reconcile.Result{RequeueAfter: d.requeueAfter}, nil
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		// Nothing can be created any more, and the Scan is about to be deleted.
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		// Somebody else has written the Scan; its new version comes by watch, and the
		// queue brings us back in any case.
		log.FromContext(ctx).V(1).Info("The Scan has changed meanwhile", "step", d.step)
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	default:
		return reconcile.Result{}, err
	}
}

// tellOutage shows on the Scan that storage keeps it from going on. The pass is tried
// again with a growing pause.
func (r *Reconciler) tellOutage(ctx context.Context, o *observed, outage *store.Error) error {
	d := decideOutage(o, outage.Error())
	if d.status == nil {
		return nil
	}
	err := r.writeStatus(ctx, o, &d)
	if apierrors.IsConflict(err) {
		return nil // the next try tells it
	}
	return err
}

// conflictRetry is when a Scan that somebody else wrote at the same moment is looked
// at again, should no watch bring it earlier.
const conflictRetry = 100 * time.Millisecond
