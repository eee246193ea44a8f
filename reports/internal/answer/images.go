// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/scanyard/scanyard/findings/query"
)

// ofImages is the condition that a report is about one of the images that the question names. The row of a report says
// which image that is, that of the Image whether it is still there.
func (r *run) ofImages() sqlText {
	asked := r.question.Images
	conditions := []sqlText{in("v.kind", r.kindNumbers())}
	is := func(column, text string) {
		if text != "" {
			conditions = append(conditions, piece(column+" = ?", text))
		}
	}
	is("v.registry", asked.Registry)
	is("v.repository", asked.Repository)
	is("v.tag", asked.Tag)
	is("v.platform", asked.Platform)
	join := sqlText{}
	if asked.Presence != "" {
		join = piece(" JOIN subjects m ON m.kind = ? AND m.ns = v.ns AND m.name = v.image", r.image)
		is("m.presence", string(asked.Presence))
	}
	return concat(piece("r.object IN (SELECT v.object FROM subjects v"), join, piece(" WHERE "), all(conditions), piece(")"))
}

// ofVersions is the condition that an installed version is in the range of the question. Databases do not know the order
// of versions: those of the package that there are, which are few, are read and compared here.
func (r *run) ofVersions(ctx context.Context) (sqlText, error) {
	var names []query.Value
	for _, t := range required(r.question.Where) {
		if t.Field == query.Rule && t.Op == query.Equal {
			names = append(names, t.Values...)
		}
	}
	type installed struct{ kind, version int64 }
	var found []installed
	var ids []int64
	of := all([]sqlText{in("r.rule", r.compiler.idsOf(names)), r.namespaces()})
	statement := concat(piece("SELECT DISTINCT r.pkg_type, r.pkg_version FROM results r WHERE "), of)
	err := r.each(ctx, statement, func(scan func(...any) error) error {
		var kind, version sql.NullInt64
		if err := scan(&kind, &version); err != nil {
			return err
		}
		if kind.Valid && version.Valid {
			found, ids = append(found, installed{kind.Int64, version.Int64}), append(ids, kind.Int64, version.Int64)
		}
		return nil
	})
	if err != nil {
		return never, fmt.Errorf("read the versions: %w", err)
	}
	slices.Sort(ids)
	texts, err := r.textsOf(ctx, slices.Compact(ids))
	if err != nil {
		return never, err
	}
	versions := map[int64]map[string]int64{} // of a type: numbers by texts
	for _, one := range found {
		if versions[one.kind] == nil {
			versions[one.kind] = map[string]int64{}
		}
		versions[one.kind][texts[one.version]] = one.version
	}
	// Nothing compares the range with what is installed: no answer would be taken for "nobody has it".
	var types []string
	for _, kind := range slices.Sorted(maps.Keys(versions)) {
		types = append(types, texts[kind])
	}
	if err := r.question.VersionRange.CheckTypes(types...); err != nil {
		at := field.NewPath("spec", "package", "versionRange")
		return never, &InvalidError{field.ErrorList{field.Invalid(at, string(r.question.VersionRange), err.Error())}}
	}
	var parts []sqlText
	for _, kind := range slices.Sorted(maps.Keys(versions)) {
		var taken []int64
		for _, version := range r.question.VersionRange.Takes(texts[kind], slices.Sorted(maps.Keys(versions[kind]))) {
			taken = append(taken, versions[kind][version])
		}
		parts = append(parts, all([]sqlText{piece("r.pkg_type = ?", kind), in("r.pkg_version", taken)}))
	}
	return anyOf(parts), nil
}

// namespaces is the condition that bounds a statement to the scope of the question.
func (r *run) namespaces() sqlText {
	if r.within.all {
		return always
	}
	return in("r.ns", r.within.ids)
}
