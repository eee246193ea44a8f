// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// entry is an object of either variant of a kind, as other packages see it.
type entry[Spec any] struct {
	name string
	spec *Spec
	// executionNamespace is the namespace a hook runs in; empty means the namespace of the Scan.
	executionNamespace string
	// mirror says that the operator made the object for clusterWide Scans.
	mirror bool
}

// variant reads one variant of a kind: the namespaced one, or the one for the whole cluster.
type variant[Spec any] struct {
	// kind is the name of the kind, such as ClusterScanType.
	kind string
	get  func(ctx context.Context, r client.Reader, key types.NamespacedName) (entry[Spec], error)
	list func(ctx context.Context, r client.Reader, options ...client.ListOption) ([]entry[Spec], error)
}

// newVariant makes a variant of the types of an object and of its list.
func newVariant[Spec, Object, List any, PObject interface {
	*Object
	client.Object
}, PList interface {
	*List
	client.ObjectList
}](kind string, items func(*List) []Object, entryOf func(*Object) entry[Spec]) variant[Spec] {
	return variant[Spec]{
		kind: kind,
		get: func(ctx context.Context, r client.Reader, key types.NamespacedName) (entry[Spec], error) {
			o := new(Object)
			if err := r.Get(ctx, key, PObject(o)); err != nil {
				return entry[Spec]{}, fmt.Errorf("get %s: %w", kind, err)
			}
			return entryOf(o), nil
		},
		list: func(ctx context.Context, r client.Reader, options ...client.ListOption) ([]entry[Spec], error) {
			l := new(List)
			if err := r.List(ctx, PList(l), append(options, shared)...); err != nil {
				return nil, fmt.Errorf("list %ss: %w", kind, err)
			}
			objects := items(l)
			entries := make([]entry[Spec], 0, len(objects))
			for i := range objects {
				entries = append(entries, entryOf(&objects[i]))
			}
			return entries, nil
		},
	}
}

// pair is a kind with its two variants.
type pair[Spec any] struct{ local, cluster variant[Spec] }

// of returns the variant that a Scan uses, and the namespace of its objects; "" for objects of the cluster.
func (p pair[Spec]) of(scan *executionv1.Scan) (v variant[Spec], namespace string) {
	if scan.Mode() == executionv1.ClusterWide {
		return p.cluster, ""
	}
	return p.local, scan.Namespace
}

// Kinds that Scans refer to.
var (
	scanTypes = pair[executionv1.ScanTypeSpec]{
		newVariant("ScanType", func(l *executionv1.ScanTypeList) []executionv1.ScanType { return l.Items },
			func(o *executionv1.ScanType) entry[executionv1.ScanTypeSpec] {
				return entry[executionv1.ScanTypeSpec]{name: o.Name, spec: &o.Spec}
			}),
		newVariant("ClusterScanType", func(l *executionv1.ClusterScanTypeList) []executionv1.ClusterScanType { return l.Items },
			func(o *executionv1.ClusterScanType) entry[executionv1.ScanTypeSpec] {
				return entry[executionv1.ScanTypeSpec]{name: o.Name, spec: &o.Spec}
			}),
	}
	parseDefinitions = pair[executionv1.ParseDefinitionSpec]{
		newVariant("ParseDefinition", func(l *executionv1.ParseDefinitionList) []executionv1.ParseDefinition { return l.Items },
			func(o *executionv1.ParseDefinition) entry[executionv1.ParseDefinitionSpec] {
				return entry[executionv1.ParseDefinitionSpec]{name: o.Name, spec: &o.Spec, mirror: IsMirror(o)}
			}),
		newVariant("ClusterParseDefinition", func(l *executionv1.ClusterParseDefinitionList) []executionv1.ClusterParseDefinition { return l.Items },
			func(o *executionv1.ClusterParseDefinition) entry[executionv1.ParseDefinitionSpec] {
				return entry[executionv1.ParseDefinitionSpec]{name: o.Name, spec: &o.Spec}
			}),
	}
	hooks = pair[executionv1.ScanCompletionHookSpec]{
		newVariant("ScanCompletionHook", func(l *executionv1.ScanCompletionHookList) []executionv1.ScanCompletionHook { return l.Items },
			func(o *executionv1.ScanCompletionHook) entry[executionv1.ScanCompletionHookSpec] {
				return entry[executionv1.ScanCompletionHookSpec]{name: o.Name, spec: &o.Spec}
			}),
		newVariant("ClusterScanCompletionHook", func(l *executionv1.ClusterScanCompletionHookList) []executionv1.ClusterScanCompletionHook {
			return l.Items
		},
			func(o *executionv1.ClusterScanCompletionHook) entry[executionv1.ScanCompletionHookSpec] {
				return entry[executionv1.ScanCompletionHookSpec]{
					name: o.Name, spec: &o.Spec.ScanCompletionHookSpec, executionNamespace: o.Spec.ExecutionNamespace,
				}
			}),
	}
)
