// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/query"
)

// Answer is what the reports API server has answered.
type Answer = reportsv1alpha1.FindingQueryStatus

// Ask asks the reports API server about the findings of a scope. Questions of one viewer go out one after the other, whatever the viewer has
// open: while it has much to do the server lets one of each user wait, and refuses others for a second.
func (v *Viewer) Ask(ctx context.Context, scope Scope, spec reportsv1alpha1.FindingQuerySpec) (*Answer, error) {
	if name := scope.Single(); name != "" {
		return v.askOne(ctx, name, spec)
	}
	q := &reportsv1alpha1.ClusterFindingQuery{}
	q.Spec.FindingQuerySpec, q.Spec.Namespaces = spec, scope.Names
	err := v.ask(ctx, q)
	if apierrors.IsForbidden(err) && !scope.All() && spec.Continue == "" {
		return v.askEach(ctx, scope, spec)
	}
	if err != nil {
		return nil, asked(err)
	}
	return &q.Status, nil
}

func (v *Viewer) askOne(ctx context.Context, namespace string, spec reportsv1alpha1.FindingQuerySpec) (*Answer, error) {
	q := &reportsv1alpha1.FindingQuery{Spec: spec}
	q.Namespace = namespace
	if err := v.ask(ctx, q); err != nil {
		return nil, asked(err)
	}
	return &q.Status, nil
}

// ask sends a question when the one before is answered.
func (v *Viewer) ask(ctx context.Context, question client.Object) error {
	select {
	case v.asking <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for other questions: %w", ctx.Err())
	}
	defer func() { <-v.asking }()
	return v.Create(ctx, question)
}

// askEach asks in each namespace, for a viewer who may not ask about the cluster, and adds the answers up. Such an answer
// has no further pages.
func (v *Viewer) askEach(ctx context.Context, scope Scope, spec reportsv1alpha1.FindingQuerySpec) (*Answer, error) {
	whole := &Answer{}
	groups := map[string]int{}
	var total int64
	for _, name := range scope.Names {
		part, err := v.askOne(ctx, name, spec)
		if err != nil {
			return nil, err
		}
		whole.Rows = append(whole.Rows, part.Rows...)
		switch {
		case part.Total != nil:
			total += *part.Total
		case part.TotalAtLeast != nil:
			total += *part.TotalAtLeast
		}
		for _, g := range part.Groups {
			at, ok := groups[keyOf(g.Key)]
			if !ok {
				groups[keyOf(g.Key)] = len(whole.Groups)
				whole.Groups = append(whole.Groups, g)
				continue
			}
			whole.Groups[at].Count += g.Count
		}
	}
	whole.Total = &total
	slices.SortStableFunc(whole.Rows, func(a, b reportsv1alpha1.FindingRow) int {
		return cmp.Compare(query.Rank(b.Severity), query.Rank(a.Severity))
	})
	slices.SortStableFunc(whole.Groups, func(a, b reportsv1alpha1.FindingGroup) int { return cmp.Compare(b.Count, a.Count) })
	return whole, nil
}

// keyOf is one text for the values of a group.
func keyOf(key map[string]string) string {
	names := make([]string, 0, len(key))
	for name, value := range key {
		names = append(names, fmt.Sprintf("%q=%q", name, value))
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// asked says what an error of a question means: a server that is not installed is ErrAbsent.
func asked(err error) error {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return fmt.Errorf("the reports API: %w", ErrAbsent)
	}
	return fmt.Errorf("ask the reports API: %w", err)
}
