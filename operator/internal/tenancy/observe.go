// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/tenancy/inforce"
)

// observe reads what the decision needs; nil if the settings are gone. A key without a namespace names
// the settings of the cluster.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*inforce.Observation, error) {
	o := &inforce.Observation{Now: r.clock.Now()}
	namespace := key.Namespace
	if namespace != "" {
		o.Setting = &settingsv1alpha2.ScanSetting{}
		if err := r.client.Get(ctx, key, o.Setting); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		key = types.NamespacedName{Name: settingsv1alpha2.Name}
	}
	cluster := &settingsv1alpha2.ClusterScanSetting{}
	switch err := r.client.Get(ctx, key, cluster); {
	case err == nil:
		o.Cluster = cluster
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("get ClusterScanSetting: %w", err)
	case o.Setting == nil:
		return nil, nil
	}
	if o.NeedsInstalled() {
		var err error
		if o.Installed, err = ListInstalled(ctx, r.client, namespace); err != nil {
			return nil, err
		}
	}
	if at, check := o.Storage(); check {
		o.StorageError = r.places.CheckPlace(ctx, namespace, PlaceOf(at))
	}
	return o, nil
}
