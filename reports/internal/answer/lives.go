// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/query"
)

// life is a row of history.
type life struct {
	ns, target, source, policy, rule int64
	severity, result                 int
	first, fixed                     sql.NullInt64
}

const lifeColumns = "r.ns, r.target, r.source, r.policy, r.rule, r.severity, r.result, r.first_at, r.fixed_at"

func (l *life) targets() []any {
	return []any{&l.ns, &l.target, &l.source, &l.policy, &l.rule, &l.severity, &l.result, &l.first, &l.fixed}
}

// lives answers with findings that need not be in a report any more.
func (r *run) lives(ctx context.Context) error {
	keys := r.rowKeys()
	if err := r.place(keys); err != nil {
		return err
	}
	columns := []string{lifeColumns}
	var joins strings.Builder
	for _, k := range keys {
		columns = append(columns, k.expression)
		joins.WriteString(k.join)
	}
	statement := concat(piece("SELECT "+strings.Join(columns, ", ")+" FROM history r"+joins.String()+" WHERE "), r.where, piece(" AND "),
		behind(keys, r.after), piece(orderBy(keys)+" LIMIT ?", r.question.Limit+1))
	var found []life
	var last []any
	err := r.each(ctx, statement, func(scan func(...any) error) error {
		var l life
		values := targetsOf(keys)
		if err := scan(append(l.targets(), values...)...); err != nil {
			return err
		}
		if len(found) < r.question.Limit {
			found, last = append(found, l), values
			return nil
		}
		return r.next(last)
	})
	if err != nil {
		return err
	}
	var ids []int64
	for i := range found {
		ids = append(ids, found[i].ns, found[i].target, found[i].source, found[i].policy, found[i].rule)
	}
	slices.Sort(ids)
	texts, err := r.textsOf(ctx, slices.Compact(ids))
	if err != nil {
		return err
	}
	r.status.Rows = make([]reportsv1.FindingRow, 0, len(found))
	for i := range found {
		r.status.Rows = append(r.status.Rows, r.rowOfLife(&found[i], texts))
	}
	return nil
}

func (r *run) rowOfLife(l *life, texts map[int64]string) reportsv1.FindingRow {
	row := reportsv1.FindingRow{
		Namespace: texts[l.ns], Target: texts[l.target], Source: texts[l.source], Policy: texts[l.policy], Rule: texts[l.rule],
		Severity: query.SeverityOfRank(l.severity), Result: query.ResultOfCode(l.result), FirstSeen: timeOf(l.first), FixedAt: timeOf(l.fixed),
	}
	row.OpenFor = openFor(&row, r.compiler.now)
	return row
}
