// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Authority writes the authority of the operator's certificate into the ValidatingWebhookConfiguration and the
// MutatingWebhookConfiguration of the release.
type Authority struct {
	// Client reads from a cache that holds the two configurations; see [CacheOptions].
	Client client.Client
	// Name is the name of both configurations.
	Name string
	// CA is the authority, PEM.
	CA []byte
}

// CacheOptions make the cache hold only the two configurations: the operator may not list others.
func CacheOptions(name string) map[client.Object]cache.ByObject {
	own := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
	return map[client.Object]cache.ByObject{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: own,
		&admissionregistrationv1.MutatingWebhookConfiguration{}:   own,
	}
}

// SetupWithManager starts the watches.
func (a *Authority) SetupWithManager(mgr ctrl.Manager) error {
	return errors.Join(
		ctrl.NewControllerManagedBy(mgr).Named("webhook-authority").
			For(&admissionregistrationv1.ValidatingWebhookConfiguration{}).Complete(reconcile.Func(a.reconcileValidating)),
		ctrl.NewControllerManagedBy(mgr).Named("webhook-authority-mutating").
			For(&admissionregistrationv1.MutatingWebhookConfiguration{}).Complete(reconcile.Func(a.reconcileMutating)),
	)
}

func (a *Authority) reconcileValidating(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := a.Client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := config.DeepCopy()
	called := make([]*admissionregistrationv1.WebhookClientConfig, len(config.Webhooks))
	for i := range config.Webhooks {
		called[i] = &config.Webhooks[i].ClientConfig
	}
	return ctrl.Result{}, a.write(ctx, before, config, called)
}

func (a *Authority) reconcileMutating(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := a.Client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := config.DeepCopy()
	called := make([]*admissionregistrationv1.WebhookClientConfig, len(config.Webhooks))
	for i := range config.Webhooks {
		called[i] = &config.Webhooks[i].ClientConfig
	}
	return ctrl.Result{}, a.write(ctx, before, config, called)
}

// write writes the authority if a configuration has another one, or none.
func (a *Authority) write(ctx context.Context, before, config client.Object, called []*admissionregistrationv1.WebhookClientConfig) error {
	changed := false
	for _, c := range called {
		changed = changed || !bytes.Equal(c.CABundle, a.CA)
		c.CABundle = a.CA
	}
	if !changed {
		return nil
	}
	// A merge patch replaces a list as a whole; the precondition keeps what another client has just written.
	if err := a.Client.Patch(ctx, config, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the authority into %T %s: %w", config, config.GetName(), err)
	}
	return nil
}
