// SPDX-License-Identifier: Apache-2.0

package schedules

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/charts"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/scancolor"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/scanview"
)

//go:embed list.html one.html
var files embed.FS

type pages struct{ listTemplate, oneTemplate *template.Template }

// Register adds the pages of schedules.
func Register(a *web.App) error {
	p := &pages{}
	if err := a.Templates(files, map[string]**template.Template{"list.html": &p.listTemplate, "one.html": &p.oneTemplate}); err != nil {
		return err
	}
	const schedule = "/schedules/{namespace}/{name}"
	a.Page("GET /schedules", p.list)
	a.Page("GET "+schedule, p.one)
	a.Action("POST "+schedule+"/trigger", p.trigger)
	a.Action("POST "+schedule+"/suspend", p.suspend)
	return nil
}

// stripRuns is how many runs the strip of a list shows, shownRuns how many rows the page of a schedule has.
const (
	stripRuns = 14
	shownRuns = 50
)

// line is a schedule in the list.
type line struct {
	Link, Namespace, Name, Type, When, Target string
	Class, State, Says                        string
	Last, Next                                time.Time
	Strip                                     charts.Strip
	Counts                                    []web.Tally
	Suspended                                 bool
}

type list struct {
	web.Part

	Lines                       []line
	Text, Only                  string
	Filtered                    bool
	Failing, Suspended, Healthy int
}

func lineOf(s *executionv1.ScheduledScan, runs []*executionv1.Scan) line {
	l := line{
		Link: "/schedules/" + s.Namespace + "/" + s.Name, Namespace: s.Namespace, Name: s.Name, When: whenOf(s), Class: "good", State: "Scheduled",
		Suspended: s.Suspended(), Strip: stripOf(s.Name, runs),
	}
	if s.Spec.ScanSpec != nil {
		l.Type = s.Spec.ScanSpec.ScanType
		l.Target = scanview.Target(&executionv1.Scan{Spec: *s.Spec.ScanSpec})
	}
	if t := s.Status.LastScheduleTime; t != nil && t.Year() > longAgo.Year() {
		l.Last = t.Time
	}
	if t := s.Status.NextScheduleTime; t != nil && !l.Suspended {
		l.Next = t.Time
	}
	ready := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionReady)
	switch {
	case l.Suspended:
		l.Class, l.State = "off", "Suspended"
	case ready != nil && ready.Status == metav1.ConditionFalse:
		l.Class, l.State, l.Says = "bad", "Fails", ready.Message
	case len(runs) > 0 && scancolor.Of(runs[0]) == "bad":
		l.Class, l.State, l.Says = "bad", "Last run failed", scanview.Says(runs[0])
	}
	l.Counts = web.Tallies(s.Status.Findings)
	return l
}

// whenOf says when a schedule runs.
func whenOf(s *executionv1.ScheduledScan) string {
	text := s.Spec.Schedule
	if text == "" {
		text = "every " + s.Spec.Interval
	}
	if s.Spec.TimeZone != "" {
		text += " " + s.Spec.TimeZone
	}
	return text
}

// stripOf draws the last runs, the newest at the right.
func stripOf(name string, runs []*executionv1.Scan) charts.Strip {
	strip := charts.Strip{Title: fmt.Sprintf("The last %d runs of %s", min(len(runs), stripRuns), name)}
	for _, run := range slices.Backward(runs[:min(len(runs), stripRuns)]) {
		strip.Add("f"+scancolor.Of(run), run.Name+": "+scanview.State(run)+", "+run.CreationTimestamp.UTC().Format(time.RFC3339))
	}
	return strip
}

// runsBySchedule are the runs of each schedule by its UID, the newest first.
func runsBySchedule(scans []*executionv1.Scan) map[types.UID][]*executionv1.Scan {
	out := map[types.UID][]*executionv1.Scan{}
	for _, s := range scans {
		if owner := executionv1.ScheduleOf(s); owner != nil {
			out[owner.UID] = append(out[owner.UID], s)
		}
	}
	return out
}

func (p *pages) list(q *web.Request) (*web.View, error) {
	data, notes, err := listOf(q)
	if err != nil {
		return nil, err
	}
	return &web.View{Title: "Schedules", Section: "Schedules", Template: p.listTemplate, Data: data, Notes: notes}, nil
}

// listOf is the page of the list that a request asks for.
func listOf(q *web.Request) (data *list, notes []string, err error) {
	v := q.URL.Query()
	data = &list{Text: strings.TrimSpace(v.Get("text")), Only: v.Get("state")}
	data.Filtered = data.Text != "" || data.Only != ""
	scans, denials, err := q.Viewer.Scans(q.Context(), q.Scope)
	if err != nil {
		return nil, nil, err
	}
	notes = web.Notes("Scans", denials, nil)
	runs := runsBySchedule(scans)
	var lines []line
	denials, err = q.Viewer.Each(q.Context(), q.Scope, &executionv1.ScheduledScanList{}, func(o client.Object) error {
		s, ok := o.(*executionv1.ScheduledScan)
		if !ok {
			return nil
		}
		if l := lineOf(s, runs[s.UID]); data.keeps(&l) {
			lines = append(lines, l)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	rank := map[string]int{"bad": 0, "good": 1, "off": 2}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(rank[a.Class], rank[b.Class]), a.Next.Compare(b.Next), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	if data.Part, err = q.PartOf(len(lines)); err != nil {
		return nil, nil, err
	}
	data.Lines = lines[data.From:data.To]
	notes = append(notes, web.Notes("Schedules", denials, nil)...)
	return data, notes, nil
}

// keeps counts a schedule, and says whether the filter keeps it.
func (l *list) keeps(s *line) bool {
	if !strings.Contains(strings.ToLower(s.Name+"\n"+s.Namespace+"\n"+s.Type+"\n"+s.Target), strings.ToLower(l.Text)) {
		return false
	}
	var state string
	switch s.Class {
	case "bad":
		l.Failing++
		state = "failing"
	case "off":
		l.Suspended++
		state = "suspended"
	default:
		l.Healthy++
		state = "healthy"
	}
	return l.Only == "" || l.Only == state
}

// run is a run of a schedule.
type run struct {
	Link, Name, Class, State, Says string
	Created                        time.Time
	Took                           time.Duration
	Counts                         []web.Tally
}

type one struct {
	line

	Base, CSRF, Denied, DeniedTrigger string
	MayTrigger, MayPatch              bool
	Runs                              []run
	Facts                             []fact
	Conditions                        []metav1.Condition
}

type fact struct{ Name, Value string }

func (p *pages) read(q *web.Request) (*executionv1.ScheduledScan, error) {
	s := &executionv1.ScheduledScan{}
	if err := q.Viewer.Get(q.Context(), client.ObjectKey{Namespace: q.PathValue("namespace"), Name: q.PathValue("name")}, s); err != nil {
		return nil, fmt.Errorf("read ScheduledScan: %w", err)
	}
	return s, nil
}

func (p *pages) one(q *web.Request) (*web.View, error) {
	s, err := p.read(q)
	if err != nil {
		return nil, err
	}
	scans, denials, err := q.Viewer.Scans(q.Context(), cluster.Scope{Names: []string{s.Namespace}})
	if err != nil {
		return nil, err
	}
	runs := runsBySchedule(scans)[s.UID]
	o := &one{line: lineOf(s, runs), CSRF: q.Session.CSRF, Conditions: s.Status.Conditions}
	o.Base = o.Link
	for _, r := range runs[:min(len(runs), shownRuns)] {
		one := run{
			Link: "/scans/" + r.Namespace + "/" + r.Name, Name: r.Name, Class: scancolor.Of(r), State: scanview.State(r), Created: r.CreationTimestamp.Time,
			Took: scanview.Lifetime(r, q.Now), Counts: web.Tallies(r.Status.Findings),
		}
		if one.Class == "bad" || one.Class == "wait" {
			one.Says = scanview.Says(r)
		}
		o.Runs = append(o.Runs, one)
	}
	o.Facts = factsOf(s)
	group := executionv1.SchemeGroupVersion.Group
	allowed, denied, err := q.Rights(group, "scheduledscans", s.Namespace, "patch")
	if err != nil {
		return nil, err
	}
	o.MayPatch, o.Denied = allowed["patch"], denied
	if allowed, o.DeniedTrigger, err = q.Rights(group, "scheduledscans/status", s.Namespace, "patch"); err != nil {
		return nil, err
	}
	o.MayTrigger = allowed["patch"]
	return &web.View{Title: s.Name, Section: "Schedules", Template: p.oneTemplate, Data: o, Notes: web.Notes("Scans", denials, nil)}, nil
}

func factsOf(s *executionv1.ScheduledScan) (out []fact) {
	add := func(name, value string) {
		if value != "" {
			out = append(out, fact{name, value})
		}
	}
	add("Runs", whenOf(s))
	add("Jitter", s.Spec.Jitter)
	add("Overlap", string(s.Spec.ConcurrencyPolicy))
	if s.Spec.ScanSpec != nil {
		add("Scan type", s.Spec.ScanSpec.ScanType)
		add("Parameters", strings.Join(s.Spec.ScanSpec.Parameters, " "))
	}
	for _, w := range s.Spec.Windows {
		add("Never in", w.Schedule+" for "+w.Duration)
	}
	if s.Spec.RetriggerOnScanTypeChange {
		add("Also", "when its ScanType changes")
	}
	return out
}

// longAgo is a time before any run that a schedule may have missed: a lastScheduleTime of then asks for a run now.
var longAgo = metav1.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// trigger asks for a run now, as the contract has it.
func (p *pages) trigger(q *web.Request) (string, error) {
	s, err := p.read(q)
	if err != nil {
		return "", err
	}
	before := s.DeepCopy()
	s.Status.LastScheduleTime = longAgo.DeepCopy()
	if err := q.Viewer.Status().Patch(q.Context(), s, client.MergeFrom(before)); err != nil {
		return "", fmt.Errorf("ask for a run: %w", err)
	}
	return "/schedules/" + s.Namespace + "/" + s.Name, nil
}

// suspend stops a schedule, or has it go on.
func (p *pages) suspend(q *web.Request) (string, error) {
	s, err := p.read(q)
	if err != nil {
		return "", err
	}
	before := s.DeepCopy()
	s.Spec.Suspend = new(q.PostFormValue("suspend") == "true")
	if err := q.Viewer.Patch(q.Context(), s, client.MergeFrom(before)); err != nil {
		return "", fmt.Errorf("change ScheduledScan: %w", err)
	}
	return "/schedules/" + s.Namespace + "/" + s.Name, nil
}
