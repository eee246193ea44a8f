// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"bytes"
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// observeCanceller asks the API server which client has set spec.cancel: the cache does not keep
// managed fields.
func (r *Reconciler) observeCanceller(ctx context.Context, o *life.Observation) error {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("Scan"))
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(o.Scan), m); err != nil {
		return client.IgnoreNotFound(err)
	}
	if m.UID == o.Scan.UID {
		o.Canceller = cancellers(m.ManagedFields)
	}
	return nil
}

// cancellers returns the field managers that have set spec.cancel.
func cancellers(entries []metav1.ManagedFieldsEntry) string {
	field := fieldpath.MakePathOrDie("spec", "cancel")
	var managers []string
	for _, e := range entries {
		if e.FieldsV1 == nil || e.Subresource != "" {
			continue
		}
		var set fieldpath.Set
		if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
			continue // written by a newer API server; other entries may name a client
		}
		if set.Has(field) && !slices.Contains(managers, e.Manager) {
			managers = append(managers, e.Manager)
		}
	}
	slices.Sort(managers)
	return strings.Join(managers, ", ")
}
