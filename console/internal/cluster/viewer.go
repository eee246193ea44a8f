// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// ViewerOptions are what a Viewer stands on.
type ViewerOptions struct {
	Objects client.WithWatch
	Logs    kubernetes.Interface
	// Stream begins to read what is not an object, such as the SBOM of an image.
	Stream       func(ctx context.Context, path string, query url.Values) (io.ReadCloser, error)
	Transfer     *transfer.Client
	Namespace    string
	StorageHosts []string
	// KnownStorage has links followed to StorageHosts only.
	KnownStorage bool
	Now          func() time.Time
}

// Viewer is the cluster as one person may see it. It is safe for concurrent use.
type Viewer struct {
	client.WithWatch
	ViewerOptions

	// asking has a place for one question at a time.
	asking chan struct{}
	// shared are the Scans that viewers with the right to list them all have in common; nil has each viewer list them.
	shared *shared

	mu     sync.Mutex
	rights map[Right]verdict
}

// NewViewer makes a Viewer.
func NewViewer(o ViewerOptions) *Viewer {
	return &Viewer{WithWatch: o.Objects, ViewerOptions: o, asking: make(chan struct{}, 1), rights: map[Right]verdict{}}
}

// Right is something that a viewer may do or not. A subresource stands behind a slash of its resource.
type Right struct {
	Verb, Group, Resource, Namespace string
}

// String names the right as a sentence can have it.
func (r Right) String() string {
	where := "in all namespaces"
	if r.Namespace != "" {
		where = "in " + r.Namespace
	}
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	return fmt.Sprintf("%s %s %s", r.Verb, resource, where)
}

type verdict struct {
	allowed bool
	ends    time.Time
}

const (
	// rememberRights is how long a right is remembered.
	rememberRights = time.Minute
	// maxRights is how many.
	maxRights = 1000
)

// May says whether the viewer has a right.
func (v *Viewer) May(ctx context.Context, r Right) (bool, error) {
	v.mu.Lock()
	known, ok := v.rights[r]
	v.mu.Unlock()
	if ok && v.Now().Before(known.ends) {
		return known.allowed, nil
	}
	return v.askFor(ctx, r)
}

// askFor says whether the viewer has a right now.
func (v *Viewer) askFor(ctx context.Context, r Right) (bool, error) {
	now := v.Now()
	resource, subresource, _ := strings.Cut(r.Resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: subresource, Namespace: r.Namespace},
	}}
	if err := v.Create(ctx, review); err != nil {
		return false, fmt.Errorf("ask for the right to %s: %w", r, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.rights) >= maxRights {
		clear(v.rights)
	}
	v.rights[r] = verdict{review.Status.Allowed, now.Add(rememberRights)}
	return review.Status.Allowed, nil
}

// Scope is where a page looks.
type Scope struct {
	// Names of namespaces. Empty: all.
	Names []string
}

// All says whether the scope is the whole cluster.
func (s Scope) All() bool { return len(s.Names) == 0 }

// Single is the only namespace of the scope, if there is one only.
func (s Scope) Single() string {
	if len(s.Names) == 1 {
		return s.Names[0]
	}
	return ""
}

// Has says whether a namespace belongs to the scope.
func (s Scope) Has(namespace string) bool { return s.All() || slices.Contains(s.Names, namespace) }

// String names the scope for people.
func (s Scope) String() string {
	switch {
	case s.All():
		return "all namespaces"
	case len(s.Names) <= 3:
		return strings.Join(s.Names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(s.Names[:2], ", "), len(s.Names)-2)
}

// ScopeOf is where a viewer looks who has chosen these namespaces: all for who has chosen none and may list Scans everywhere.
func (v *Viewer) ScopeOf(ctx context.Context, chosen []string) (Scope, error) {
	if len(chosen) > 0 {
		return Scope{Names: chosen}, nil
	}
	everywhere, err := v.May(ctx, Right{"list", executionv1.SchemeGroupVersion.Group, "scans", ""})
	if err != nil {
		return Scope{}, err
	}
	if everywhere || v.Namespace == "" {
		return Scope{}, nil
	}
	return Scope{Names: []string{v.Namespace}}, nil
}

// maxNamespaces is how many namespaces a page offers to choose from.
const maxNamespaces = 5000

// NamespaceNames are the names of all namespaces, or none where the viewer may not list them.
func (v *Viewer) NamespaceNames(ctx context.Context) ([]string, error) {
	list := &corev1.NamespaceList{}
	err := v.List(ctx, list, client.Limit(maxNamespaces))
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// ErrAbsent says that the cluster does not have a kind.
var ErrAbsent = errors.New("not installed in this cluster")

// Denial is a right that a viewer lacks.
type Denial struct{ Right Right }

// String says it to the viewer.
func (d Denial) String() string { return "You may not " + d.Right.String() + "." }

// page is how many objects one request asks for.
const page = 500

// Each calls a function with every object of a list in a scope.
func (v *Viewer) Each(ctx context.Context, scope Scope, list client.ObjectList, do func(client.Object) error, options ...client.ListOption) ([]Denial, error) {
	return v.eachNamespace(scope, list, func(namespace string) error { return v.eachIn(ctx, namespace, list, do, options) })
}

// eachNamespace calls a function with every namespace of a scope, or with none for all at once. What the viewer may not list becomes a Denial.
func (v *Viewer) eachNamespace(scope Scope, list client.ObjectList, do func(namespace string) error) ([]Denial, error) {
	namespaces := scope.Names
	if scope.All() {
		namespaces = []string{""}
	}
	var denials []Denial
	for _, namespace := range namespaces {
		err := do(namespace)
		switch {
		case apierrors.IsForbidden(err):
			right, rightErr := v.listing(list, namespace)
			if rightErr != nil {
				return nil, rightErr
			}
			denials = append(denials, Denial{right})
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			return nil, fmt.Errorf("%T: %w", list, ErrAbsent)
		case err != nil:
			return nil, err
		}
	}
	return denials, nil
}

// Served says whether the objects of a list are in the cluster: ErrAbsent is that they are not. What the viewer may not list is served.
func (v *Viewer) Served(ctx context.Context, scope Scope, list client.ObjectList) error {
	err := v.List(ctx, list, client.InNamespace(scope.Single()), client.Limit(1))
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return fmt.Errorf("%T: %w", list, ErrAbsent)
	case err != nil:
		return fmt.Errorf("list: %w", err)
	}
	return nil
}

func (v *Viewer) eachIn(ctx context.Context, namespace string, list client.ObjectList, do func(client.Object) error, options []client.ListOption) error {
	next := ""
	for {
		paged := append([]client.ListOption{client.InNamespace(namespace), client.Limit(page), client.Continue(next)}, options...)
		if err := v.List(ctx, list, paged...); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object, ok := item.(client.Object)
			if !ok {
				return fmt.Errorf("%T is not an object", item)
			}
			return do(object)
		})
		if err != nil {
			return fmt.Errorf("read list: %w", err)
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// listing is the right to list what a list holds.
func (v *Viewer) listing(list client.ObjectList, namespace string) (Right, error) {
	kind, err := v.GroupVersionKindFor(list)
	if err != nil {
		return Right{}, fmt.Errorf("kind of %T: %w", list, err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: strings.TrimSuffix(kind.Kind, "List")})
	return Right{"list", resource.Group, resource.Resource, namespace}, nil
}

// unsettled and errored are Scans by their state, which the API server picks: most of the Scans that are kept have done their work.
var (
	unsettled = fields.AndSelectors(
		fields.OneTermNotEqualSelector(stateField, string(executionv1.ScanStateDone)),
		fields.OneTermNotEqualSelector(stateField, string(executionv1.ScanStateErrored)),
	)
	errored = fields.OneTermEqualSelector(stateField, string(executionv1.ScanStateErrored))
)

const stateField = "status.state"

// Undone are the Scans of a scope that have not done their work: those that run or wait, and those that have failed. The newest are first.
func (v *Viewer) Undone(ctx context.Context, scope Scope) ([]*executionv1.Scan, []Denial, error) {
	shared, err := v.everywhere(ctx, scope)
	if err != nil {
		return nil, nil, err
	}
	if shared {
		if k := v.shared.current(); k != nil { // to list them all for this alone would take longer
			all, _ := v.shared.inOrder(k)
			return slices.DeleteFunc(all, isDone), nil, nil
		}
	}
	var all []*executionv1.Scan
	var denials []Denial
	for _, selector := range []fields.Selector{unsettled, errored} {
		scans, lacking, err := v.Scans(ctx, scope, client.MatchingFieldsSelector{Selector: selector})
		if apierrors.IsBadRequest(err) { // CRDs of before, or a server that cannot pick by fields of custom resources
			all, denials, err := v.Scans(ctx, scope)
			return slices.DeleteFunc(all, isDone), denials, err
		}
		if err != nil {
			return nil, nil, err
		}
		all, denials = append(all, scans...), lacking
	}
	slices.SortFunc(all, NewestFirst)
	return all, denials, nil
}

func isDone(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateDone }

// NewestFirst orders Scans by when they were made. Those of one moment stand by their names, so that the pages of a list fit together.
func NewestFirst(a, b *executionv1.Scan) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Scans are the Scans of a scope, the newest first. Nobody may change them.
func (v *Viewer) Scans(ctx context.Context, scope Scope, options ...client.ListOption) ([]*executionv1.Scan, []Denial, error) {
	shared, err := v.everywhere(ctx, scope)
	if err != nil {
		return nil, nil, err
	}
	if shared && len(options) == 0 {
		scans, _, err := v.shared.all(ctx, v)
		return scans, nil, err
	}
	var scans []*executionv1.Scan
	denials, err := v.eachNamespace(scope, &executionv1.ScanList{}, func(namespace string) error {
		some, _, err := v.listed(ctx, namespace, options...)
		scans = append(scans, some...)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(scans, NewestFirst)
	return scans, denials, nil
}
