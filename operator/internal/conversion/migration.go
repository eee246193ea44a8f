// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

const (
	pageSize     = 500
	perSecond    = 20
	retryMigrate = 30 * time.Second
	// eventMigrated is the reason of the Event on the CRD.
	eventMigrated = "StorageVersionMigrated"
)

// Migration has all settings stored in the newest version, and says so in their CRDs. It is a Runnable of the leader.
type Migration struct {
	// Client reads and writes live.
	Client client.Client
	Events events.EventRecorder
	// PerSecond bounds the writes; 0 is 20.
	PerSecond float32
	// ClusterPatience is how long the cluster may take where it migrates by itself; 0: it is not asked.
	ClusterPatience time.Duration

	pending prometheus.Gauge
}

// NewMigration returns a Migration and registers its metric.
func NewMigration(c client.Client, recorder events.EventRecorder, registry prometheus.Registerer) *Migration {
	m := &Migration{Client: c, Events: recorder, PerSecond: perSecond, ClusterPatience: clusterPatience, pending: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "scanyard_settings_migration_pending", Help: "Kinds of settings whose stored objects may still be in an older version.",
	})}
	registry.MustRegister(m.pending)
	return m
}

// NeedLeaderElection is true: one replica is enough.
func (*Migration) NeedLeaderElection() bool { return true }

// Start migrates both kinds, and tries again where that fails. It returns when both are done.
func (m *Migration) Start(ctx context.Context) error {
	left := CRDs()
	m.pending.Set(float64(len(left)))
	err := wait.PollUntilContextCancel(ctx, retryMigrate, true, func(ctx context.Context) (bool, error) {
		left = slices.DeleteFunc(left, func(name string) bool {
			if err := m.migrate(ctx, name); err != nil {
				if ctx.Err() == nil {
					log.FromContext(ctx).Error(err, "Store settings in their newest version", "crd", name)
				}
				return false
			}
			return true
		})
		m.pending.Set(float64(len(left)))
		return len(left) == 0, nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the operator ends; the next leader goes on
	}
	return err
}

// migrate has the objects of one CRD stored in its newest version.
func (m *Migration) migrate(ctx context.Context, name string) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := m.Client.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return fmt.Errorf("get CRD: %w", err)
	}
	newest := settingsv1alpha2.SchemeGroupVersion.Version
	if slices.Equal(crd.Status.StoredVersions, []string{newest}) {
		return nil
	}
	byCluster, err := m.byCluster(ctx, crd)
	if err != nil {
		return err
	}
	if !byCluster {
		if err := m.rewrite(ctx, crd); err != nil {
			return err
		}
	} else if done, err := m.reread(ctx, crd); done || err != nil {
		return err
	}
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": crd.ResourceVersion}, "status": map[string]any{"storedVersions": []string{newest}},
	})
	if err != nil {
		return fmt.Errorf("say which versions are stored: %w", err)
	}
	if err := m.Client.Status().Patch(ctx, crd, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return fmt.Errorf("write which versions of CRD %s are stored: %w", name, err)
	}
	m.tell(crd)
	return nil
}

func (m *Migration) tell(crd *apiextensionsv1.CustomResourceDefinition) {
	m.Events.Eventf(crd, nil, corev1.EventTypeNormal, eventMigrated, "Migrate", "All objects are stored as %s.", settingsv1alpha2.SchemeGroupVersion.Version)
}

// rewrite puts each object back unchanged: the API server writes those that are stored in another version. It is the
// status that is put back, so that no validation of ours is asked, and no spec is touched.
func (m *Migration) rewrite(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(settingsv1alpha2.SchemeGroupVersion.WithKind(crd.Spec.Names.ListKind))
	limit := flowcontrol.NewTokenBucketRateLimiter(m.PerSecond, 1)
	defer limit.Stop()
	for token := ""; ; {
		if err := m.Client.List(ctx, list, client.Limit(pageSize), client.Continue(token)); err != nil {
			return fmt.Errorf("list %s: %w", crd.Spec.Names.Plural, err)
		}
		for i := range list.Items {
			if err := limit.Wait(ctx); err != nil {
				return err
			}
			o := &list.Items[i]
			o.SetGroupVersionKind(settingsv1alpha2.SchemeGroupVersion.WithKind(crd.Spec.Names.Kind))
			err := m.Client.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte("{}")))
			if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // who has written it since has stored the newest version
				return fmt.Errorf("store %s %s anew: %w", crd.Spec.Names.Kind, client.ObjectKeyFromObject(o), err)
			}
		}
		if token = list.Continue; token == "" {
			return nil
		}
	}
}
