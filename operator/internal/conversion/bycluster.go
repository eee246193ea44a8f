// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"
	"fmt"
	"slices"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// clusterPatience is enough for many settings. After it the operator migrates: the controller of the cluster may be switched off.
	clusterPatience = 5 * time.Minute
	clusterPoll     = time.Second
)

// byCluster asks the cluster to migrate, with a StorageVersionMigration of storagemigration.k8s.io/v1 (Kubernetes 1.37). False: the
// cluster does not have the kind, the operator may not create it, or the migration failed or did not end in time.
func (m *Migration) byCluster(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	if m.ClusterPatience == 0 {
		return false, nil
	}
	wanted := &storagemigrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: "scanyard-" + crd.Spec.Names.Plural},
		Spec:       storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}},
	}
	asked := wanted.DeepCopy()
	err := m.Client.Create(ctx, asked)
	if apierrors.IsAlreadyExists(err) {
		asked, err = m.renew(ctx, wanted)
	}
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("create StorageVersionMigration %s: %w", wanted.Name, err)
	}
	succeeded, err := m.await(ctx, asked)
	if err != nil {
		return false, err
	}
	if err := m.remove(ctx, asked); err != nil {
		return false, err
	}
	if !succeeded {
		log.FromContext(ctx).Info("The cluster has not migrated settings; the operator migrates them", "crd", crd.Name, "patience", m.ClusterPatience)
	}
	return succeeded, nil
}

// renew returns the existing StorageVersionMigration, which an earlier leader may have created. One that has ended belongs to an earlier change
// of versions: renew deletes it and creates another.
func (m *Migration) renew(ctx context.Context, wanted *storagemigrationv1.StorageVersionMigration) (*storagemigrationv1.StorageVersionMigration, error) {
	found := &storagemigrationv1.StorageVersionMigration{}
	if err := m.Client.Get(ctx, client.ObjectKeyFromObject(wanted), found); err != nil {
		return nil, err
	}
	if !ended(found) {
		return found, nil
	}
	if err := m.remove(ctx, found); err != nil {
		return nil, err
	}
	return wanted, m.Client.Create(ctx, wanted)
}

func (m *Migration) remove(ctx context.Context, asked *storagemigrationv1.StorageVersionMigration) error {
	if err := client.IgnoreNotFound(m.Client.Delete(ctx, asked, client.Preconditions{UID: &asked.UID})); err != nil {
		return fmt.Errorf("delete StorageVersionMigration %s: %w", asked.Name, err)
	}
	return nil
}

// ended says whether the cluster is done with a migration, well or not. A migration that has succeeded is Running until the cluster has
// written the stored versions into the CRD.
func ended(asked *storagemigrationv1.StorageVersionMigration) bool {
	terminal := has(asked, storagemigrationv1.MigrationSucceeded) || has(asked, storagemigrationv1.MigrationFailed)
	return terminal && !has(asked, storagemigrationv1.MigrationRunning)
}

func has(asked *storagemigrationv1.StorageVersionMigration, condition storagemigrationv1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(asked.Status.Conditions, string(condition))
}

// await waits until a migration ends. False: the migration failed, or did not end in time.
func (m *Migration) await(ctx context.Context, asked *storagemigrationv1.StorageVersionMigration) (bool, error) {
	within, cancel := context.WithTimeout(ctx, m.ClusterPatience)
	defer cancel()
	err := wait.PollUntilContextCancel(within, clusterPoll, true, func(ctx context.Context) (bool, error) {
		if err := m.Client.Get(ctx, client.ObjectKeyFromObject(asked), asked); err != nil {
			return false, err
		}
		return ended(asked), nil
	})
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return false, nil // only the patience has ended
	}
	if err != nil {
		return false, fmt.Errorf("wait for StorageVersionMigration %s: %w", asked.Name, err)
	}
	return has(asked, storagemigrationv1.MigrationSucceeded), nil
}

// reread reads a CRD after the cluster has migrated its objects.
func (m *Migration) reread(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	if err := m.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
		return fmt.Errorf("get CRD: %w", err)
	}
	if !slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage && v.Name == newest }) {
		return fmt.Errorf("CRD %s does not store %s any longer", crd.Name, newest)
	}
	return nil
}
