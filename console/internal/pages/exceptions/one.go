// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/scanview"
)

// use is a newest run in which the exception has matched findings.
type use struct {
	Link, Name, Namespace string
	Count                 int64
	When                  time.Time
}

// one is what the page of an exception shows.
type one struct {
	line

	Base, CSRF                               string
	Justification, Reviewer, Ticket, Problem string
	Entries                                  [][]part
	Scope                                    []part
	Begins, Created, LastMatched, Changed    time.Time
	ChangedBy                                string
	Conditions                               []metav1.Condition
	Uses                                     []use
	Over, Marks                              bool
	Allowed                                  map[string]bool
	Denied, Tomorrow, Ends90                 string
}

func (p *pages) one(q *web.Request) (*web.View, error) {
	k, err := read(q)
	if err != nil {
		return nil, err
	}
	o := &one{
		line: lineOf(&k, q.Now), Base: path(k.Namespace, k.Name), CSRF: q.Session.CSRF, Justification: string(k.Spec.Justification),
		Reviewer: k.Spec.Reviewer, Ticket: k.Spec.Ticket, Created: k.Object.GetCreationTimestamp().Time, ChangedBy: k.Status.ChangedBy,
		Conditions: k.Status.Conditions, Scope: scopeOf(&k.Exception), Over: k.PhaseAt(q.Now) == exception.Expired, Marks: !k.Spec.Status.Suppresses(),
		Tomorrow: dateOf(q.Now.AddDate(0, 0, 1)), Ends90: dateOf(q.Now.AddDate(0, 0, proposedDays)),
	}
	o.Begins, o.LastMatched, o.Changed = timeOf(k.Spec.NotBefore), timeOf(k.Status.LastMatched), timeOf(k.Status.ChangedAt)
	for i := range k.Spec.Match.AnyOf {
		o.Entries = append(o.Entries, partsOf(&k.Spec.Match.AnyOf[i]))
	}
	if problem := exception.Check(k.Exception); problem != nil {
		o.Problem = problem.String()
	}
	o.Allowed, o.Denied, err = q.Rights(settingsv1alpha2.SchemeGroupVersion.Group, k.resource(), k.Namespace, "patch", "delete")
	if err != nil {
		return nil, err
	}
	var notes []string
	o.Uses, notes, err = uses(q, &k)
	if err != nil {
		return nil, err
	}
	return &web.View{Title: k.Name, Section: "Exceptions", Template: p.oneTemplate, Data: o, Notes: notes}, nil
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// uses are the newest runs whose status says that the exception has matched.
func uses(q *web.Request, k *kept) (out []use, notes []string, err error) {
	scope := q.Scope
	if k.Namespace != "" {
		scope = cluster.Scope{Names: []string{k.Namespace}}
	}
	scans, denials, err := q.Viewer.Scans(q.Context(), scope)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range scanview.Latest(scans) {
		for _, c := range s.Status.Findings.Exceptions {
			if c.Name == k.Name && c.Kind == k.Kind() {
				out = append(out, use{"/scans/" + s.Namespace + "/" + s.Name, s.Name, s.Namespace, c.Count, s.CreationTimestamp.Time})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b use) int { return cmp.Compare(b.Count, a.Count) })
	return out, web.Notes("Scans", denials, nil), nil
}

// scopeOf are the conditions about Scans.
func scopeOf(e *exception.Exception) (out []part) {
	add := func(name string, values []string) {
		if len(values) > 0 {
			out = append(out, part{name, values})
		}
	}
	add("Scan type", e.Scope.ScanTypes)
	add("Scan", e.Scope.Scans)
	add("Target", e.Scope.Targets)
	add("Namespace", e.Scope.Namespaces)
	if s := e.Scope.NamespaceSelector; s != nil {
		add("Namespaces with", strings.Split(metav1.FormatLabelSelector(s), ","))
	}
	return out
}
