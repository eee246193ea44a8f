// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
)

// line is an exception in the list.
type line struct {
	Link, Name, Namespace, Status, Reason, Matches, By string
	State                                              state
	Matched                                            *int64
	Ends                                               time.Time
}

// choice is a value of the filter, with how many exceptions have it.
type choice struct {
	state

	Count int
	On    bool
	Link  string
}

type list struct {
	web.Part

	Lines              []line
	Text, Status, Only string
	Statuses           []settingsv1alpha2.ExceptionStatus
	Choices            []choice
	Filtered           bool
	Holding            int
}

// statuses are those of exceptions, in the order of the documentation.
var statuses = []settingsv1alpha2.ExceptionStatus{
	settingsv1alpha2.ExceptionAccepted, settingsv1alpha2.ExceptionFalsePositive, settingsv1alpha2.ExceptionNotAffected,
	settingsv1alpha2.ExceptionMitigated, settingsv1alpha2.ExceptionUnderInvestigation,
}

// order is in which states stand in the list: what needs a hand comes first.
var order = map[string]int{invalid: 0, ending: 1, active: 2, notYet: 3, ended: 4}

func (p *pages) list(q *web.Request) (*web.View, error) {
	data, notes, err := listOf(q)
	if err != nil {
		return nil, err
	}
	return &web.View{Title: "Exceptions", Section: "Exceptions", Template: p.listTemplate, Data: data, Notes: notes}, nil
}

// listOf is the page of the list that a request asks for.
func listOf(q *web.Request) (data *list, notes []string, err error) {
	v := q.URL.Query()
	data = &list{Text: strings.TrimSpace(v.Get("text")), Status: v.Get("status"), Only: v.Get("state"), Statuses: statuses}
	data.Filtered = data.Text != "" || data.Status != "" || data.Only != ""
	all, notes, err := all(q)
	if err != nil {
		return nil, nil, err
	}
	counts := map[string]int{}
	var lines []line
	for i := range all {
		l := lineOf(&all[i], q.Now)
		if !data.keeps(&l) {
			continue
		}
		counts[l.State.Value]++
		if data.Only == "" || data.Only == l.State.Value {
			lines = append(lines, l)
		}
	}
	data.Holding = counts[active] + counts[ending]
	for _, s := range []state{isActive, isEnding, isNotYet, isEnded, isInvalid} {
		if counts[s.Value] > 0 || data.Only == s.Value {
			link := q.With("state", s.Value)
			if data.Only == s.Value {
				link = q.With("state", "")
			}
			data.Choices = append(data.Choices, choice{s, counts[s.Value], data.Only == s.Value, link})
		}
	}
	slices.SortStableFunc(lines, compareLines)
	if data.Part, err = q.PartOf(len(lines)); err != nil {
		return nil, nil, err
	}
	data.Lines = lines[data.From:data.To]
	return data, notes, nil
}

// all are the exceptions of the scope, and those of the cluster.
func all(q *web.Request) (out []kept, notes []string, err error) {
	add := func(o client.Object) error {
		copied, ok := o.DeepCopyObject().(client.Object)
		if !ok {
			return nil
		}
		if k, ok := keptOf(copied); ok {
			out = append(out, k)
		}
		return nil
	}
	denials, err := q.Viewer.Each(q.Context(), q.Scope, &settingsv1alpha2.FindingExceptionList{}, add)
	if err != nil {
		return nil, nil, err
	}
	notes = web.Notes("Exceptions", denials, nil)
	denials, err = q.Viewer.Each(q.Context(), cluster.Scope{}, &settingsv1alpha2.ClusterFindingExceptionList{}, add)
	if err != nil {
		return nil, nil, err
	}
	return out, append(notes, web.Notes("Exceptions of the cluster", denials, nil)...), nil
}

func lineOf(k *kept, now time.Time) line {
	l := line{
		Link: path(k.Namespace, k.Name), Name: k.Name, Namespace: k.Namespace, Status: string(k.Spec.Status), Reason: k.Spec.Reason,
		Matches: summary(k.Spec.Match), By: k.Status.CreatedBy, State: k.state(now), Matched: k.Status.Matched,
	}
	if k.Spec.ExpiresAt != nil {
		l.Ends = k.Spec.ExpiresAt.Time
	}
	return l
}

// keeps says whether the filter keeps an exception, whatever its state.
func (l *list) keeps(e *line) bool {
	if l.Status != "" && e.Status != l.Status {
		return false
	}
	return l.Text == "" || strings.Contains(strings.ToLower(strings.Join([]string{e.Name, e.Namespace, e.Reason, e.Matches, e.By}, "\n")), strings.ToLower(l.Text))
}

func compareLines(a, b line) int {
	endOf := func(l line) time.Time {
		if l.Ends.IsZero() {
			return time.Unix(1<<40, 0) // never
		}
		return l.Ends
	}
	byEnd := endOf(a).Compare(endOf(b))
	if a.State.Value == ended {
		byEnd = -byEnd // what has ended last is nearest
	}
	return cmp.Or(cmp.Compare(order[a.State.Value], order[b.State.Value]), byEnd, cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// shownValues is how many values of a match a line names.
const shownValues = 3

// summary is a match in a few words.
func summary(m settingsv1alpha2.ExceptionMatch) string {
	var words []string
	for i := range m.AnyOf {
		for _, part := range partsOf(&m.AnyOf[i]) {
			words = append(words, part.Values...)
		}
	}
	if len(words) > shownValues {
		return strings.Join(words[:shownValues], ", ") + " and more"
	}
	return strings.Join(words, ", ")
}

// part is a condition of a match: a finding must have one of the values.
type part struct {
	Name   string
	Values []string
}

// partsOf are the conditions of an entry that are set.
func partsOf(e *settingsv1alpha2.ExceptionEntry) (out []part) {
	add := func(name string, values []string) {
		if len(values) > 0 {
			out = append(out, part{name, values})
		}
	}
	add("Fingerprint", e.Fingerprints)
	add("Reference", e.References)
	add("Name", e.Names)
	add("Category", e.Categories)
	add("Location", e.Locations)
	add("Severity", e.Severities)
	add("Package", e.Packages)
	add("Product", e.Products)
	var attributes []string
	for name, value := range e.Attributes {
		attributes = append(attributes, name+" = "+value.Raw())
	}
	slices.Sort(attributes)
	add("Attribute", attributes)
	if e.Expression != "" {
		add("Expression", []string{e.Expression})
	}
	return out
}
