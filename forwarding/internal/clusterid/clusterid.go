// SPDX-License-Identifier: Apache-2.0

// Package clusterid keeps the name under which a cluster is known to far ends: the ConfigMap scanyard-cluster-id, which is made once and never changed.
package clusterid

import (
	"context"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Name of the ConfigMap, and its keys.
const (
	ConfigMap = "scanyard-cluster-id"
	keyID     = "clusterID"
	keySource = "source"
)

// Sources of a cluster ID.
const (
	SourceNamespace = "kube-system"
	SourceValue     = "value"
)

var syntax = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Check tells what is wrong with a configured ID.
func Check(id string) error {
	if !syntax.MatchString(id) {
		return fmt.Errorf("%q must be a UUID in lower case, such as 0c9a7d3e-3f0e-4a54-9a55-8d1f3f5f7a10", id)
	}
	return nil
}

// ID is the cluster ID in force.
type ID struct {
	Value, Source string
	// Foreign is the ID that would be made here today, where the stored one is another: as after a backup of another cluster was restored.
	Foreign string
}

// Get reads the ID.
func Get(ctx context.Context, c client.Reader, namespace string) (ID, error) {
	stored := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ConfigMap}, stored); err != nil {
		return ID{}, fmt.Errorf("get the ConfigMap %s/%s: %w", namespace, ConfigMap, err)
	}
	if err := Check(stored.Data[keyID]); err != nil {
		return ID{}, fmt.Errorf("the ConfigMap %s/%s: clusterID %w; delete the ConfigMap to have it made anew", namespace, ConfigMap, err)
	}
	return ID{Value: stored.Data[keyID], Source: stored.Data[keySource]}, nil
}

// Ensure makes the ID where there is none: the configured one, else the UID of the namespace kube-system. A stored one counts in any case.
func Ensure(ctx context.Context, c client.Client, namespace, configured string) (ID, error) {
	wanted := ID{Value: configured, Source: SourceValue}
	if configured == "" {
		system := &corev1.Namespace{}
		if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
			return ID{}, fmt.Errorf("get the namespace %s: %w", metav1.NamespaceSystem, err)
		}
		wanted = ID{Value: string(system.UID), Source: SourceNamespace}
	}
	if err := Check(wanted.Value); err != nil {
		return ID{}, err
	}
	immutable := true
	err := c.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ConfigMap, Labels: map[string]string{"app.kubernetes.io/part-of": "scanyard"}},
		Immutable:  &immutable, Data: map[string]string{keyID: wanted.Value, keySource: wanted.Source},
	})
	if err == nil {
		return wanted, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return ID{}, fmt.Errorf("create the ConfigMap %s/%s: %w", namespace, ConfigMap, err)
	}
	stored, err := Get(ctx, c, namespace)
	if err == nil && stored.Value != wanted.Value {
		stored.Foreign = wanted.Value
	}
	return stored, err
}
