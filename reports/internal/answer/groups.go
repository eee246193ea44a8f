// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/query"
)

// groupExpression is what a column is grouped by. Moments are grouped by the begin of their day.
func groupExpression(c column) string {
	if c.storage != moment {
		return c.name
	}
	return "COALESCE(" + c.name + " - (" + c.name + " % " + daySeconds + " + " + daySeconds + ") % " + daySeconds + ", " + absentMoment + ")"
}

// meanOfGroup is how long what was fixed had been there, in whole seconds. Both parts are positive, so that what is
// taken off is the rest of the division, in every database.
func (r *run) meanOfGroup() string {
	return r.dialect.integer("CASE WHEN t.d > 0 THEN (t.f - t.f % t.d) / t.d END")
}

// countedStatement groups the rows of the table by numbers: t.g0 …, t.n their count, and t.d, t.m or t.f the aggregate.
func (r *run) countedStatement() sqlText {
	var selected, groups, outer []string
	for i, group := range r.question.GroupBy {
		c, _ := r.plan.columnOf(group)
		name := fmt.Sprintf("g%d", i)
		selected, groups, outer = append(selected, groupExpression(c)+" AS "+name), append(groups, name), append(outer, "u."+name)
	}
	by := func(columns []string) string {
		if len(columns) == 0 {
			return ""
		}
		return " GROUP BY " + strings.Join(columns, ", ")
	}
	from := func(columns ...string) string {
		return "SELECT " + strings.Join(append(slices.Clip(selected), columns...), ", ") + " FROM " + string(r.plan) + " r" + r.objects() + " WHERE "
	}
	switch {
	case r.plan == PlanHistory:
		mean := r.dialect.integer("SUM(r.fixed_at - r.first_at)") + " AS f, COUNT(r.fixed_at) AS d"
		return concat(piece(from("COUNT(*) AS n", mean)), r.where, piece(by(groups)))
	case r.plan != PlanResults:
		return concat(piece(from(r.dialect.integer("SUM(r.n)")+" AS n")), r.where, piece(by(groups)))
	case r.question.HasMaxScore():
		return concat(piece(from("COUNT(*) AS n", "MAX(r.score) AS m")), r.where, piece(by(groups)))
	case r.question.Aggregate == query.CountDistinctResources:
		columns := slices.Concat(outer, []string{r.dialect.integer("SUM(u.n)") + " AS n", "COUNT(CASE WHEN u.res_name <> ? THEN 1 END) AS d"})
		within := slices.Concat(groups, []string{"r.ns", "r.res_kind", "r.res_ns", "r.res_name"})
		return concat(piece("SELECT "+strings.Join(columns, ", ")+" FROM ("+from("r.res_name AS res_name", "COUNT(*) AS n"), r.compiler.empty), r.where,
			piece(by(within)+") u"+by(outer)))
	default:
		return concat(piece(from("COUNT(*) AS n")), r.where, piece(by(groups)))
	}
}

// groupsStatement gives the groups their texts, and puts them in order.
func (r *run) groupsStatement(keys []key) sqlText {
	columns := []string{"t.n"}
	var joins strings.Builder
	for i, group := range r.question.GroupBy {
		c, _ := r.plan.columnOf(group)
		if c.storage != named {
			columns = append(columns, fmt.Sprintf("t.g%d", i))
			continue
		}
		columns = append(columns, fmt.Sprintf("COALESCE(k%d.s, '')", i))
		fmt.Fprintf(&joins, " LEFT JOIN names k%d ON k%d.id = t.g%d", i, i, i)
	}
	switch {
	case r.question.Aggregate == query.CountDistinctResources:
		columns = append(columns, "t.d")
	case r.question.Aggregate == query.MeanTimeToFix:
		columns = append(columns, r.meanOfGroup())
	case r.question.HasMaxScore():
		columns = append(columns, "t.m")
	}
	for _, k := range keys {
		columns = append(columns, k.expression)
	}
	return concat(piece("SELECT "+strings.Join(columns, ", ")+" FROM ("), r.countedStatement(), piece(") t"+joins.String()+" WHERE t.n > 0 AND "),
		behind(keys, r.after), piece(orderBy(keys)+" LIMIT ?", r.question.Limit+1))
}

// groups answers with groups.
func (r *run) groups(ctx context.Context) error {
	keys := r.groupKeys()
	if err := r.place(keys); err != nil {
		return err
	}
	var last []any
	r.status.Groups = []reportsv1.FindingGroup{}
	return r.each(ctx, r.groupsStatement(keys), func(scan func(...any) error) error {
		group := reportsv1.FindingGroup{Key: map[string]string{}}
		parts, aggregate := r.groupTargets()
		values := targetsOf(keys)
		targets := append([]any{&group.Count}, parts...)
		if aggregate != nil {
			targets = append(targets, aggregate)
		}
		if err := scan(append(targets, values...)...); err != nil {
			return err
		}
		if len(r.status.Groups) == r.question.Limit {
			return r.next(last)
		}
		last = values
		for i, name := range r.question.GroupBy {
			group.Key[string(name)] = r.keyText(name, parts[i])
		}
		switch aggregate := aggregate.(type) {
		case *int64:
			group.DistinctResources = aggregate
		case *sql.NullInt64:
			if aggregate.Valid {
				group.MeanTimeToFix = &metav1.Duration{Duration: time.Duration(aggregate.Int64) * time.Second}
			}
		case *sql.NullFloat64:
			if aggregate.Valid {
				group.MaxScore = &aggregate.Float64
			}
		}
		r.status.Groups = append(r.status.Groups, group)
		return nil
	})
}

// groupTargets are the places that the key and the aggregate of a group are read into.
func (r *run) groupTargets() (parts []any, aggregate any) {
	for _, group := range r.question.GroupBy {
		if c, _ := r.plan.columnOf(group); c.storage == named || c.storage == plain {
			parts = append(parts, new(string))
		} else {
			parts = append(parts, new(int64))
		}
	}
	switch {
	case r.question.Aggregate == query.CountDistinctResources:
		aggregate = new(int64)
	case r.question.Aggregate == query.MeanTimeToFix:
		aggregate = new(sql.NullInt64)
	case r.question.HasMaxScore():
		aggregate = new(sql.NullFloat64)
	}
	return parts, aggregate
}

// keyText is a part of a group's key as answers show it.
func (r *run) keyText(group query.Group, part any) string {
	number, ok := part.(*int64)
	if !ok {
		return *part.(*string) // groupTargets makes no other
	}
	switch c, _ := r.plan.columnOf(group); c.storage {
	case rank:
		return query.SeverityOfRank(int(*number))
	case code:
		return query.ResultOfCode(int(*number))
	case moment:
		return dayText(*number)
	case named, plain, score, duration, lasted, flag, optionalName, optionalFlag:
	}
	return ""
}

// dayText is the day of a time in seconds since 1970.
func dayText(seconds int64) string {
	if absent := time.Unix(seconds, 0).UTC(); absent.Year() > 0 {
		return absent.Format(time.DateOnly)
	}
	return ""
}
