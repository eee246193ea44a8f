// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
)

// handExceptions stores the exceptions that hold for a Scan now beside its findings, and returns the URL by which a pod reads
// them; "" where none holds. So pods need no right on exceptions, and what holds is decided once for each of them.
func (r *Reconciler) handExceptions(ctx context.Context, o *life.Observation, expiry time.Duration) (string, error) {
	list, err := r.exceptionsOf(ctx, o.Scan.Namespace)
	if err != nil || len(list) == 0 {
		return "", err
	}
	scan := exception.Scan{
		Namespace: o.Scan.Namespace, Name: o.Scan.Name, ScanType: o.Scan.Spec.ScanType, Target: o.Scan.Labels[executionv1.LabelTarget],
	}
	if slices.ContainsFunc(list, func(e exception.Exception) bool { return e.Scope.NamespaceSelector != nil }) {
		namespace := &corev1.Namespace{}
		switch err := r.live.Get(ctx, client.ObjectKey{Name: scan.Namespace}, namespace); {
		case apierrors.IsForbidden(err): // an operator for some namespaces; what selects by labels is left out
			log.FromContext(ctx).Info("Exceptions that select namespaces by labels are left out", "error", err.Error())
		case err != nil:
			return "", fmt.Errorf("read the labels that exceptions select namespaces by: %w", err)
		}
		scan.NamespaceLabels = namespace.Labels
	}
	text, err := exception.HandOver(list, scan, o.Now)
	if err != nil || text == nil {
		return "", err
	}
	owner := store.OwnerOf(o.Scan)
	if err := r.store.Write(ctx, owner, handover.ExceptionsFile, text); err != nil {
		return "", err
	}
	return r.store.PresignDownload(ctx, owner, handover.ExceptionsFile, expiry)
}

// exceptionsOf are the exceptions of a namespace and of the cluster.
func (r *Reconciler) exceptionsOf(ctx context.Context, namespace string) ([]exception.Exception, error) {
	var own settingsv1alpha2.FindingExceptionList
	var cluster settingsv1alpha2.ClusterFindingExceptionList
	if err := r.client.List(ctx, &own, client.InNamespace(namespace), client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("list exceptions: %w", err)
	}
	if err := r.client.List(ctx, &cluster, client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("list exceptions of the cluster: %w", err)
	}
	list := make([]exception.Exception, 0, len(own.Items)+len(cluster.Items))
	for i := range own.Items {
		list = append(list, exception.Of(&own.Items[i]))
	}
	for i := range cluster.Items {
		list = append(list, exception.OfCluster(&cluster.Items[i]))
	}
	return list, nil
}
