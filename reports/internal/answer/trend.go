// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"slices"
	"time"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/query"
)

// trendColumn is what a trend counts. Only what is open goes on from day to day.
func trendColumn(aggregate query.Aggregate) (column string, goesOn bool) {
	switch aggregate {
	case query.New:
		return "r.added", false
	case query.Fixed:
		return "r.fixed", false
	case query.Count, query.CountDistinctResources, query.MaxScore, query.MeanTimeToFix:
	}
	return "r.n", true
}

// trend answers with a group for each day and severity that has findings, days first, the worst severity first. A day on
// which nothing was written has no rows: it ends as the day before did.
func (r *run) trend(ctx context.Context) error {
	today := r.page.Now / int64(24*time.Hour/time.Second)
	begin := today - int64(r.question.TrendDays) + 1
	written, err := r.writtenDays(ctx, begin, today)
	if err != nil {
		return err
	}
	counted, goesOn := trendColumn(r.question.Aggregate)
	since := begin
	if len(written) > 0 {
		since = min(begin, written[0])
	}
	counts := map[int64]*[severities]int64{}
	statement := concat(
		piece("SELECT r.day, r.severity, "+r.dialect.integer("SUM("+counted+")")+" FROM daily r WHERE r.day >= ? AND r.day <= ? AND ", since, today),
		r.where, piece(" GROUP BY r.day, r.severity"),
	)
	err = r.each(ctx, statement, func(scan func(...any) error) error {
		var day, severity, n int64
		if err := scan(&day, &severity, &n); err != nil {
			return err
		}
		if counts[day] == nil {
			counts[day] = &[severities]int64{}
		}
		if severity >= 0 && severity < severities {
			counts[day][severity] = n
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.status.Groups = []reportsv1.FindingGroup{}
	last := since
	if len(written) > 0 && written[0] > begin {
		last = -1 // there is nothing before the first day
	}
	for day := begin; day <= today; day++ {
		if _, has := slices.BinarySearch(written, day); has || !goesOn {
			last = day
		}
		r.addDay(day, counts[last])
	}
	return nil
}

// writtenDays are the days that have rows, in order: the last one up to the begin, and all behind it.
func (r *run) writtenDays(ctx context.Context, begin, today int64) (days []int64, err error) {
	statement := piece(
		"SELECT DISTINCT day FROM daily WHERE day <= ? AND day >= COALESCE((SELECT MAX(day) FROM daily WHERE day <= ?), ?) ORDER BY day",
		today, begin, begin,
	)
	err = r.each(ctx, statement, func(scan func(...any) error) error {
		var day int64
		err := scan(&day)
		days = append(days, day)
		return err
	})
	return days, err
}

func (r *run) addDay(day int64, counts *[severities]int64) {
	if counts == nil {
		return
	}
	text := time.Unix(day*int64(24*time.Hour/time.Second), 0).UTC().Format(time.DateOnly)
	for severity := severities - 1; severity >= 0; severity-- {
		if n := counts[severity]; n > 0 {
			r.status.Groups = append(r.status.Groups, reportsv1.FindingGroup{
				Key: map[string]string{"day": text, "severity": query.SeverityOfRank(severity)}, Count: n,
			})
		}
	}
}
