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

// resultRow is a row of results.
type resultRow struct {
	object, index                                 int64
	ns, source, policy, rule, category            int64
	resourceKind, resourceNamespace, resourceName int64
	exception, pkgType, pkgVersion, fixable       sql.NullInt64
	severity, result, suppressed                  int
	score                                         sql.NullFloat64
	timestamp, firstSeen                          sql.NullInt64
}

const resultColumns = "r.object, r.i, r.ns, r.source, r.policy, r.rule, r.category, r.res_kind, r.res_ns, r.res_name, r.severity, r.result, " +
	"r.exception, r.suppressed, r.score, r.ts, r.first_seen, r.pkg_type, r.pkg_version, r.fixable"

func (row *resultRow) targets() []any {
	return []any{
		&row.object, &row.index, &row.ns, &row.source, &row.policy, &row.rule, &row.category, &row.resourceKind, &row.resourceNamespace, &row.resourceName,
		&row.severity, &row.result, &row.exception, &row.suppressed, &row.score, &row.timestamp, &row.firstSeen,
		&row.pkgType, &row.pkgVersion, &row.fixable,
	}
}

func (row *resultRow) names() []int64 {
	return []int64{
		row.ns, row.source, row.policy, row.rule, row.category, row.resourceKind, row.resourceNamespace, row.resourceName, row.exception.Int64,
		row.pkgType.Int64, row.pkgVersion.Int64,
	}
}

// rowsStatement reads one row more than the page has, which tells whether there is a next one.
func (r *run) rowsStatement(keys []key) sqlText {
	columns := []string{resultColumns}
	var joins strings.Builder
	for _, k := range keys {
		columns = append(columns, k.expression)
		joins.WriteString(k.join)
	}
	return concat(
		piece("SELECT "+strings.Join(columns, ", ")+" FROM results r"+r.objects()+joins.String()+" WHERE "), r.where, piece(" AND "),
		behind(keys, r.after), piece(orderBy(keys)+" LIMIT ?", r.question.Limit+1),
	)
}

// rows answers with rows.
func (r *run) rows(ctx context.Context) error {
	keys := r.rowKeys()
	if err := r.place(keys); err != nil {
		return err
	}
	var found []resultRow
	var last []any
	err := r.each(ctx, r.rowsStatement(keys), func(scan func(...any) error) error {
		var row resultRow
		values := targetsOf(keys)
		if err := scan(append(row.targets(), values...)...); err != nil {
			return err
		}
		if len(found) < r.question.Limit {
			found, last = append(found, row), values
			return nil
		}
		return r.next(last)
	})
	if err != nil {
		return err
	}
	texts, err := r.texts(ctx, found)
	if err != nil {
		return err
	}
	reports, err := r.reports(ctx, found)
	if err != nil {
		return err
	}
	r.status.Rows = make([]reportsv1.FindingRow, 0, len(found))
	for _, row := range found {
		r.status.Rows = append(r.status.Rows, r.rowOf(&row, texts, reports[row.object]))
	}
	return r.detail(ctx, found)
}

// detail fills in what only the objects know.
func (r *run) detail(ctx context.Context, found []resultRow) error {
	if r.details == nil || len(found) == 0 {
		return nil
	}
	places := make([]Place, 0, len(found))
	for i := range found {
		places = append(places, Place{Object: found[i].object, Index: int(found[i].index)})
	}
	details, err := r.details(ctx, r.tx, places)
	if err != nil {
		return fmt.Errorf("read what only the objects know: %w", err)
	}
	for i := range details {
		row := &r.status.Rows[i]
		row.Message, row.Target, row.Image, row.Layer = details[i].Message, details[i].Target, details[i].Image, details[i].Layer
	}
	return nil
}

func targetsOf(keys []key) []any {
	values := make([]any, 0, len(keys))
	for _, k := range keys {
		values = append(values, k.target())
	}
	return values
}

// texts are those of the rows, by their numbers.
func (r *run) texts(ctx context.Context, rows []resultRow) (map[int64]string, error) {
	var ids []int64
	for i := range rows {
		ids = append(ids, rows[i].names()...)
	}
	slices.Sort(ids)
	return r.textsOf(ctx, slices.Compact(ids))
}

// textsOf are those of numbers.
func (r *run) textsOf(ctx context.Context, ids []int64) (map[int64]string, error) {
	texts := map[int64]string{}
	for part := range slices.Chunk(ids, 500) {
		err := r.each(ctx, concat(piece("SELECT id, s FROM names WHERE "), in("id", part)), func(scan func(...any) error) error {
			var id int64
			var text string
			if err := scan(&id, &text); err != nil {
				return err
			}
			texts[id] = text
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the texts: %w", err)
		}
	}
	return texts, nil
}

type report struct{ kind, name string }

// reports are those that hold the rows, by their numbers.
func (r *run) reports(ctx context.Context, rows []resultRow) (map[int64]report, error) {
	var ids []int64
	for i := range rows {
		ids = append(ids, rows[i].object)
	}
	slices.Sort(ids)
	reports := map[int64]report{}
	for part := range slices.Chunk(slices.Compact(ids), 500) {
		err := r.each(ctx, concat(piece("SELECT id, kind, name FROM objects WHERE "), in("id", part)), func(scan func(...any) error) error {
			var id, kind int64
			var name string
			if err := scan(&id, &kind, &name); err != nil {
				return err
			}
			reports[id] = report{kind: r.kindName(kind), name: name}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("read the reports: %w", err)
		}
	}
	return reports, nil
}

func (r *run) kindName(number int64) string {
	for _, kind := range r.kinds {
		if kind.Number == number {
			return kind.Name
		}
	}
	return ""
}

func (r *run) rowOf(row *resultRow, texts map[int64]string, of report) reportsv1.FindingRow {
	index := int32(row.index)
	finding := reportsv1.FindingRow{
		Namespace: texts[row.ns], Report: of.name, Kind: of.kind, Index: &index,
		Source: texts[row.source], Policy: texts[row.policy], Rule: texts[row.rule], Category: texts[row.category],
		Severity: query.SeverityOfRank(row.severity), Result: query.ResultOfCode(row.result), Suppressed: row.suppressed != 0,
		Exception: texts[row.exception.Int64],
		Timestamp: timeOf(row.timestamp), FirstSeen: timeOf(row.firstSeen),
	}
	if row.score.Valid {
		finding.CVSS = &row.score.Float64
	}
	if kind, name := texts[row.resourceKind], texts[row.resourceName]; kind != "" || name != "" {
		finding.Resource = &reportsv1.ResourceRef{Kind: kind, Namespace: texts[row.resourceNamespace], Name: name}
	}
	if row.pkgType.Valid || row.pkgVersion.Valid {
		finding.Package = &reportsv1.FindingPackage{Type: texts[row.pkgType.Int64], Version: texts[row.pkgVersion.Int64]}
	}
	if row.fixable.Valid {
		finding.Fixable = new(row.fixable.Int64 != 0)
	}
	finding.OpenFor = openFor(&finding, r.compiler.now)
	return finding
}

func timeOf(seconds sql.NullInt64) *metav1.Time {
	if !seconds.Valid {
		return nil
	}
	return &metav1.Time{Time: time.Unix(seconds.Int64, 0).UTC()}
}
