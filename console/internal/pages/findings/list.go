// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
)

// sourcePrefix begins the source of results that the hook persistence-reports has made of findings.
const sourcePrefix = "scanyard/"

const (
	perPage     = 50
	facetValues = 12
)

// filter is what a list is narrowed to.
type filter struct {
	Text       string
	Severities []string
	Category   string
	Source     string
	Target     string
	Policy     string
	Status     string
	Age        string
	Sort       string
	// Scan is the one run that the list is of, as its stored result has it; of a namespace that the address names.
	Scan string
	// Hide are columns that the list leaves out.
	Hide []string
	// Of narrows the list to findings of scans, or of images. A package or an image, by its digest, is one of images.
	Of, Package, Image string
}

// The values of status. A finding is new for newDays, and known from then on.
const (
	statusOpen     = ""
	statusNew      = "new"
	statusKnown    = "known"
	statusFixed    = "fixed"
	statusExcepted = "excepted"
	statusAll      = "all"

	newDays = 7
)

// statuses are what the filter offers.
var statuses = []choice{
	{statusOpen, "open"},
	{statusNew, "new in 7 days"},
	{statusKnown, "known for longer"},
	{statusFixed, "fixed by the newest run"},
	{statusExcepted, "excepted"},
	{statusAll, "all"},
}

// The values of Of.
const (
	ofScans  = "scans"
	ofImages = "images"
)

var origins = []choice{{"", "scans and images"}, {ofScans, "scans"}, {ofImages, "images of registries"}}

// columns can be left out of the list. What a finding is, and how bad, always shows.
var columns = []choice{
	{"target", "target"}, {"category", "category"}, {"namespace", "namespace"}, {"scanner", "scanner"}, {"cvss", "CVSS"}, {"seen", "first seen"},
}

// choice is a value of a field that one value is chosen of.
type choice struct{ Value, Name string }

// ages are how long ago a finding was seen first.
var ages = []struct {
	Value, Name string
	Time        time.Duration
}{
	{"1d", "a day", 24 * time.Hour}, {"7d", "7 days", 7 * 24 * time.Hour}, {"30d", "30 days", 30 * 24 * time.Hour}, {"90d", "90 days", 90 * 24 * time.Hour},
}

func filterOf(q *web.Request) filter {
	v := q.URL.Query()
	f := filter{
		Text: strings.TrimSpace(v.Get("q")), Category: v.Get("category"), Source: v.Get("source"), Target: v.Get("target"),
		Policy: strings.TrimSpace(v.Get("policy")), Status: v.Get("status"), Age: v.Get("age"), Sort: v.Get("sort"),
		Of: v.Get("of"), Package: strings.TrimSpace(v.Get("package")), Image: v.Get("image"), Scan: v.Get("scan"),
	}
	if f.Package+f.Image != "" {
		f.Of = ofImages
	}
	for _, c := range columns {
		if slices.Contains(v["hide"], c.Value) {
			f.Hide = append(f.Hide, c.Value)
		}
	}
	for _, s := range v["severity"] {
		if s != "" {
			f.Severities = append(f.Severities, strings.ToLower(s))
		}
	}
	return f
}

// Shows says whether the list has a column.
func (f *filter) Shows(column string) bool { return !slices.Contains(f.Hide, column) }

// has says whether the filter keeps a severity.
func (f *filter) has(severity string) bool {
	return slices.Contains(f.Severities, severity)
}

// since is the time from which findings were seen first, 0 for any.
func (f *filter) since() time.Duration {
	for _, a := range ages {
		if a.Value == f.Age {
			return a.Time
		}
	}
	return 0
}

// quoted is a text as the grammar of questions has it.
func quoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(text) + "'"
}

// spec is the question for the reports API. The field without is left open, for its facet.
func (f *filter) spec(without string, now time.Time) reportsv1alpha1.FindingQuerySpec {
	spec := reportsv1alpha1.FindingQuerySpec{}
	var filters []string
	term := func(field, value string) {
		switch {
		case value == "" || field == without:
		case value == web.None:
			filters = append(filters, "!has("+field+")")
		default:
			spec.Where = append(spec.Where, reportsv1alpha1.Term{Field: field, Op: "==", Value: value})
		}
	}
	if len(f.Severities) > 0 && without != "severity" {
		spec.Where = append(spec.Where, reportsv1alpha1.Term{Field: "severity", Op: "in", Values: f.Severities})
	}
	term("category", f.Category)
	term("source", sourceOf(f.Source))
	term("resource.name", f.Target)
	term("policy", f.Policy)
	switch f.Of {
	case ofScans:
		spec.Kinds = []string{"reports"}
	case ofImages:
		spec.Kinds = []string{"vulnerabilityreports"}
		term("rule", f.Package)
		term("resource.name", f.Image)
	}
	switch f.Status {
	case statusExcepted:
		spec.IncludeSuppressed = true
		term("suppressed", "true")
	case statusAll:
		spec.IncludeSuppressed = true
	default:
		spec.Where = append(spec.Where, web.OpenFindings)
	}
	if d := f.since(); d > 0 {
		spec.Since = &metav1.Duration{Duration: d}
	}
	week := now.AddDate(0, 0, -newDays).Truncate(time.Hour) // the same question within the hour, so that the reports API may have the answer
	switch f.Status {
	case statusNew:
		spec.After = new(metav1.NewTime(week))
	case statusKnown:
		spec.Before = new(metav1.NewTime(week))
	}
	if f.Text != "" {
		text := quoted(f.Text)
		filters = append(filters, "(rule.contains("+text+") || policy.contains("+text+") || resource.name.contains("+text+"))")
	}
	spec.Filter = strings.Join(filters, " && ")
	switch f.Sort {
	case "new":
		spec.Sort = []reportsv1alpha1.SortKey{{Field: "firstSeen", Order: "desc"}}
	case "cvss":
		spec.Sort = []reportsv1alpha1.SortKey{{Field: "cvss", Order: "desc"}}
	}
	return spec
}

// keepOnly narrows a question to a value of a field; an empty one is that the field is absent.
func keepOnly(spec *reportsv1alpha1.FindingQuerySpec, field, value string) {
	if value != "" {
		spec.Where = append(spec.Where, reportsv1alpha1.Term{Field: field, Op: "==", Value: value})
		return
	}
	spec.Filter = strings.TrimPrefix(spec.Filter+" && !has("+field+")", " && ")
}

// row is a line of the list.
type row struct {
	Severity, Name, Category, Source, Target, Namespace, Policy string
	FirstSeen                                                   time.Time
	Score                                                       string
	Excepted                                                    string
	Link                                                        string
	// Mark names the finding in the form for an exception, by the field MarkName; empty where it cannot be excepted with others.
	MarkName, Mark string
}

// sourceOf is the name that reports have for a scanner of ours; those of others have their own.
func sourceOf(scanner string) string {
	if scanner == "" || strings.Contains(scanner, "/") {
		return scanner
	}
	return sourcePrefix + scanner
}

// value is a value of a facet. Name is what people call it.
type value struct {
	Value, Name string
	Count       int64
	On          bool
}

// facet narrows the list by the values of a field.
type facet struct {
	Name, Field string
	Values      []value
}

// list is what the page shows.
type list struct {
	Filter filter
	Rows   []row
	Facets []facet
	// Total says how many there are.
	Total      string
	Next, Base string
	First      bool
	// Filtered are the parts of the filter, each with the address without it.
	Filtered []part
	Ages     []ageChoice
	Statuses []choice
	Origins  []choice
	Columns  []choice
	// Severities are the choices of that facet.
	Severities []value
	Exports    []export
	// Origin says where the findings come from.
	Origin string
	// Markable says that several findings can be excepted at once.
	Markable bool
}

type part struct{ Text, Without string }

type ageChoice struct {
	Value, Name string
	On          bool
}

type export struct{ Name, Link string }

func (p *pages) list(q *web.Request) (*web.View, error) {
	f := filterOf(q)
	data := &list{
		Filter: f, Base: q.With("", ""), First: q.URL.Query().Get("after") == "", Filtered: parts(q, &f),
		Statuses: statuses, Origins: origins, Columns: columns,
	}
	for _, severity := range []string{"critical", "high", "medium", "low", "info"} {
		data.Severities = append(data.Severities, value{Value: severity, On: f.has(severity)})
	}
	for _, a := range ages {
		data.Ages = append(data.Ages, ageChoice{a.Value, a.Name, a.Value == f.Age})
	}
	for _, format := range []string{"csv", "json", "sarif"} {
		values := q.URL.Query()
		values.Del("after")
		values.Set("format", format)
		data.Exports = append(data.Exports, export{strings.ToUpper(format), "/findings/export?" + values.Encode()})
	}
	fill := p.fill
	switch {
	case f.Status == statusFixed:
		fill = p.fillFixed // the reports API keeps no findings that are gone
	case f.Scan != "":
		fill = p.fillFromScans // the reports API keeps the newest run of each scan
	}
	notes, err := fill(q, data)
	if errors.Is(err, cluster.ErrAbsent) {
		notes, err = p.fillFromScans(q, data)
	}
	if err != nil {
		return nil, err
	}
	data.Markable = slices.ContainsFunc(data.Rows, func(r row) bool { return r.Mark != "" })
	return &web.View{Title: "Findings", Section: "Findings", Template: p.listTemplate, Data: data, Notes: notes}, nil
}

// fill takes the list from the reports API.
func (p *pages) fill(q *web.Request, data *list) ([]string, error) {
	f := &data.Filter
	rows, next, err := f.rows(q, q.URL.Query().Get("after"))
	if err != nil {
		return nil, err
	}
	for i := range rows {
		data.Rows = append(data.Rows, rowOf(&rows[i]))
	}
	total := f.spec("", q.Now)
	total.GroupBy, total.Sort = []string{"severity"}, nil
	answer, err := q.Viewer.Ask(q.Context(), q.Scope, total)
	if err != nil {
		return nil, err
	}
	n := int64(0)
	for _, g := range answer.Groups {
		n += g.Count
	}
	data.Total = web.Count(max(n, int64(len(rows))), "finding")
	if next != "" {
		values := q.URL.Query()
		values.Set("after", next)
		data.Next = "/findings?" + values.Encode()
	}
	return p.facets(q, data), nil
}

// noSeverity stands for the findings without a severity in the address of a page.
const noSeverity = "none"

// stages are the severities that the filter keeps, the worst first.
func (f *filter) stages() (stages []string) {
	for _, severity := range []string{"critical", "high", "medium", "low", "info", noSeverity} {
		if len(f.Severities) == 0 || f.has(severity) {
			stages = append(stages, severity)
		}
	}
	return stages
}

// rows are a page of the list, and where the next one begins. The worst are asked for by severity, one after the other: all findings of a million
// would have to be put in order for the first fifty of them.
func (f *filter) rows(q *web.Request, after string) (rows []reportsv1alpha1.FindingRow, next string, err error) {
	if f.Sort != "" {
		spec := f.spec("", q.Now)
		spec.Limit, spec.Continue = perPage, after
		answer, err := q.Viewer.Ask(q.Context(), q.Scope, spec)
		if err != nil {
			return nil, "", err
		}
		return answer.Rows, answer.Continue, nil
	}
	stages := f.stages()
	if after != "" {
		stage, token, _ := strings.Cut(after, ".")
		at := slices.Index(stages, stage)
		if at < 0 {
			return nil, "", &web.Problem{Code: http.StatusBadRequest, Title: "There is no such page of the list.", Remedy: "Begin at its start."}
		}
		stages, after = stages[at:], token
	}
	for _, stage := range stages {
		if len(rows) >= perPage {
			return rows, stage + ".", nil
		}
		spec := f.spec("severity", q.Now)
		keepOnly(&spec, "severity", strings.TrimPrefix(stage, noSeverity))
		spec.Limit, spec.Continue = int32(perPage-len(rows)), after
		answer, err := q.Viewer.Ask(q.Context(), q.Scope, spec)
		if err != nil {
			return nil, "", err
		}
		rows, after = append(rows, answer.Rows...), ""
		if answer.Continue != "" {
			return rows, stage + "." + answer.Continue, nil
		}
	}
	return rows, "", nil
}

// facets asks how many findings the values of each field have. Packages and images are asked for where the list is of images
// alone: nothing else has them.
func (p *pages) facets(q *web.Request, data *list) (notes []string) {
	ctx, f := q.Context(), &data.Filter
	kinds := []struct{ name, field, group, on string }{
		{"Category", "category", "category", f.Category},
		{"Scanner", "source", "source", f.Source},
		{"Namespace", "ns", "namespace", q.URL.Query().Get("ns")},
		{"Target", "target", "resource", f.Target},
	}
	if f.Of == ofImages {
		kinds[3] = struct{ name, field, group, on string }{"Image", "image", "digest", f.Image}
		kinds = append(kinds, struct{ name, field, group, on string }{"Package", "package", "rule", f.Package})
	}
	for _, kind := range kinds {
		values, err := facetOf(ctx, q, f, kind.group)
		if err != nil {
			notes = append(notes, "The choice by "+strings.ToLower(kind.name)+" cannot be read: "+err.Error())
			continue
		}
		for i := range values {
			values[i].On = values[i].Value == kind.on
			if kind.field == "image" {
				values[i].Name = imageName(q, values[i].Value)
			}
		}
		data.Facets = append(data.Facets, facet{kind.name, kind.field, values})
	}
	return notes
}

// imageName is what people call the image of a digest: its repository and tag.
func imageName(q *web.Request, digest string) string {
	name := digest
	_, err := q.Viewer.Each(q.Context(), q.Scope, &reportsv1alpha1.ImageList{}, func(o client.Object) error {
		if i, ok := o.(*reportsv1alpha1.Image); ok && i.Spec.Repository != "" {
			name = strings.TrimSuffix(i.Spec.Repository+":"+i.Spec.Tag, ":")
		}
		return nil
	}, client.MatchingFields{"spec.digest": digest})
	if err != nil {
		return digest // which means the same
	}
	return name
}

func facetOf(ctx context.Context, q *web.Request, f *filter, group string) ([]value, error) {
	field := group
	if group == "resource" || group == "digest" {
		field = "resource.name"
	}
	spec := f.spec(field, q.Now)
	spec.GroupBy, spec.Limit, spec.Sort = []string{group}, facetValues, nil
	answer, err := q.Viewer.Ask(ctx, q.Scope, spec)
	if err != nil {
		return nil, err
	}
	var out []value
	for _, g := range answer.Groups {
		name := strings.TrimPrefix(g.Key[group], sourcePrefix)
		v := value{Value: name, Name: name, Count: g.Count}
		if name == "" && (group == "category" || group == "resource") {
			v.Value, v.Name = web.None, "none named"
		}
		if v.Value != "" {
			out = append(out, v)
		}
	}
	return out, nil
}

func rowOf(r *reportsv1alpha1.FindingRow) row {
	out := row{
		Severity: r.Severity, Name: r.Rule, Category: r.Category, Source: strings.TrimPrefix(r.Source, sourcePrefix), Target: r.Target,
		Namespace: r.Namespace, Policy: r.Policy,
	}
	if out.Name == "" {
		out.Name = r.Policy
	}
	if out.Target == "" && r.Resource != nil {
		out.Target = r.Resource.Name
	}
	if r.FirstSeen != nil {
		out.FirstSeen = r.FirstSeen.Time
	}
	if r.CVSS != nil {
		out.Score = strconv.FormatFloat(*r.CVSS, 'f', 1, 64)
	}
	if r.Suppressed {
		out.Excepted = "excepted"
	}
	index := ""
	if r.Index != nil {
		index = strconv.Itoa(int(*r.Index))
	}
	if r.Image == "" && index != "" && r.Namespace != "" && !r.Suppressed {
		out.MarkName, out.Mark = "reported", strings.Join([]string{r.Namespace, r.Report, index}, "/")
	}
	if out.Link = "/images/" + r.Namespace + "/" + r.Image; r.Image == "" {
		out.Link = web.Link("/findings/reported", "ns", r.Namespace, "report", r.Report, "index", index)
	}
	return out
}

// parts are what the list is filtered by, with the addresses that take each away.
func parts(q *web.Request, f *filter) (out []part) {
	add := func(name, value, text string) {
		if value != "" {
			out = append(out, part{text, q.With(name, "")})
		}
	}
	add("q", f.Text, "“"+f.Text+"”")
	add("severity", strings.Join(f.Severities, ""), strings.Join(f.Severities, ", "))
	named := func(field, value string) string {
		if value == web.None {
			return "no " + field + " named"
		}
		return value
	}
	add("category", f.Category, named("category", f.Category))
	add("source", f.Source, f.Source)
	add("scan", f.Scan, "of the run "+f.Scan)
	add("target", f.Target, web.TargetName(named("target", f.Target)))
	add("policy", f.Policy, f.Policy)
	add("ns", q.URL.Query().Get("ns"), "in "+q.URL.Query().Get("ns"))
	for _, c := range statuses {
		if c.Value == f.Status {
			add("status", f.Status, c.Name)
		}
	}
	for _, c := range origins {
		if c.Value == f.Of {
			add("of", q.URL.Query().Get("of"), "of "+c.Name)
		}
	}
	add("package", f.Package, "package "+f.Package)
	if f.Image != "" {
		add("image", f.Image, "image "+imageName(q, f.Image))
	}
	for _, a := range ages {
		if a.Value == f.Age {
			add("age", f.Age, "first seen within "+a.Name)
		}
	}
	return out
}
