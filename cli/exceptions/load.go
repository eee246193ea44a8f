// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/findings/exception"
)

// pageSize is how many exceptions one request asks for.
const pageSize = 500

// Load reads the exceptions of a namespace and of the cluster. Where they cannot be read, findings are printed without
// them, and stderr says so once.
func Load(ctx context.Context, s *session.Session, c client.Client, namespace string) []exception.Exception {
	var all []exception.Exception
	local := &settingsv1alpha2.FindingExceptionList{}
	err := pages(ctx, c, local, func() {
		for i := range local.Items {
			all = append(all, exception.Of(&local.Items[i]))
		}
	}, client.InNamespace(namespace))
	if err == nil {
		cluster := &settingsv1alpha2.ClusterFindingExceptionList{}
		err = pages(ctx, c, cluster, func() {
			for i := range cluster.Items {
				all = append(all, exception.OfCluster(&cluster.Items[i]))
			}
		})
	}
	if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) { // an older cluster has no such kinds
		fmt.Fprintf(s.ErrOut, "exceptions are left out: %v\n", s.Explain(err))
	}
	return all
}

func pages(ctx context.Context, c client.Client, list client.ObjectList, page func(), options ...client.ListOption) error {
	next := ""
	for {
		if err := c.List(ctx, list, append(options, client.Limit(pageSize), client.Continue(next))...); err != nil {
			return fmt.Errorf("list exceptions: %w", err)
		}
		page()
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// For are the exceptions that hold for a Scan now.
func For(ctx context.Context, s *session.Session, c client.Client, scan *executionv1.Scan) *exception.Selection {
	return NewLoader(s, c).For(ctx, scan)
}

// Loader reads the exceptions of namespaces, of each once.
type Loader struct {
	session *session.Session
	client  client.Client
	known   map[string]*loaded
}

type loaded struct {
	list    []exception.Exception
	matcher *exception.Matcher
	// labels are those of the namespace, where an exception asks for them.
	labels map[string]string
}

// NewLoader makes a Loader.
func NewLoader(s *session.Session, c client.Client) *Loader {
	return &Loader{s, c, map[string]*loaded{}}
}

// For are the exceptions that hold for a Scan now. What is wrong with one is said on stderr.
func (l *Loader) For(ctx context.Context, scan *executionv1.Scan) *exception.Selection {
	of := l.of(ctx, scan.Namespace)
	return of.matcher.For(of.scan(scan))
}

// of are the exceptions of a namespace and of the cluster.
func (l *Loader) of(ctx context.Context, namespace string) *loaded {
	if of := l.known[namespace]; of != nil {
		return of
	}
	of := &loaded{list: Load(ctx, l.session, l.client, namespace)}
	of.matcher = exception.Compile(of.list, l.session.Now())
	for _, p := range of.matcher.Problems() {
		fmt.Fprintf(l.session.ErrOut, "exception %s matches nothing: %s\n", p.Name, p)
	}
	if slices.ContainsFunc(of.list, func(e exception.Exception) bool { return e.Scope.NamespaceSelector != nil }) {
		of.labels = l.labels(ctx, namespace)
	}
	l.known[namespace] = of
	return of
}

// labels are those of a namespace; none where they cannot be read, which stderr says.
func (l *Loader) labels(ctx context.Context, name string) map[string]string {
	namespace := &corev1.Namespace{}
	if err := l.client.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		fmt.Fprintf(l.session.ErrOut, "exceptions that select namespaces by labels may be left out: %v\n", l.session.Explain(err))
	}
	return namespace.Labels
}

// scan is what exceptions ask of a Scan of the namespace.
func (of *loaded) scan(scan *executionv1.Scan) exception.Scan {
	return exception.Scan{
		Namespace: scan.Namespace, NamespaceLabels: of.labels, Name: scan.Name, ScanType: scan.Spec.ScanType, Target: scan.Labels[executionv1.LabelTarget],
	}
}
