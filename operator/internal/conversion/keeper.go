// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// CRDs returns the names of the CRDs whose kinds have two versions.
func CRDs() []string {
	return []string{"scansettings.settings.scanyard.io", "clusterscansettings.settings.scanyard.io"}
}

// retryKeep is the wait after a failed call.
const retryKeep = 5 * time.Second

// Keeper keeps spec.conversion of one CRD as it should be. It is a Runnable of every replica.
type Keeper struct {
	// Client reads and watches without a cache: the operator may not list CRDs.
	Client client.WithWatch
	// Name of the CRD.
	Name string
	// Server is the address of the handler and the authority of its certificate.
	Server apiextensionsv1.WebhookClientConfig
}

// NeedLeaderElection is false: the leader may be a replica that is about to end.
func (*Keeper) NeedLeaderElection() bool { return false }

// Start keeps the CRD until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := k.follow(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Keep the conversion of settings", "crd", k.Name)
		}
	}, retryKeep)
	return nil
}

// follow writes the conversion now and after each change of the CRD, until the watch ends.
func (k *Keeper) follow(ctx context.Context) error {
	if err := k.Write(ctx); err != nil {
		return err
	}
	w, err := k.Client.Watch(ctx, &apiextensionsv1.CustomResourceDefinitionList{}, client.MatchingFields{"metadata.name": k.Name})
	if err != nil {
		return fmt.Errorf("watch CRD: %w", err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if seen, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition); ok && e.Type != watch.Deleted {
			if err := k.Ensure(ctx, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// Write writes the conversion once, so that the API server trusts the authority before a replica serves with its certificate.
func (k *Keeper) Write(ctx context.Context) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := k.Client.Get(ctx, client.ObjectKey{Name: k.Name}, crd); err != nil {
		return fmt.Errorf("get CRD: %w", err)
	}
	return k.Ensure(ctx, crd)
}

// isCurrent says whether a conversion has the address of this server and trusts its authority. The conversion may trust more: an older replica,
// with an older authority, must not undo what a newer replica has written.
func (k *Keeper) isCurrent(now *apiextensionsv1.CustomResourceConversion) bool {
	if now == nil || now.Strategy != apiextensionsv1.WebhookConverter || now.Webhook == nil || now.Webhook.ClientConfig == nil {
		return false
	}
	at := now.Webhook.ClientConfig
	block, _ := pem.Decode(k.Server.CABundle)
	trusted := block != nil && bytes.Contains(at.CABundle, pem.EncodeToMemory(block))
	return trusted && equality.Semantic.DeepEqual(at.Service, k.Server.Service) && equality.Semantic.DeepEqual(at.URL, k.Server.URL)
}

// Ensure writes the conversion if the CRD has none or another one.
func (k *Keeper) Ensure(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	want := &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: &k.Server, ConversionReviewVersions: []string{"v1"}},
	}
	if k.isCurrent(crd.Spec.Conversion) {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"conversion": want}})
	if err != nil {
		return fmt.Errorf("encode the conversion of CRD %s: %w", crd.Name, err)
	}
	if err := k.Client.Patch(ctx, crd.DeepCopy(), client.RawPatch(types.MergePatchType, raw)); err != nil {
		return fmt.Errorf("write the conversion of CRD %s: %w", crd.Name, err)
	}
	return nil
}
