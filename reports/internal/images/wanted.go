// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"strings"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Kinds are the numbers of the kinds that questions are about.
type Kinds struct{ Image, SBOM, Report int }

// Item is an image that a question is answered with.
type Item struct {
	Name, UID, Digest, State        string
	Bytes, Attempt, Lost, NotBefore int64
}

// Answer is what a question is answered with.
type Answer struct {
	Items   []Item
	More    bool
	Total   int64
	ByState map[string]int64
}

// Question is an ImageQuery in one namespace.
type Question struct {
	Namespace string
	Spec      *reportsv1.ImageQuerySpec
	// After is the name behind which the page begins.
	After string
	Limit int
}

// Ask answers a question. It reads only.
func Ask(ctx context.Context, tx *sqldb.Tx, kinds Kinds, q *Question) (*Answer, error) {
	joins, where, args, err := q.selection(ctx, tx, kinds)
	if err != nil {
		return nil, err
	}
	answer := &Answer{ByState: map[string]int64{}}
	if err := answer.count(ctx, tx, joins+where, args); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `SELECT i.name, COALESCE(o.uid, ''), i.digest, i.bytes, i.state, i.attempt, i.lost, i.not_before`+
		joins+` JOIN objects o ON o.id = i.object`+where+` AND i.name > ? ORDER BY i.name LIMIT ?`,
		append(args, q.After, q.Limit+1)...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	for rows.Next() {
		if len(answer.Items) == q.Limit {
			answer.More = true
			break
		}
		var item Item
		if err := rows.Scan(&item.Name, &item.UID, &item.Digest, &item.Bytes, &item.State, &item.Attempt, &item.Lost, &item.NotBefore); err != nil {
			return nil, err
		}
		answer.Items = append(answer.Items, item)
	}
	return answer, rows.Err()
}

func (a *Answer) count(ctx context.Context, tx *sqldb.Tx, from string, args []any) error {
	rows, err := tx.Query(ctx, `SELECT i.state, COUNT(*)`+from+` GROUP BY i.state`, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // errors of reading are those of Err
	for rows.Next() {
		var state string
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return err
		}
		a.ByState[state] = n
		a.Total += n
	}
	return rows.Err()
}

// selection is the part of a query behind its columns. The arguments are those of the joins, and then of the conditions.
func (q *Question) selection(ctx context.Context, tx *sqldb.Tx, kinds Kinds) (joins, where string, args []any, err error) {
	spec := q.Spec
	joins = ` FROM subjects i`
	conditions := []string{`i.kind = ?`, `i.ns = ?`}
	values := []any{kinds.Image, q.Namespace}
	add := func(condition string, more ...any) {
		conditions, values = append(conditions, condition), append(values, more...)
	}
	if spec.RegistryUID != "" {
		add(`i.registry_uid = ?`, spec.RegistryUID)
	}
	if spec.JobUID != "" {
		add(`i.job_uid = ?`, spec.JobUID)
	}
	if spec.Now != nil {
		add(`i.not_before <= ?`, spec.Now.UnixMilli())
	}
	if len(spec.States) > 0 {
		in, states := tx.In("i.state", spec.States)
		add(in, states...)
	}
	switch spec.Need {
	case reportsv1.NeedSBOM:
		add(`i.presence = ?`, string(reportsv1.ImagePresent))
		// An image whose SBOM somebody has deleted needs another one.
		joins += ` LEFT JOIN subjects s ON s.kind = ? AND s.ns = i.ns AND s.name = i.name`
		args = append(args, kinds.SBOM)
		add(`(i.state = ? OR (i.state IN (?, ?) AND s.object IS NULL))`, reportsv1.ImagePending, reportsv1.ImageWaitingForMatch, reportsv1.ImageScanned)
	case reportsv1.NeedMatch:
		add(`i.presence = ?`, string(reportsv1.ImagePresent))
		reach, err := reachOf(ctx, tx, spec.Adapter, spec.DatabaseVersion)
		if err != nil {
			return "", "", nil, err
		}
		touched, condition, joinArgs, touchedArgs := reach.touched()
		joins += ` JOIN subjects s ON s.kind = ? AND s.ns = i.ns AND s.name = i.name
			LEFT JOIN subjects r ON r.kind = ? AND r.ns = i.ns AND r.name = i.name` + touched
		args = append([]any{kinds.SBOM, kinds.Report}, joinArgs...)
		wanted := `r.object IS NULL OR r.adapter <> ? OR r.content <> s.content OR ` + condition
		wantedArgs := append([]any{spec.Adapter}, touchedArgs...)
		if spec.EngineVersion != "" {
			wanted += ` OR r.engine_version <> ?`
			wantedArgs = append(wantedArgs, spec.EngineVersion)
		}
		add(`(i.state = ? OR (i.state = ? AND (`+wanted+`)))`, append([]any{reportsv1.ImageWaitingForMatch, reportsv1.ImageScanned}, wantedArgs...)...)
	case reportsv1.NeedAny:
	}
	return joins, ` WHERE ` + strings.Join(conditions, ` AND `), append(args, values...), nil
}
