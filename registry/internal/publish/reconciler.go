// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// account is whose rights the scanner has; role are its rights where the installation is for the whole cluster.
	account = "registry-findings"
	role    = "scanyard-registry-findings"
	// conflictRetry is when a pass is repeated whose object somebody else has written meanwhile.
	conflictRetry = time.Second
)

// Options are those of a Reconciler.
type Options struct {
	// Client reads from the cache. Direct has none: it asks for Scans, Images, accounts.
	Client, Direct client.Client
	Clock          clock.PassiveClock
}

// Reconciler publishes the findings of Registries.
type Reconciler struct{ Options }

// NewReconciler returns a Reconciler.
func NewReconciler(o Options) *Reconciler { return &Reconciler{o} }

// Reconcile observes a Registry once, and does what is to be done.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o, err := r.observe(ctx, request.NamespacedName)
	if o == nil || err != nil {
		return reconcile.Result{}, err
	}
	d := Decide(*o)
	switch err := r.act(ctx, *o, &d); {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: d.RequeueAfter}, nil
}
