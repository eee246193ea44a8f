// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"cmp"
	"errors"
	"slices"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/report"
)

// Panel is the list that a request asks for in short.
func Panel(q *web.Request) (*web.Panel, error) {
	f := filterOf(q)
	var worst []row
	var counts [5]int64
	var err error
	if f.Status != statusFixed && f.Scan == "" {
		worst, counts, err = panelOfStore(q, &f)
	}
	if f.Status == statusFixed || f.Scan != "" || errors.Is(err, cluster.ErrAbsent) {
		worst, counts, err = panelOfScans(q, &f)
	}
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	p := &web.Panel{Total: web.Count(total, "finding"), Counts: web.Ranked(counts)}
	for i := range worst {
		r := &worst[i]
		note := cmp.Or(web.TargetName(r.Target), r.Policy)
		p.Rows = append(p.Rows, web.PanelRow{Severity: r.Severity, Name: r.Name, Link: r.Link, Note: note, When: r.FirstSeen})
	}
	return p, nil
}

func panelOfStore(q *web.Request, f *filter) (worst []row, counts [5]int64, err error) {
	spec := f.spec("", q.Now)
	spec.Sort, spec.GroupBy = nil, []string{"severity"}
	answer, err := q.Viewer.Ask(q.Context(), q.Scope, spec)
	if err != nil {
		return nil, counts, err
	}
	for _, g := range answer.Groups {
		counts[web.SeverityRank(g.Key["severity"])] += g.Count
	}
	spec = f.spec("", q.Now)
	spec.Limit = web.PanelRows
	if answer, err = q.Viewer.Ask(q.Context(), q.Scope, spec); err != nil {
		return nil, counts, err
	}
	for i := range answer.Rows[:min(len(answer.Rows), web.PanelRows)] {
		worst = append(worst, rowOf(&answer.Rows[i]))
	}
	return worst, counts, nil
}

func panelOfScans(q *web.Request, f *filter) (worst []row, counts [5]int64, err error) {
	_, _, err = each(q.Context(), q, f, func(scan *executionv1.Scan, e *report.Entry) error {
		r := storedRow(scan, e)
		counts[web.SeverityRank(r.Severity)]++
		at, _ := slices.BinarySearchFunc(worst, r, func(a, b row) int {
			return cmp.Or(cmp.Compare(web.SeverityRank(a.Severity), web.SeverityRank(b.Severity)), cmp.Compare(a.Name, b.Name))
		})
		if at < web.PanelRows {
			worst = slices.Insert(worst, at, r)
			worst = worst[:min(len(worst), web.PanelRows)]
		}
		return nil
	})
	return worst, counts, err
}
