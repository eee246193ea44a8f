// SPDX-License-Identifier: Apache-2.0

package query

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// Where reads a list of terms, which must all hold. The result is nil if there is none.
func Where(terms []reportsv1.Term, path *field.Path) (Node, field.ErrorList) {
	var all []Node
	var errs field.ErrorList
	if len(terms) > MaxTerms {
		return nil, field.ErrorList{field.TooMany(path, len(terms), MaxTerms)}
	}
	for i, t := range terms {
		term, termErrs := termOf(t, path.Index(i))
		all, errs = append(all, term), append(errs, termErrs...)
	}
	if len(errs) > 0 || len(all) == 0 {
		return nil, errs
	}
	return join(all...), nil
}

func termOf(t reportsv1.Term, path *field.Path) (Term, field.ErrorList) {
	term := Term{Field: Field(t.Field), Op: Op(t.Op)}
	if !term.Field.isKnown() {
		return term, field.ErrorList{field.NotSupported(path.Child("field"), term.Field, Fields)}
	}
	if !slices.Contains(term.Field.Ops(), term.Op) {
		return term, field.ErrorList{field.NotSupported(path.Child("op"), term.Op, term.Field.Ops())}
	}
	var errs field.ErrorList
	add := func(path *field.Path, text string) {
		value, err := valueOf(term.Field.Type(), text)
		if err != nil {
			errs = append(errs, field.Invalid(path, text, err.Error()))
		}
		term.Values = append(term.Values, value)
	}
	if term.Op == In || term.Op == Has {
		if t.Value != "" {
			errs = append(errs, field.Forbidden(path.Child("value"), "must be absent for "+t.Op))
		}
	} else {
		add(path.Child("value"), t.Value)
	}
	switch {
	case term.Op != In && len(t.Values) > 0:
		errs = append(errs, field.Forbidden(path.Child("values"), "must be absent for "+t.Op))
	case term.Op == In && len(t.Values) == 0:
		errs = append(errs, field.Required(path.Child("values"), "in compares with one value or more"))
	case len(t.Values) > MaxValues:
		errs = append(errs, field.TooMany(path.Child("values"), len(t.Values), MaxValues))
	default:
		for i, text := range t.Values {
			add(path.Child("values").Index(i), text)
		}
	}
	return term, errs
}
