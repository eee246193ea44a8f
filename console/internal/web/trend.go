// SPDX-License-Identifier: Apache-2.0

package web

import (
	"slices"
	"time"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/charts"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/findings/query"
)

// OpenFindings keeps what counts: neither passed, nor excepted.
var OpenFindings = reportsv1alpha1.Term{Field: "result", Op: "in", Values: []string{"fail", "warn", "error"}}

// TrendDays is how many days pages look back.
const TrendDays = 90

// Trends are how findings came and went.
type Trends struct {
	// Open is what was open at the end of each day, by severity.
	Open charts.Trend
	// Turnover is what was new on each day, and what was fixed.
	Turnover charts.Trend
}

// Trends asks the reports API for the last days of a scope. What it does not answer is missing, and named in the notes.
func (q *Request) Trends(scope cluster.Scope) (t Trends, notes []string) {
	ask := func(aggregate string) []reportsv1alpha1.FindingGroup {
		answer, err := q.Viewer.Ask(q.Context(), scope, daily(OpenFindings, aggregate))
		if err != nil {
			notes = append(notes, "The trend of what is "+aggregate+" cannot be read: "+err.Error())
			return nil
		}
		return answer.Groups
	}
	t.Open = openTrend(ask("count"))
	t.Turnover = turnover(q.Now, ask("new"), ask("fixed"))
	return t, notes
}

// Score asks the reports API which share of the checks of some sources passed in a scope at the end of each day.
func (q *Request) Score(scope cluster.Scope, sources []string) (score charts.Trend, notes []string) {
	days := map[string]*charts.Score{}
	var narrow []reportsv1alpha1.Term
	if len(sources) <= query.MaxValues && !slices.Contains(sources, "") { // no term can ask for what names no source beside others
		narrow = []reportsv1alpha1.Term{{Field: "source", Op: "in", Values: sources}}
	}
	count := func(term reportsv1alpha1.Term, add func(*charts.Score, int64)) {
		spec := daily(term, "count")
		spec.Where = append(spec.Where, narrow...)
		answer, err := q.Viewer.Ask(q.Context(), scope, spec)
		if err != nil {
			notes = append(notes, "Which checks passed cannot be read: "+err.Error())
			return
		}
		for _, g := range answer.Groups {
			day, err := time.Parse(time.DateOnly, g.Key["day"])
			if err != nil {
				continue // a day that is none has no place in a chart
			}
			if days[g.Key["day"]] == nil {
				days[g.Key["day"]] = &charts.Score{Day: day}
			}
			add(days[g.Key["day"]], g.Count)
		}
	}
	count(reportsv1alpha1.Term{Field: "result", Op: "==", Value: "pass"}, func(s *charts.Score, n int64) { s.Passed += n })
	count(OpenFindings, func(s *charts.Score, n int64) { s.Failed += n })
	list := make([]charts.Score, 0, len(days))
	for _, day := range days {
		list = append(list, *day)
	}
	slices.SortFunc(list, func(a, b charts.Score) int { return a.Day.Compare(b.Day) })
	return charts.NewScore("Checks that passed, by day", list), notes
}

// daily asks for a count on each day, by severity.
func daily(of reportsv1alpha1.Term, aggregate string) reportsv1alpha1.FindingQuerySpec {
	return reportsv1alpha1.FindingQuerySpec{
		Where: []reportsv1alpha1.Term{of}, Aggregate: aggregate, Trend: &reportsv1alpha1.TrendQuery{Days: TrendDays},
		Limit: TrendDays * int32(len(charts.Day{}.Counts)+1),
	}
}

// FixedSince counts what was fixed from the hour of a time on: the same question within the hour, so that the reports API may have the answer.
func FixedSince(t time.Time, groupBy ...string) reportsv1alpha1.FindingQuerySpec {
	return reportsv1alpha1.FindingQuerySpec{
		Where:   []reportsv1alpha1.Term{OpenFindings, {Field: "fixedAt", Op: ">=", Value: t.UTC().Truncate(time.Hour).Format(time.RFC3339)}},
		GroupBy: groupBy,
	}
}

func openTrend(groups []reportsv1alpha1.FindingGroup) charts.Trend {
	days := map[string]*charts.Day{}
	for _, g := range groups {
		day, err := time.Parse(time.DateOnly, g.Key["day"])
		if err != nil {
			continue // a day that is none has no place in a chart
		}
		if days[g.Key["day"]] == nil {
			days[g.Key["day"]] = &charts.Day{Day: day}
		}
		days[g.Key["day"]].Counts[SeverityRank(g.Key["severity"])] += g.Count
	}
	list := make([]charts.Day, 0, len(days))
	for _, day := range days {
		list = append(list, *day)
	}
	slices.SortFunc(list, func(a, b charts.Day) int { return a.Day.Compare(b.Day) })
	return charts.NewTrend("Open findings by day", list)
}

// turnover has all days up to today: on most of them nothing is new or fixed, and the answers leave them out.
func turnover(now time.Time, added, fixed []reportsv1alpha1.FindingGroup) charts.Trend {
	counts := func(groups []reportsv1alpha1.FindingGroup) map[string]int64 {
		of := map[string]int64{}
		for _, g := range groups {
			of[g.Key["day"]] += g.Count
		}
		return of
	}
	addedOn, fixedOn := counts(added), counts(fixed)
	days := make([]charts.Turn, 0, TrendDays)
	for i := range TrendDays {
		day := now.UTC().AddDate(0, 0, i+1-TrendDays)
		name := day.Format(time.DateOnly)
		days = append(days, charts.Turn{Day: day, New: addedOn[name], Fixed: fixedOn[name]})
	}
	return charts.NewTurnover("New and fixed findings by day", days)
}
