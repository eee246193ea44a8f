// SPDX-License-Identifier: Apache-2.0

package query

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// Matches reports whether an expression is true for a finding.
func Matches(node Node, row *reportsv1.FindingRow) bool {
	matches := func(part Node) bool { return Matches(part, row) }
	switch node := node.(type) {
	case And:
		return !slices.ContainsFunc(node, func(part Node) bool { return !matches(part) })
	case Or:
		return slices.ContainsFunc(node, matches)
	case Not:
		return !matches(node.Of)
	case Term:
		value, ok := valueIn(row, node.Field)
		return ok && node.holds(value)
	default:
		return true
	}
}

// holds reports whether the term is true for a present value.
func (t Term) holds(value Value) bool {
	of := t.Field.Type()
	order := func() int { return compare(of, value, t.Values[0]) }
	switch t.Op {
	case Has:
		return true
	case In:
		return slices.ContainsFunc(t.Values, func(one Value) bool { return compare(of, value, one) == 0 })
	case StartsWith:
		return strings.HasPrefix(value.Text, t.Values[0].Text)
	case Contains:
		return strings.Contains(value.Text, t.Values[0].Text)
	case Equal:
		return order() == 0
	case NotEqual:
		return order() != 0
	case Less:
		return order() < 0
	case LessEqual:
		return order() <= 0
	case Greater:
		return order() > 0
	case GreaterEqual:
		return order() >= 0
	default:
		return false
	}
}

// valueIn returns the value of a field, and whether it is there.
func valueIn(row *reportsv1.FindingRow, field Field) (Value, bool) {
	switch field {
	case SeverityOf:
		rank := Rank(row.Severity)
		return Value{Rank: rank}, rank > 0
	case ResultOf:
		return Value{Text: row.Result}, Code(row.Result) > 0
	case CVSS:
		if row.CVSS == nil {
			return Value{}, false
		}
		return Value{Number: *row.CVSS}, true
	case Timestamp:
		return timeIn(row.Timestamp)
	case FirstSeen:
		return timeIn(row.FirstSeen)
	case FixedAt:
		return timeIn(row.FixedAt)
	case OpenFor:
		if row.OpenFor == nil {
			return Value{}, false
		}
		return Value{Duration: row.OpenFor.Duration}, true
	case Suppressed:
		return Value{Flag: row.Suppressed}, true
	case Fixable:
		if row.Fixable == nil {
			return Value{}, false
		}
		return Value{Flag: *row.Fixable}, true
	default:
		text := textIn(row, field)
		return Value{Text: text}, text != ""
	}
}

func timeIn(t *metav1.Time) (Value, bool) {
	if t == nil || t.IsZero() {
		return Value{}, false
	}
	return Value{Time: t.UTC()}, true
}

func textIn(row *reportsv1.FindingRow, field Field) string {
	var resource reportsv1.ResourceRef
	if row.Resource != nil {
		resource = *row.Resource
	}
	var installed reportsv1.FindingPackage
	if row.Package != nil {
		installed = *row.Package
	}
	return map[Field]string{
		PackageType: installed.Type, PackageVersion: installed.Version,
		Namespace: row.Namespace, Source: row.Source, Policy: row.Policy, Rule: row.Rule, Category: row.Category,
		Target: row.Target, ResourceKind: resource.Kind, ResourceName: resource.Name, Report: row.Report, Exception: row.Exception,
	}[field]
}
