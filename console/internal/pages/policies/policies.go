// SPDX-License-Identifier: Apache-2.0

// Package policies has the page of policy reports: the results of any producer in PolicyReports and ClusterPolicyReports, counted
// by policy, resource, namespace, producer or category, down to each result. The reports API answers it.
package policies

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/charts"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
)

//go:embed policies.html
var files embed.FS

type page struct{ template *template.Template }

// Register adds the page.
func Register(a *web.App) error {
	p := &page{}
	if err := a.Templates(files, map[string]**template.Template{"policies.html": &p.template}); err != nil {
		return err
	}
	a.Page("GET /policyreports", p.show)
	return nil
}

// maxGroups is how many groups one question asks for.
const maxGroups = 5000

// by is what results are counted by: the group of the question, and the field that narrows to one of its values.
var by = []struct{ Value, Name, Field string }{
	{"policy", "Policy", "policy"},
	{"resource", "Resource", "resource.name"},
	{"namespace", "Namespace", "namespace"},
	{"source", "Producer", "source"},
	{"category", "Category", "category"},
}

// outcomes are what a result can be, in the order of the columns, with their classes of colour.
var outcomes = []struct{ Value, Class, Fill string }{
	{"fail", "bad", "fbad"}, {"error", "bad", "fbad"}, {"warn", "wait", "fwait"}, {"pass", "good", "fgood"}, {"skip", "off", "foff"},
}

// Group is a line of the counts.
type group struct {
	Name, Link string
	Counts     []int64 // in the order of outcomes
	Total      int64
	Meter      charts.Meter
}

// row is one result.
type row struct {
	Result, Class, Policy, Rule, Resource, Kind, Namespace, Source, Severity, Message, Link string
	When                                                                                    time.Time
}

type tab struct {
	Name, Link string
	On         bool
}

type chip struct{ Text, Without string }

type data struct {
	web.Part

	Tabs                       []tab
	By, ByName                 string
	Groups                     []group
	Rows                       []row
	Detail                     bool
	Chips                      []chip
	Outcomes                   []string
	Outcome, Text, More        string
	Absent                     bool
	Policy, Resource, Producer string
	Category                   string
	Summary                    []group
}

func (p *page) show(q *web.Request) (*web.View, error) {
	v := q.URL.Query()
	d := &data{
		By: cmp.Or(v.Get("by"), "policy"), Outcome: v.Get("result"), Text: strings.TrimSpace(v.Get("text")), Policy: v.Get("policy"),
		Resource: v.Get("resource"), Producer: v.Get("source"), Category: v.Get("category"),
	}
	d.Detail = d.Policy+d.Resource+d.Category != ""
	for _, o := range outcomes {
		d.Outcomes = append(d.Outcomes, o.Value)
	}
	at := slices.IndexFunc(by, func(b struct{ Value, Name, Field string }) bool { return b.Value == d.By })
	if at < 0 {
		return nil, &web.Problem{Code: 400, Title: "Results are not counted by that.", Text: "There are policy, resource, namespace, source and category."}
	}
	d.ByName = by[at].Name
	for _, b := range by {
		d.Tabs = append(d.Tabs, tab{b.Name, web.Link("/policyreports", "by", b.Value, "result", d.Outcome, "source", d.Producer, "text", d.Text), b.Value == d.By})
	}
	for _, c := range []struct{ name, value string }{
		{"policy", d.Policy}, {"resource", d.Resource}, {"source", d.Producer}, {"category", d.Category}, {"result", d.Outcome},
	} {
		if c.value != "" {
			d.Chips = append(d.Chips, chip{c.name + ": " + c.value, q.With(c.name, "")})
		}
	}
	fill := d.count
	if d.Detail {
		fill = d.list
	}
	err := fill(q)
	if errors.Is(err, cluster.ErrAbsent) {
		d.Absent, err = true, nil
	}
	if err != nil {
		return nil, err
	}
	return &web.View{Title: "Policy reports", Section: "Policy reports", Template: p.template, Data: d}, nil
}

// spec is the question that all views share.
func (d *data) spec() reportsv1alpha1.FindingQuerySpec {
	spec := reportsv1alpha1.FindingQuerySpec{Kinds: []string{"reports"}, IncludeSuppressed: true}
	for _, t := range []struct{ field, value string }{
		{"policy", d.Policy}, {"resource.name", d.Resource}, {"source", d.Producer}, {"category", d.Category}, {"result", d.Outcome},
	} {
		if t.value != "" {
			spec.Where = append(spec.Where, reportsv1alpha1.Term{Field: t.field, Op: "==", Value: t.value})
		}
	}
	return spec
}

// count fills the counts.
func (d *data) count(q *web.Request) error {
	spec := d.spec()
	spec.GroupBy, spec.Limit = []string{d.By, "result"}, maxGroups
	answer, err := q.Viewer.Ask(q.Context(), q.Scope, spec)
	if err != nil {
		return err
	}
	groups := map[string]*group{}
	whole := &group{Counts: make([]int64, len(outcomes))}
	for _, g := range answer.Groups {
		name := g.Key[d.By]
		if !strings.Contains(strings.ToLower(name), strings.ToLower(d.Text)) {
			continue
		}
		if groups[name] == nil {
			groups[name] = &group{Name: name, Link: d.linkTo(name), Counts: make([]int64, len(outcomes))}
		}
		for i, o := range outcomes {
			if o.Value == g.Key["result"] {
				groups[name].Counts[i] += g.Count
				groups[name].Total += g.Count
				whole.Counts[i] += g.Count
			}
		}
	}
	list := make([]group, 0, len(groups))
	for _, g := range groups {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.Counts[0]+b.Counts[1], a.Counts[0]+a.Counts[1]), cmp.Compare(b.Counts[2], a.Counts[2]), cmp.Compare(a.Name, b.Name))
	})
	for i, o := range outcomes {
		d.Summary = append(d.Summary, group{Name: o.Value, Link: q.With("result", o.Value), Total: whole.Counts[i], Counts: []int64{int64(i)}})
	}
	if d.Part, err = q.PartOf(len(list)); err != nil {
		return err
	}
	d.Groups = list[d.From:d.To]
	for i := range d.Groups {
		d.Groups[i].Meter = meterOf(&d.Groups[i])
	}
	if answer.Continue != "" {
		d.More = fmt.Sprintf("Only the %s most frequent are counted: narrow the question.", web.Thousands(maxGroups))
	}
	return nil
}

func meterOf(g *group) charts.Meter {
	m := charts.Meter{}
	x := 0.0
	for i, n := range g.Counts {
		if n == 0 {
			continue
		}
		width := 100 * float64(n) / float64(g.Total)
		m.Parts = append(m.Parts, charts.Part{Class: outcomes[i].Fill, X: x, Width: width})
		x += width
	}
	return m
}

// linkTo leads from a group to its results.
func (d *data) linkTo(name string) string {
	switch {
	case name == "":
		return ""
	case d.By == "namespace":
		return web.Link("/policyreports", "ns", name, "result", d.Outcome, "source", d.Producer)
	case d.By == "source":
		return web.Link("/policyreports", "source", name, "result", d.Outcome)
	}
	return web.Link("/policyreports", "by", d.By, d.By, name, "result", d.Outcome, "source", d.Producer)
}

// list fills the results themselves.
func (d *data) list(q *web.Request) error {
	spec := d.spec()
	spec.Limit, spec.Continue = web.PerPage, q.URL.Query().Get("after")
	answer, err := q.Viewer.Ask(q.Context(), q.Scope, spec)
	if err != nil {
		return err
	}
	for i := range answer.Rows {
		d.Rows = append(d.Rows, rowOf(&answer.Rows[i]))
	}
	switch {
	case answer.Total != nil:
		d.Total = int(*answer.Total)
	case answer.TotalAtLeast != nil:
		d.Total = int(*answer.TotalAtLeast)
		d.More = "There are more than " + web.Thousands(*answer.TotalAtLeast) + "."
	}
	if answer.Continue != "" {
		d.Next = q.With("after", answer.Continue)
	}
	if spec.Continue != "" {
		d.First = q.With("", "")
	}
	return nil
}

func rowOf(r *reportsv1alpha1.FindingRow) row {
	out := row{Result: r.Result, Policy: r.Policy, Rule: r.Rule, Namespace: r.Namespace, Source: r.Source, Severity: r.Severity, Message: r.Message}
	for _, o := range outcomes {
		if o.Value == r.Result {
			out.Class = o.Class
		}
	}
	if r.Resource != nil {
		out.Resource, out.Kind = r.Resource.Name, r.Resource.Kind
	}
	if r.Timestamp != nil {
		out.When = r.Timestamp.Time
	}
	if r.Index != nil {
		out.Link = web.Link("/findings/reported", "ns", r.Namespace, "report", r.Report, "index", strconv.Itoa(int(*r.Index)))
	}
	return out
}
