// SPDX-License-Identifier: Apache-2.0

package web

import (
	"slices"
	"time"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/charts"
)

// TrendOf draws the answer to a question for a trend.
func TrendOf(title string, groups []reportsv1alpha1.FindingGroup) charts.Trend {
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
	return charts.NewTrend(title, list)
}
