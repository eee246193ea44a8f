// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// NotFoundError says that a Scan needs an object that does not exist. Its text is for the user: the
// text says what to install.
type NotFoundError struct {
	// Kind and Name of the missing object.
	Kind, Name string
	// Advice says what the user should do.
	Advice string
}

// Error names the missing object and the advice.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s %q not found%s", e.Kind, e.Name, e.Advice)
}

// Hook is a hook of either kind.
type Hook struct {
	Name string
	Spec *executionv1.ScanCompletionHookSpec
	// ExecutionNamespace is the namespace the hook runs in; empty means the namespace of the Scan.
	ExecutionNamespace string
}

// Catalog reads the kinds that cluster admins and teams install.
type Catalog struct{ reader client.Reader }

// New returns a Catalog over a reader, usually a cache.
func New(reader client.Reader) *Catalog { return &Catalog{reader: reader} }

// shared skips the copy that a cache makes of each object it returns. The objects that the catalog
// returns must not be changed; builders copy an object before they change it.
var shared = client.UnsafeDisableDeepCopy

// ScanType returns the scanner of a Scan. The error is a *NotFoundError if there is no such
// ScanType; any other error is an error of the API.
func (c *Catalog) ScanType(ctx context.Context, scan *executionv1.Scan) (*executionv1.ScanTypeSpec, error) {
	v, namespace := scanTypes.of(scan)
	t, err := v.get(ctx, c.reader, types.NamespacedName{Namespace: namespace, Name: scan.Spec.ScanType})
	if apierrors.IsNotFound(err) {
		return nil, c.noScanType(ctx, scan)
	}
	return t.spec, err
}

// ParseDefinition returns the parser of a result type for a Scan. The error is a *NotFoundError if
// there is no such ParseDefinition; any other error is an error of the API.
func (c *Catalog) ParseDefinition(ctx context.Context, scan *executionv1.Scan, resultType string) (*executionv1.ParseDefinitionSpec, error) {
	v, namespace := parseDefinitions.of(scan)
	d, err := v.get(ctx, c.reader, types.NamespacedName{Namespace: namespace, Name: resultType})
	if apierrors.IsNotFound(err) || d.mirror {
		return nil, &NotFoundError{Kind: v.kind, Name: resultType, Advice: adviceParser(resultType, namespace)}
	}
	return d.spec, err
}

func adviceParser(resultType, namespace string) string {
	if namespace == "" {
		return fmt.Sprintf("; a cluster admin can install the chart whose parser reads results of type %q with --set clusterWide=true", resultType)
	}
	return fmt.Sprintf(" in namespace %q; install the chart whose parser reads results of type %q into that namespace", namespace, resultType)
}

// Hooks returns the hooks that a Scan selects, in the order in which they run:
// priority, then name. An invalid spec.hookSelector is an *InvalidSelectorError.
func (c *Catalog) Hooks(ctx context.Context, scan *executionv1.Scan) ([]Hook, error) {
	selector, err := Selector(scan)
	if err != nil {
		return nil, err
	}
	v, namespace := hooks.of(scan)
	found, err := v.list(ctx, c.reader, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	if err != nil {
		return nil, err
	}
	var all []Hook
	for _, h := range found {
		all = append(all, Hook{Name: h.name, Spec: h.spec, ExecutionNamespace: away(h.executionNamespace, scan)})
	}
	slices.SortFunc(all, func(a, b Hook) int {
		if a.Spec.Priority != b.Spec.Priority {
			return b.Spec.Priority - a.Spec.Priority
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, nil
}

// away is the execution namespace if it differs from the Scan's namespace, else "".
func away(executionNamespace string, scan *executionv1.Scan) string {
	if executionNamespace == scan.Namespace {
		return ""
	}
	return executionNamespace
}

// InvalidSelectorError says that spec.hookSelector of a Scan is not valid.
type InvalidSelectorError struct{ Err error }

// Error names the field.
func (e *InvalidSelectorError) Error() string { return "spec.hookSelector: " + e.Err.Error() }

// Unwrap returns the error of the selector.
func (e *InvalidSelectorError) Unwrap() error { return e.Err }

// Selector returns the hook selector of a Scan; an absent or empty one selects all.
func Selector(scan *executionv1.Scan) (labels.Selector, error) {
	if scan.Spec.HookSelector == nil {
		return labels.Everything(), nil
	}
	s, err := metav1.LabelSelectorAsSelector(scan.Spec.HookSelector)
	if err != nil {
		return nil, &InvalidSelectorError{Err: err}
	}
	return s, nil
}

// noScanType says which ScanType is missing and what the user can do: the installed ScanTypes, or
// that the other family of kinds has it.
func (c *Catalog) noScanType(ctx context.Context, scan *executionv1.Scan) error {
	local, err := c.names(ctx, scanTypes.local, scan.Namespace)
	if err != nil {
		return err
	}
	cluster, err := c.names(ctx, scanTypes.cluster, "")
	if err != nil {
		return err
	}
	name := scan.Spec.ScanType
	if scan.Mode() == executionv1.ClusterWide {
		return &NotFoundError{Kind: "ClusterScanType", Name: name, Advice: adviceClusterWide(name, local, cluster)}
	}
	return &NotFoundError{Kind: "ScanType", Name: name, Advice: adviceLocal(name, scan.Namespace, local, cluster)}
}

// names lists the objects of a variant in a namespace; "" means the cluster.
func (c *Catalog) names(ctx context.Context, v variant[executionv1.ScanTypeSpec], namespace string) ([]string, error) {
	found, err := v.list(ctx, c.reader, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for _, t := range found {
		names = append(names, t.name)
	}
	slices.Sort(names)
	return names, nil
}

func adviceLocal(name, namespace string, local, cluster []string) string {
	advice := fmt.Sprintf(" in namespace %q; install it there, for example with: helm install %s <charts>/%s --namespace %s", namespace, name, name, namespace)
	if slices.Contains(cluster, name) {
		return fmt.Sprintf(" in namespace %q, but there is a ClusterScanType of that name; set spec.resourceMode to clusterWide to use it", namespace)
	}
	return advice + installed(local)
}

func adviceClusterWide(name string, local, cluster []string) string {
	if slices.Contains(local, name) {
		return ", but the namespace has a ScanType of that name; set spec.resourceMode to namespaceLocal to use it"
	}
	return fmt.Sprintf("; a cluster admin can install it, for example with: helm install %s <charts>/%s --set clusterWide=true", name, name) + installed(cluster)
}

// maxListed bounds how many names a message lists.
const maxListed = 20

func installed(names []string) string {
	switch {
	case len(names) == 0:
		return " (none is installed)"
	case len(names) > maxListed:
		return fmt.Sprintf(" (installed are %s and %d more)", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	default:
		return fmt.Sprintf(" (installed: %s)", strings.Join(names, ", "))
	}
}

func wrap(err error, doing string) error {
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
