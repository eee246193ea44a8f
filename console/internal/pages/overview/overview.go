// SPDX-License-Identifier: Apache-2.0

// Package overview has the first page: what is bad now, what is new, whose it is, whether it gets better, and what needs a
// hand. Each panel is read by itself: one that cannot be read says so, and the others are shown.
package overview

import (
	"cmp"
	"embed"
	"errors"
	"html/template"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/charts"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/scancolor"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/scanview"
)

//go:embed overview.html
var files embed.FS

const (
	newDays = 7
	topMost = 10
	// soon is before which end an exception is shown.
	soon = 14 * 24 * time.Hour
	// shown is how many lines a panel has.
	shown = 8
)

var severities = []string{"critical", "high", "medium", "low", "info"}

// number is a figure at the top.
type number struct {
	Severity string
	Open     int64
	New      int64
	Fix      time.Duration
	Link     string
}

// bar is a line of a ranking.
type bar struct {
	Name, Link string
	N          int64
	Meter      charts.Meter
}

type line struct {
	Name, Link, Namespace, Class, State, Says string
	When                                      time.Time
}

type data struct {
	Numbers             []number
	Total, New          int64
	Store               bool
	Trends              web.Trends
	Targets, Categories []bar
	Running, Schedules  []line
	MoreRunning         int
	Exceptions          []line
	Errored             []line
	Parts               []part
}

type page struct{ template *template.Template }

// Register adds the page.
func Register(a *web.App) error {
	p := &page{}
	if err := a.Templates(files, map[string]**template.Template{"overview.html": &p.template}); err != nil {
		return err
	}
	a.Page("GET /{$}", p.show)
	return nil
}

func (p *page) show(q *web.Request) (*web.View, error) {
	d := &data{}
	for _, s := range severities {
		d.Numbers = append(d.Numbers, number{Severity: s, Link: web.Link("/findings", "severity", s)})
	}
	// What the reports API knows, and what the Kubernetes API has, are asked for side by side.
	var listed []string
	var failed error
	var lists sync.WaitGroup
	lists.Go(func() { listed, failed = d.lists(q) })
	notes := d.ask(q)
	lists.Wait()
	if failed != nil {
		return nil, failed
	}
	if !d.Store {
		scans, _, err := q.Viewer.Scans(q.Context(), q.Scope)
		if err != nil {
			return nil, err
		}
		d.count(scanview.Latest(scans))
	}
	return &web.View{Title: "Overview", Section: "Overview", Template: p.template, Data: d, Notes: append(listed, notes...)}, nil
}

// lists fills the panels that the Kubernetes API answers.
func (d *data) lists(q *web.Request) (notes []string, err error) {
	scans, denials, err := q.Viewer.Undone(q.Context(), q.Scope)
	if err != nil {
		return nil, err
	}
	d.work(scans, q.Now)
	notes = web.Notes("Scans", denials, nil)
	notes = append(notes, d.schedules(q)...)
	notes = append(notes, d.exceptions(q)...)
	return append(notes, d.parts(q)...), nil
}

var high = reportsv1alpha1.Term{Field: "severity", Op: ">=", Value: "high"}

// ask fills the panels that the reports API answers.
func (d *data) ask(q *web.Request) (notes []string) {
	ctx := q.Context()
	ask := func(what string, spec reportsv1alpha1.FindingQuerySpec) []reportsv1alpha1.FindingGroup {
		answer, err := q.Viewer.Ask(ctx, q.Scope, spec)
		if err != nil {
			notes = append(notes, what+" cannot be read: "+err.Error())
			return nil
		}
		return answer.Groups
	}
	bySeverity := reportsv1alpha1.FindingQuerySpec{Where: []reportsv1alpha1.Term{web.OpenFindings}, GroupBy: []string{"severity"}}
	answer, err := q.Viewer.Ask(ctx, q.Scope, bySeverity)
	if errors.Is(err, cluster.ErrAbsent) {
		return nil
	}
	if err != nil {
		return []string{"Findings cannot be read: " + err.Error()}
	}
	d.Store = true
	for _, g := range answer.Groups {
		d.Numbers[web.SeverityRank(g.Key["severity"])].Open += g.Count
		d.Total += g.Count
	}
	bySeverity.Since = &metav1.Duration{Duration: newDays * 24 * time.Hour}
	for _, g := range ask("What is new", bySeverity) {
		d.Numbers[web.SeverityRank(g.Key["severity"])].New += g.Count
		d.New += g.Count
	}
	fixed := web.FixedSince(q.Now.AddDate(0, 0, -web.TrendDays), "severity")
	fixed.Aggregate = "meanTimeToFix"
	for _, g := range ask("The time to fix", fixed) {
		if g.MeanTimeToFix != nil {
			d.Numbers[web.SeverityRank(g.Key["severity"])].Fix = g.MeanTimeToFix.Duration
		}
	}
	trends, lacking := q.Trends(q.Scope)
	d.Trends, notes = trends, append(notes, lacking...)
	worst := []reportsv1alpha1.Term{web.OpenFindings, high}
	by := func(group string) reportsv1alpha1.FindingQuerySpec {
		return reportsv1alpha1.FindingQuerySpec{Where: worst, GroupBy: []string{group}, Limit: topMost + 1}
	}
	d.Targets = bars(ask("The targets", by("resource")), "resource", "target")
	d.Categories = bars(ask("The categories", by("category")), "category", "category")
	return notes
}

func bars(groups []reportsv1alpha1.FindingGroup, key, field string) []bar {
	var out []bar
	for _, g := range groups {
		name, by := g.Key[key], field
		b := bar{Name: name, N: g.Count}
		if name == "" { // reports of others need not say what they are about
			b.Name, name = "no "+field+" named", web.None
		}
		if field == "target" && strings.HasPrefix(name, "sha256:") {
			b.Name, by = web.TargetName(name), "image"
		}
		b.Link = web.Link("/findings", by, name, "severity", "critical") + "&severity=high"
		out = append(out, b)
	}
	return drawn(out)
}

// drawn are the longest bars, as shares of the first.
func drawn(all []bar) []bar {
	slices.SortFunc(all, func(a, b bar) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name)) })
	all = all[:min(len(all), topMost)]
	for i := range all {
		all[i].Meter = charts.NewMeter(all[0].N, 0, all[i].N)
	}
	return all
}

// count fills the figures from the status of the newest runs, where there is no reports API.
func (d *data) count(latest []*executionv1.Scan) {
	targets, categories := map[string]int64{}, map[string]int64{}
	for _, s := range latest {
		counts := scanview.Counts(s.Status.Findings)
		for i, n := range counts {
			d.Numbers[web.SeverityRank(scanview.Severities[i])].Open += n
			d.Total += n
		}
		targets[scanview.Target(s)] += counts[0]
		for name, n := range s.Status.Findings.FindingCategories {
			categories[name] += n
		}
	}
	for field, counts := range map[string]map[string]int64{"target": targets, "category": categories} {
		var list []bar
		for name, n := range counts {
			if n > 0 {
				list = append(list, bar{Name: name, N: n, Link: web.Link("/findings", field, name)})
			}
		}
		if field == "target" {
			d.Targets = drawn(list)
		} else {
			d.Categories = drawn(list)
		}
	}
}

// work fills what runs and what has failed.
func (d *data) work(scans []*executionv1.Scan, now time.Time) {
	for _, s := range scans {
		l := line{
			Name: s.Name, Link: "/scans/" + s.Namespace + "/" + s.Name, Namespace: s.Namespace, Class: scancolor.Of(s), State: scanview.State(s),
			Says: scanview.Says(s), When: s.CreationTimestamp.Time,
		}
		switch {
		case !s.Settled():
			if len(d.Running) < shown {
				d.Running = append(d.Running, l)
			} else {
				d.MoreRunning++
			}
		case s.Status.State == executionv1.ScanStateErrored && len(d.Errored) < shown && now.Sub(l.When) < newDays*24*time.Hour:
			d.Errored = append(d.Errored, l)
		}
	}
}

// schedules fills those that do not go as they should.
func (d *data) schedules(q *web.Request) []string {
	denials, err := q.Viewer.Each(q.Context(), q.Scope, &executionv1.ScheduledScanList{}, func(o client.Object) error {
		s, ok := o.(*executionv1.ScheduledScan)
		if !ok || len(d.Schedules) == shown {
			return nil
		}
		ready := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionReady)
		if ready != nil && ready.Status == metav1.ConditionFalse {
			d.Schedules = append(d.Schedules, line{
				Name: s.Name, Link: "/schedules/" + s.Namespace + "/" + s.Name, Namespace: s.Namespace, Class: "bad",
				Says: ready.Message, When: ready.LastTransitionTime.Time,
			})
		}
		return nil
	})
	return web.Notes("Schedules", denials, err)
}

// exceptions fills those that end soon: of the namespaces, and of the cluster, which everybody may read.
func (d *data) exceptions(q *web.Request) []string {
	add := func(x exception.Exception, link string) {
		end := x.Spec.ExpiresAt
		if end == nil || x.PhaseAt(q.Now) != exception.Holds || end.Sub(q.Now) >= soon {
			return
		}
		d.Exceptions = append(d.Exceptions, line{
			Name: x.Name, Link: link, Namespace: x.Namespace, Class: "wait", State: string(x.Spec.Status), Says: x.Spec.Reason, When: end.Time,
		})
	}
	denials, err := q.Viewer.Each(q.Context(), q.Scope, &settingsv1alpha2.FindingExceptionList{}, func(o client.Object) error {
		if e, ok := o.(*settingsv1alpha2.FindingException); ok {
			add(exception.Of(e), "/exceptions/"+e.Namespace+"/"+e.Name)
		}
		return nil
	})
	notes := web.Notes("Exceptions", denials, err)
	denials, err = q.Viewer.Each(q.Context(), cluster.Scope{}, &settingsv1alpha2.ClusterFindingExceptionList{}, func(o client.Object) error {
		if e, ok := o.(*settingsv1alpha2.ClusterFindingException); ok {
			add(exception.OfCluster(e), "/clusterexceptions/"+e.Name)
		}
		return nil
	})
	slices.SortFunc(d.Exceptions, func(a, b line) int { return a.When.Compare(b.When) })
	d.Exceptions = d.Exceptions[:min(len(d.Exceptions), shown)]
	return append(notes, web.Notes("Exceptions of the cluster", denials, err)...)
}
