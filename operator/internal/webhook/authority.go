// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Authority writes the authority of the operator's certificate into a ValidatingWebhookConfiguration.
type Authority struct {
	// Client reads from a cache that holds the one configuration; see [CacheOptions].
	Client client.Client
	// Name is the name of the configuration.
	Name string
	// CA is the authority, PEM.
	CA []byte
}

// CacheOptions make the cache hold only the configuration: the operator may not list others.
func CacheOptions(name string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}: {Field: fields.OneTermEqualSelector("metadata.name", name)},
	}
}

// SetupWithManager starts the watch.
func (a *Authority) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("webhook-authority").
		For(&admissionregistrationv1.ValidatingWebhookConfiguration{}).Complete(a)
}

// Reconcile writes the authority if the configuration has another one, or none.
func (a *Authority) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var config admissionregistrationv1.ValidatingWebhookConfiguration
	if err := a.Client.Get(ctx, req.NamespacedName, &config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := config.DeepCopy()
	for i := range config.Webhooks {
		config.Webhooks[i].ClientConfig.CABundle = a.CA
	}
	if same(before, &config) {
		return ctrl.Result{}, nil
	}
	// A merge patch replaces a list as a whole; the precondition keeps what another client has just written.
	if err := a.Client.Patch(ctx, &config, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return ctrl.Result{}, fmt.Errorf("write the authority into ValidatingWebhookConfiguration %s: %w", req.Name, err)
	}
	return ctrl.Result{}, nil
}

func same(a, b *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	for i := range a.Webhooks {
		if !bytes.Equal(a.Webhooks[i].ClientConfig.CABundle, b.Webhooks[i].ClientConfig.CABundle) {
			return false
		}
	}
	return true
}
