// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// IsMirror reports whether a ParseDefinition is a copy that EnsureMirror made.
func IsMirror(d *executionv1.ParseDefinition) bool {
	_, ok := d.Labels[executionv1.LabelMirrorOf]
	return ok
}

// Mirrors keeps copies of ClusterParseDefinitions in the namespaces of clusterWide Scans:
// secureCodeBox's parser and hook images read the namespaced kind in any mode, and fail without the
// copy.
type Mirrors struct {
	reader client.Reader
	writer client.Writer
}

// NewMirrors returns a Mirrors. The reader should be cached for ParseDefinitions.
func NewMirrors(reader client.Reader, writer client.Writer) *Mirrors {
	return &Mirrors{reader: reader, writer: writer}
}

// EnsureMirror makes sure that a ParseDefinition of that name exists in the Scan's namespace as long
// as the Scan exists. A ParseDefinition of another client is left alone. All Scans that need the
// mirror own it: it is deleted with the last of them.
func (m *Mirrors) EnsureMirror(ctx context.Context, scan *executionv1.Scan, resultType string, spec *executionv1.ParseDefinitionSpec) error {
	if scan.Mode() != executionv1.ClusterWide {
		return nil
	}
	var have executionv1.ParseDefinition
	err := m.reader.Get(ctx, types.NamespacedName{Namespace: scan.Namespace, Name: resultType}, &have)
	if apierrors.IsNotFound(err) {
		err = m.writer.Create(ctx, newMirror(scan, resultType, spec))
		if apierrors.IsAlreadyExists(err) {
			// Another Scan was faster, and the cache has not seen the mirror yet: try again.
			return fmt.Errorf("create mirror of ClusterParseDefinition %s: %w", resultType, err)
		}
		return wrap(err, "create mirror of ClusterParseDefinition")
	}
	if err != nil {
		return fmt.Errorf("get ParseDefinition: %w", err)
	}
	if !IsMirror(&have) {
		return nil
	}
	want := have.DeepCopy()
	want.Spec = *mirrored(spec)
	if !hasOwner(want, scan.UID) {
		want.OwnerReferences = append(want.OwnerReferences, *owner(scan))
	}
	if equality.Semantic.DeepEqual(&have, want) {
		return nil
	}
	patch := client.MergeFromWithOptions(&have, client.MergeFromWithOptimisticLock{})
	return wrap(m.writer.Patch(ctx, want, patch), "patch mirror of ClusterParseDefinition")
}

func newMirror(scan *executionv1.Scan, resultType string, spec *executionv1.ParseDefinitionSpec) *executionv1.ParseDefinition {
	return &executionv1.ParseDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:            resultType,
			Namespace:       scan.Namespace,
			Labels:          map[string]string{executionv1.LabelMirrorOf: "ClusterParseDefinition", executionv1.LabelManagedBy: "scanyard"},
			OwnerReferences: []metav1.OwnerReference{*owner(scan)},
		},
		Spec: *mirrored(spec),
	}
}

// mirrored returns the fields of a ParseDefinition that images read, and the image for people who
// look at the mirror. It includes the resources, since the CRD's defaults would otherwise fill them
// in and the mirror would always differ from the wanted one.
func mirrored(spec *executionv1.ParseDefinitionSpec) *executionv1.ParseDefinitionSpec {
	s := spec.DeepCopy()
	return &executionv1.ParseDefinitionSpec{
		Image: s.Image, ContentType: s.ContentType, ScopeLimiterAliases: s.ScopeLimiterAliases, Resources: s.Resources,
	}
}

func owner(scan *executionv1.Scan) *metav1.OwnerReference {
	return &metav1.OwnerReference{
		APIVersion: executionv1.SchemeGroupVersion.String(), Kind: "Scan", Name: scan.Name, UID: scan.UID,
	}
}

func hasOwner(o metav1.Object, uid types.UID) bool {
	for _, r := range o.GetOwnerReferences() {
		if r.UID == uid {
			return true
		}
	}
	return false
}
