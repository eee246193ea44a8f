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

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
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
	switch f.Status {
	case statusOpen:
		if e.Excepted() {
			return false
		}
	case statusExcepted:
		if !e.Excepted() {
			return false
		}
	}
	switch {
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
	latest := scanview.Latest(all)
	if len(latest) > maxScans {
		notes = append(notes, fmt.Sprintf("Only the newest %d of %d scans are read here. With the reports API (charts/reports) all are.", maxScans, len(latest)))
		latest = latest[:maxScans]
	}
	for _, scan := range latest {
		input, err := q.Viewer.Findings(ctx, scan)
		if err == nil {
			err = input.Each(ctx, func(e *report.Entry) error {
				if !f.keeps(e, scan) {
					return nil
				}
				return do(scan, e)
			})
		}
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
		out = append(out, value{name, n, name == on})
	}
	slices.SortFunc(out, func(a, b value) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value)) })
	return out[:min(len(out), facetValues)]
}
