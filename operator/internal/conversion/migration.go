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
	"k8s.io/apimachinery/pkg/util/sets"
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

// newest is the version in which settings are stored.
var newest = settingsv1alpha2.SchemeGroupVersion.Version

// Migration migrates all stored settings to the newest version, and updates status.storedVersions of their CRDs. It is a Runnable of the leader.
type Migration struct {
	// Client reads without a cache.
	Client client.Client
	Events events.EventRecorder
	// PerSecond bounds the writes of objects.
	PerSecond float32
	// ClusterPatience bounds a migration by the cluster; 0: the operator migrates without asking the cluster.
	ClusterPatience time.Duration
	// RetryAfter is the wait after an attempt that has failed.
	RetryAfter time.Duration

	pending prometheus.Gauge
}

// NewMigration returns a Migration and registers its metric.
func NewMigration(c client.Client, recorder events.EventRecorder, registry prometheus.Registerer) *Migration {
	m := &Migration{Client: c, Events: recorder, PerSecond: perSecond, ClusterPatience: clusterPatience, RetryAfter: retryMigrate}
	m.pending = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "scanyard_settings_migration_pending", Help: "Kinds of settings whose stored objects may still be in an older version.",
	})
	registry.MustRegister(m.pending)
	return m
}

// NeedLeaderElection is true: one replica migrates.
func (*Migration) NeedLeaderElection() bool { return true }

// Start migrates both kinds, and retries a failed attempt. It returns when both are migrated.
func (m *Migration) Start(ctx context.Context) error {
	left := CRDs()
	outdated := sets.New[string]()
	m.pending.Set(float64(len(left)))
	err := wait.PollUntilContextCancel(ctx, m.RetryAfter, true, func(ctx context.Context) (bool, error) {
		left = slices.DeleteFunc(left, func(name string) bool {
			if err := m.attempt(ctx, name, outdated); err != nil {
				if ctx.Err() == nil {
					log.FromContext(ctx).Error(err, "Migrate settings to their newest version", "crd", name)
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

// attempt migrates the objects of one CRD if some may be stored in an older version, and records the Event once none is. It adds to outdated
// the CRDs that it has migrated: the migration can end while its attempt fails, since the cluster writes the status of the CRD as well.
func (m *Migration) attempt(ctx context.Context, name string, outdated sets.Set[string]) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := m.Client.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return fmt.Errorf("get CRD: %w", err)
	}
	if !storesNewestOnly(crd) {
		outdated.Insert(name)
		if err := m.migrate(ctx, crd); err != nil {
			return err
		}
	}
	if outdated.Has(name) {
		m.Events.Eventf(crd, nil, corev1.EventTypeNormal, eventMigrated, "Migrate", "All objects are stored as %s.", newest)
	}
	return nil
}

// storesNewestOnly says whether the status of a CRD names the newest version as the only one that is stored.
func storesNewestOnly(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.Equal(crd.Status.StoredVersions, []string{newest})
}

// migrate migrates the objects of a CRD, by the cluster or object by object, and updates the stored versions in its status.
func (m *Migration) migrate(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	byCluster, err := m.byCluster(ctx, crd)
	if err != nil {
		return err
	}
	if byCluster {
		if err := m.reread(ctx, crd); err != nil || storesNewestOnly(crd) {
			return err
		}
	} else if err := m.rewrite(ctx, crd); err != nil {
		return err
	}
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": crd.ResourceVersion}, "status": map[string]any{"storedVersions": []string{newest}},
	})
	if err != nil {
		return fmt.Errorf("encode the stored versions: %w", err)
	}
	if err := m.Client.Status().Patch(ctx, crd, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return fmt.Errorf("write the stored versions of CRD %s: %w", crd.Name, err)
	}
	return nil
}

// rewrite patches each object with an empty patch: the API server then stores an object of an older version in the newest one. The patch goes
// to the status subresource, so that no webhook of the operator validates it and no spec changes.
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
			if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // a conflicting write has stored the newest version
				return fmt.Errorf("migrate %s %s: %w", crd.Spec.Names.Kind, client.ObjectKeyFromObject(o), err)
			}
		}
		if token = list.Continue; token == "" {
			return nil
		}
	}
}
