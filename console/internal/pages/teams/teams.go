// SPDX-License-Identifier: Apache-2.0

// Package teams has the pages that compare namespaces: what is open, new and failing in each, the worst first, as a table and as
// a file; and one namespace with its trend and the settings in force for it.
package teams

import (
	"cmp"
	"embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/charts"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/findings/scanview"
)

//go:embed list.html one.html
var files embed.FS

type pages struct{ listTemplate, oneTemplate *template.Template }

// Register adds the pages of teams.
func Register(a *web.App) error {
	p := &pages{}
	if err := a.Templates(files, map[string]**template.Template{"list.html": &p.listTemplate, "one.html": &p.oneTemplate}); err != nil {
		return err
	}
	a.Page("GET /teams", p.list)
	a.Stream("GET /teams/export", p.export)
	a.Page("GET /teams/{namespace}", p.one)
	return nil
}

const (
	newDays   = 7
	maxGroups = 10_000
	passed    = "pass"
)

// team is a namespace in the table.
type team struct {
	Name, Link                      string
	Open                            [5]int64
	Total, New, Fixed               int64
	Counts                          []web.Tally
	Pass, Checked                   int64
	Share                           string
	Scans, Running, Waiting, Failed int
	Last                            time.Time
	// OldestHigh is the day since which its oldest critical or high finding is open.
	OldestHigh time.Time
	// Limit is how many Scans it may run at a time; nil: as many as the cluster has places.
	Limit *int32
	// QueueShare is its share of the places, while it has Scans waiting or running.
	QueueShare string
}

// Use is how many Scans it runs, of how many it may.
func (t *team) Use() string {
	if t.Limit == nil {
		return strconv.Itoa(t.Running)
	}
	return fmt.Sprintf("%d of %d", t.Running, *t.Limit)
}

// HighFor says for how many days its oldest critical or high finding is open.
func (t *team) HighFor(now time.Time) string {
	if days := int(now.Sub(t.OldestHigh).Hours() / 24); days > 0 {
		return web.Count(days, "day")
	}
	return "today"
}

func (t *team) active() bool { return t.Total > 0 || t.Scans > 0 || t.Checked > 0 }

// table are the teams of a scope.
type table struct {
	byName map[string]*team
	Store  bool
	notes  []string
	// checkers are the sources of results that something passes.
	checkers []string
}

func (t *table) of(name string) *team {
	if t.byName[name] == nil {
		t.byName[name] = &team{Name: name, Link: "/teams/" + name}
	}
	return t.byName[name]
}

// tableOf reads what is known of the namespaces of a scope.
func tableOf(q *web.Request, scope cluster.Scope) (*table, error) {
	t := &table{byName: map[string]*team{}}
	scans, denials, err := q.Viewer.Scans(q.Context(), scope)
	if err != nil {
		return nil, err
	}
	t.notes = web.Notes("Scans", denials, nil)
	for _, s := range scans {
		one := t.of(s.Namespace)
		one.Scans++
		if one.Last.Before(s.CreationTimestamp.Time) {
			one.Last = s.CreationTimestamp.Time
		}
		switch {
		case s.Settled() && s.Status.State == executionv1.ScanStateErrored && q.Now.Sub(s.CreationTimestamp.Time) < newDays*24*time.Hour:
			one.Failed++
		case s.Settled():
		case s.Status.State == executionv1.ScanStateNew:
			one.Waiting++
		default:
			one.Running++
		}
	}
	err = t.ask(q, scope)
	if errors.Is(err, cluster.ErrAbsent) {
		t.count(scanview.Latest(scans))
		err = nil
	}
	if err != nil {
		return nil, err
	}
	if err := t.limit(q, scope); err != nil {
		return nil, err
	}
	for _, one := range t.byName {
		for _, n := range one.Open {
			one.Total += n
		}
		one.Counts = web.Ranked(one.Open)
		if one.Checked > 0 {
			one.Share = strconv.FormatInt(100*one.Pass/one.Checked, 10) + " %"
		}
	}
	return t, nil
}

// ask fills what the reports API answers.
func (t *table) ask(q *web.Request, scope cluster.Scope) error {
	ask := func(spec reportsv1alpha1.FindingQuerySpec, do func(*team, *reportsv1alpha1.FindingGroup)) error {
		spec.Limit = maxGroups
		answer, err := q.Viewer.Ask(q.Context(), scope, spec)
		if err != nil {
			return err
		}
		for i := range answer.Groups {
			if name := answer.Groups[i].Key["namespace"]; name != "" {
				do(t.of(name), &answer.Groups[i])
			}
		}
		return nil
	}
	worst := reportsv1alpha1.FindingQuerySpec{Where: []reportsv1alpha1.Term{web.OpenFindings}, GroupBy: []string{"namespace", "severity"}}
	err := ask(worst, func(one *team, g *reportsv1alpha1.FindingGroup) {
		one.Open[web.SeverityRank(g.Key["severity"])] += g.Count
	})
	if err != nil {
		return err
	}
	t.Store = true
	recent := reportsv1alpha1.FindingQuerySpec{
		Where: []reportsv1alpha1.Term{web.OpenFindings}, GroupBy: []string{"namespace"}, Since: &metav1.Duration{Duration: newDays * 24 * time.Hour},
	}
	err = ask(recent, func(one *team, g *reportsv1alpha1.FindingGroup) {
		one.New += g.Count
	})
	if err != nil {
		return err
	}
	fixed := func(one *team, g *reportsv1alpha1.FindingGroup) { one.Fixed += g.Count }
	if err := ask(web.FixedSince(q.Now.AddDate(0, 0, -newDays), "namespace"), fixed); err != nil {
		return err
	}
	old := reportsv1alpha1.FindingQuerySpec{
		Where: []reportsv1alpha1.Term{web.OpenFindings, {Field: "severity", Op: ">=", Value: "high"}}, GroupBy: []string{"namespace", "firstSeenDay"},
		Sort: []reportsv1alpha1.SortKey{{Field: "firstSeenDay", Order: "asc"}},
	}
	err = ask(old, func(one *team, g *reportsv1alpha1.FindingGroup) {
		day, err := time.Parse(time.DateOnly, g.Key["firstSeenDay"])
		if err == nil && (one.OldestHigh.IsZero() || day.Before(one.OldestHigh)) {
			one.OldestHigh = day
		}
	})
	if err != nil {
		return err
	}
	return t.check(q, scope)
}

// check fills which share of its checks each namespace passes. What checks, and does not only find, shows in that something passes: of what a
// scanner looks at nothing does. The answer comes from the daily figures of the reports API, which know namespaces, sources and results.
func (t *table) check(q *web.Request, scope cluster.Scope) error {
	spec := reportsv1alpha1.FindingQuerySpec{
		Where:   []reportsv1alpha1.Term{{Field: "result", Op: "in", Values: []string{"pass", "fail", "warn", "error"}}},
		GroupBy: []string{"namespace", "source", "result"}, Limit: maxGroups,
	}
	var groups []reportsv1alpha1.FindingGroup
	checkers := map[string]bool{}
	for {
		answer, err := q.Viewer.Ask(q.Context(), scope, spec)
		if err != nil {
			return err
		}
		for _, g := range answer.Groups {
			if g.Key["result"] == passed {
				checkers[g.Key["source"]] = true
			}
		}
		groups = append(groups, answer.Groups...)
		if spec.Continue = answer.Continue; spec.Continue == "" {
			break
		}
	}
	for _, g := range groups {
		if name := g.Key["namespace"]; name != "" && checkers[g.Key["source"]] {
			t.of(name).Checked += g.Count
			if g.Key["result"] == passed {
				t.of(name).Pass += g.Count
			}
		}
	}
	t.checkers = slices.Sorted(maps.Keys(checkers))
	return nil
}

// count fills the figures from the status of the newest runs, where there is no reports API.
func (t *table) count(latest []*executionv1.Scan) {
	for _, s := range latest {
		one := t.of(s.Namespace)
		for _, tally := range web.Tallies(s.Status.Findings) {
			one.Open[web.SeverityRank(tally.Severity)] += tally.N
		}
	}
}

// ordered are the teams that the filter keeps, the worst first.
func (t *table) ordered(text, only string) (out []team) {
	for _, one := range t.byName {
		keeps := one.active() && strings.Contains(one.Name, text)
		switch only {
		case "high":
			keeps = keeps && one.Open[0]+one.Open[1] > 0
		case "new":
			keeps = keeps && one.New > 0
		case "failing":
			keeps = keeps && one.Failed > 0
		}
		if keeps {
			out = append(out, *one)
		}
	}
	slices.SortFunc(out, func(a, b team) int {
		for rank := range a.Open {
			if c := cmp.Compare(b.Open[rank], a.Open[rank]); c != 0 {
				return c
			}
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return out
}

type list struct {
	web.Part

	Teams      []team
	Text, Only string
	Filtered   bool
	Store      bool
	Export     string
	Now        time.Time
}

func (p *pages) list(q *web.Request) (*web.View, error) {
	v := q.URL.Query()
	d := &list{Now: q.Now, Text: strings.TrimSpace(v.Get("text")), Only: v.Get("only")}
	d.Filtered = d.Text+d.Only != ""
	t, err := tableOf(q, q.Scope)
	if err != nil {
		return nil, err
	}
	all := t.ordered(d.Text, d.Only)
	if d.Part, err = q.PartOf(len(all)); err != nil {
		return nil, err
	}
	d.Teams, d.Store, d.Export = all[d.From:d.To], t.Store, web.Link("/teams/export", "text", d.Text, "only", d.Only)
	return &web.View{Title: "Teams", Section: "Teams", Template: p.listTemplate, Data: d, Notes: t.notes}, nil
}

// export sends the table as CSV.
func (p *pages) export(w http.ResponseWriter, q *web.Request) error {
	t, err := tableOf(q, q.Scope)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
	w.Header().Set("Content-Disposition", `attachment; filename="teams.csv"`)
	out := csv.NewWriter(w)
	out.UseCRLF = true
	rows := [][]string{{
		"namespace", "critical", "high", "medium", "low", "info", "new_7_days", "fixed_7_days", "passed", "checked", "running", "waiting", "failed_7_days",
		"last_scan", "oldest_high", "limit", "queue_share",
	}}
	for _, one := range t.ordered(q.URL.Query().Get("text"), q.URL.Query().Get("only")) {
		row := []string{report.Inert(one.Name)}
		counts := []int64{one.New, one.Fixed, one.Pass, one.Checked, int64(one.Running), int64(one.Waiting), int64(one.Failed)}
		for _, n := range slices.Concat(one.Open[:], counts) {
			row = append(row, strconv.FormatInt(n, 10))
		}
		last, oldest, limit := "", "", ""
		if !one.Last.IsZero() {
			last = one.Last.UTC().Format(time.RFC3339)
		}
		if !one.OldestHigh.IsZero() {
			oldest = one.OldestHigh.Format(time.DateOnly)
		}
		if one.Limit != nil {
			limit = strconv.Itoa(int(*one.Limit))
		}
		rows = append(rows, append(row, last, oldest, limit, one.QueueShare))
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// setting is a value in force, and who says so.
type setting struct{ Path, Value, From string }

type one struct {
	team

	Now      time.Time
	Store    bool
	Trends   web.Trends
	Score    charts.Trend
	Settings []setting
	Numbers  []number
}

type number struct {
	Severity, Link string
	N              int64
}

func (p *pages) one(q *web.Request) (*web.View, error) {
	name := q.PathValue("namespace")
	scope := cluster.Scope{Names: []string{name}}
	t, err := tableOf(q, scope)
	if err != nil {
		return nil, err
	}
	d := &one{team: *t.of(name), Now: q.Now, Store: t.Store}
	for i, severity := range []string{"critical", "high", "medium", "low", "info"} {
		d.Numbers = append(d.Numbers, number{severity, web.Link("/findings", "ns", name, "severity", severity), d.Open[i]})
	}
	notes := t.notes
	if t.Store {
		trends, lacking := q.Trends(scope)
		d.Trends, notes = trends, append(notes, lacking...)
		if d.Checked > 0 {
			score, lacking := q.Score(scope, t.checkers)
			d.Score, notes = score, append(notes, lacking...)
		}
	}
	more, err := d.settings(q, name)
	if err != nil {
		return nil, err
	}
	return &web.View{Title: name, Section: "Teams", Template: p.oneTemplate, Data: d, Notes: append(notes, more...)}, nil
}

// settings are the values in force: those of the namespace, and those of the cluster for what the namespace leaves open.
func (d *one) settings(q *web.Request, namespace string) (notes []string, err error) {
	own, ofCluster := &settingsv1alpha2.ScanSetting{}, &settingsv1alpha2.ClusterScanSetting{}
	ownSpec, clusterSpec := any(nil), any(nil)
	for _, source := range []struct {
		object client.Object
		key    client.ObjectKey
		what   string
		take   func()
	}{
		{own, client.ObjectKey{Namespace: namespace, Name: settingsv1alpha2.Name}, "The settings of the namespace", func() { ownSpec = own.Status.InForce }},
		{ofCluster, client.ObjectKey{Name: settingsv1alpha2.Name}, "The settings of the cluster", func() { clusterSpec = ofCluster.Status.InForce }},
	} {
		switch err := q.Viewer.Get(q.Context(), source.key, source.object); {
		case err == nil:
			source.take()
		case apierrors.IsForbidden(err):
			notes = append(notes, source.what+" cannot be read: you may not get them.")
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("read settings: %w", err)
		}
	}
	seen := map[string]bool{}
	for _, layer := range []struct {
		from string
		spec any
	}{{"the namespace", ownSpec}, {"the cluster", clusterSpec}} {
		values, err := flat(layer.spec)
		if err != nil {
			return nil, err
		}
		for path, value := range values {
			if !seen[path] {
				d.Settings = append(d.Settings, setting{path, value, layer.from})
			}
			seen[path] = true
		}
	}
	slices.SortFunc(d.Settings, func(a, b setting) int { return cmp.Compare(a.Path, b.Path) })
	return notes, nil
}

// flat are the values of an object by their paths.
func flat(v any) (map[string]string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	out := map[string]string{}
	var walk func(path string, v any) error
	walk = func(path string, v any) error {
		if m, ok := v.(map[string]any); ok {
			for name, value := range m {
				if err := walk(strings.TrimPrefix(path+"."+name, "."), value); err != nil {
					return err
				}
			}
			return nil
		}
		if v == nil {
			return nil
		}
		text, err := json.Marshal(v)
		out[path] = strings.Trim(string(text), `"`)
		return err
	}
	return out, walk("", tree)
}
