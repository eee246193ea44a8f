// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/findings/scanview"
)

const (
	// maxScans is how many runs are read for one page without the reports API.
	maxScans = 20
	// maxKept is how many of their findings are kept to be ordered; the worst stay.
	maxKept = 5000
)

// errEnough ends reading.
var errEnough = errors.New("enough")

// keeps says whether the filter keeps a finding of a Scan.
func (f *filter) keeps(e *report.Entry, scan *executionv1.Scan) bool {
	if len(f.Severities) > 0 && !f.has(severityOf(e.Severity)) {
		return false
	}
	switch {
	case f.Status != statusAll && e.Excepted() != (f.Status == statusExcepted), f.Of == ofImages:
		return false
	case f.Category != "" && e.Category != f.Category, f.Source != "" && scan.Spec.ScanType != f.Source, f.Target != "" && scanview.Target(scan) != f.Target:
		return false
	case f.Policy != "" && !refers(e, f.Policy):
		return false
	}
	text := strings.ToLower(f.Text)
	return text == "" || strings.Contains(strings.ToLower(e.Name+"\n"+e.Description+"\n"+e.Location), text) || refers(e, f.Text)
}

func refers(e *report.Entry, value string) bool {
	return slices.ContainsFunc(e.References, func(r finding) bool { return strings.EqualFold(r.Value, value) })
}

// severityOf is the word of reports for a severity.
func severityOf(s report.Severity) string {
	if s == report.Informational {
		return "info"
	}
	return strings.ToLower(s.String())
}

// each calls a function with every finding of the newest runs that the filter keeps.
func each(ctx context.Context, q *web.Request, f *filter, do func(*executionv1.Scan, *report.Entry) error) (notes []string, scans int, err error) {
	all, denials, err := q.Viewer.Scans(ctx, q.Scope)
	if err != nil {
		return nil, 0, err
	}
	for _, d := range denials {
		notes = append(notes, d.String())
	}
	latest, before := scanview.Latest(all), runsBefore(all)
	if f.Scan != "" {
		latest = slices.DeleteFunc(slices.Clone(all), func(s *executionv1.Scan) bool { return s.Name != f.Scan })
	}
	if len(latest) > maxScans {
		note := "Only the newest %d of %d scans are read here. With the reports API (charts/reports) all are."
		if f.Status == statusFixed {
			note = "Only the newest %d of %d scans are compared here: choose fewer namespaces above."
		}
		notes = append(notes, fmt.Sprintf(note, maxScans, len(latest)))
		latest = latest[:maxScans]
	}
	for _, scan := range latest {
		err := f.read(ctx, q, scan, before[scan.UID], do)
		switch {
		case err == nil, errors.Is(err, cluster.ErrNoFindings):
		case errors.Is(err, errEnough):
			return notes, len(latest), nil
		case ctx.Err() != nil:
			return nil, 0, err
		default:
			notes = append(notes, fmt.Sprintf("Findings of Scan %s in %s are missing here: %v", scan.Name, scan.Namespace, err))
		}
	}
	return notes, len(latest), nil
}

// runsBefore are the runs before the newest ones of each scan, by the UID of the newest.
func runsBefore(newestFirst []*executionv1.Scan) map[types.UID]*executionv1.Scan {
	before, newest := map[types.UID]*executionv1.Scan{}, map[string]*executionv1.Scan{}
	for _, s := range newestFirst {
		if s.Status.State != executionv1.ScanStateDone {
			continue
		}
		first := newest[scanview.Series(s)]
		switch {
		case first == nil:
			newest[scanview.Series(s)] = s
		case before[first.UID] == nil:
			before[first.UID] = s
		}
	}
	return before
}

// read calls a function with the findings of a newest run that the filter keeps. What is new, known or fixed is seen beside the
// run before; where there is none, nothing is.
func (f *filter) read(ctx context.Context, q *web.Request, newest, before *executionv1.Scan, do func(*executionv1.Scan, *report.Entry) error) error {
	from, other := newest, before
	if f.Status == statusFixed {
		from, other = before, newest
	}
	var set *compare.Set
	if f.Status == statusNew || f.Status == statusKnown || f.Status == statusFixed {
		if before == nil {
			return nil
		}
		set = &compare.Set{}
		input, err := q.Viewer.Findings(ctx, other)
		if err == nil {
			err = input.Each(ctx, func(e *report.Entry) error { return set.AddFinding(e.Element) })
		}
		if err != nil {
			return err
		}
	}
	input, err := q.Viewer.Findings(ctx, from)
	if err != nil {
		return err
	}
	return input.Each(ctx, func(e *report.Entry) error {
		if !f.keeps(e, from) {
			return nil
		}
		if set != nil {
			state, err := set.State(e.Element)
			if err != nil {
				return fmt.Errorf("compare with the run before: %w", err)
			}
			if (state == compare.Known) != (f.Status == statusKnown) {
				return nil
			}
		}
		return do(from, e)
	})
}

// fillFixed takes what is fixed from what the last two runs of each scan have stored.
func (p *pages) fillFixed(q *web.Request, data *list) ([]string, error) {
	notes, err := p.fillFromScans(q, data)
	data.Origin = "that the run before had, and the newest has not"
	for i := range data.Rows {
		data.Rows[i].Mark = ""
	}
	return notes, err
}

// fillFromScans takes the list from what the newest runs have stored.
func (p *pages) fillFromScans(q *web.Request, data *list) ([]string, error) {
	var kept []row
	total := 0
	categories, sources, targets, namespaces := map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}
	notes, scans, err := each(q.Context(), q, &data.Filter, func(scan *executionv1.Scan, e *report.Entry) error {
		total++
		categories[e.Category]++
		sources[scan.Spec.ScanType]++
		targets[scanview.Target(scan)]++
		namespaces[scan.Namespace]++
		if len(kept) < maxKept {
			kept = append(kept, storedRow(scan, e))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(kept, func(a, b row) int {
		return cmp.Or(cmp.Compare(web.SeverityRank(a.Severity), web.SeverityRank(b.Severity)), cmp.Compare(a.Name, b.Name))
	})
	from, err := strconv.Atoi(cmp.Or(q.URL.Query().Get("after"), "0"))
	if err != nil || from < 0 {
		return nil, &web.Problem{Code: 400, Title: "There is no such page of the list.", Remedy: "Begin at its start."}
	}
	from = min(from, len(kept))
	to := min(from+perPage, len(kept))
	data.Rows, data.Total = kept[from:to], web.Count(total, "finding")
	const origin = "of the newest run of %s. Trends, ages and questions over everything come with the reports API (charts/reports)."
	data.Origin = fmt.Sprintf(origin, web.Count(scans, "scan"))
	if data.Filter.Scan != "" {
		data.Origin = "as the run has stored them"
	}
	if to < len(kept) {
		data.Next = q.With("after", strconv.Itoa(to))
	}
	data.Facets = []facet{
		{"Category", "category", top(categories, data.Filter.Category)},
		{"Scanner", "source", top(sources, data.Filter.Source)},
		{"Target", "target", top(targets, data.Filter.Target)},
		{"Namespace", "ns", top(namespaces, q.URL.Query().Get("ns"))},
	}
	return notes, nil
}

func storedRow(scan *executionv1.Scan, e *report.Entry) row {
	r := row{
		Severity: severityOf(e.Severity), Name: e.Name, Category: e.Category, Source: scan.Spec.ScanType, Target: e.Location, Namespace: scan.Namespace,
		Link: web.Link("/findings/"+key(e), "ns", scan.Namespace, "scan", scan.Name),
	}
	if e.Fingerprint != "" && e.Exception == nil {
		r.MarkName, r.Mark = "stored", scan.Namespace+"/"+e.Fingerprint
	}
	if r.Target == "" {
		r.Target = scanview.Target(scan)
	}
	for _, ref := range e.References {
		if strings.EqualFold(ref.Type, "CVE") {
			r.Policy = ref.Value
			break
		}
	}
	if e.Exception != nil {
		r.Excepted = string(e.Exception.Status)
	}
	return r
}

// key is what a finding is known by: its fingerprint, else its id.
func key(e *report.Entry) string { return escape(cmp.Or(e.Fingerprint, e.ID)) }

// top are the values of a facet, the most frequent first.
func top(counts map[string]int64, on string) []value {
	out := make([]value, 0, len(counts))
	for name, n := range counts {
		out = append(out, value{name, name, n, name == on})
	}
	slices.SortFunc(out, func(a, b value) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value)) })
	return out[:min(len(out), facetValues)]
}
