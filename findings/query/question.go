// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// Bounds and defaults of answers.
const (
	DefaultLimit  = 100
	MaxRows       = 1000
	MaxGroups     = 10_000
	MaxGroupBy    = 3
	MaxSort       = 3
	MaxTrendDays  = 400
	MaxExactTotal = 10_000 // above it a total is a lower bound
)

// Group is what findings are counted by.
type Group string

// The groups. Days are those of UTC, as 2026-01-31.
const (
	ByNamespace    Group = "namespace"
	BySeverity     Group = "severity"
	ByResult       Group = "result"
	ByPolicy       Group = "policy"
	ByRule         Group = "rule"
	ByCategory     Group = "category"
	BySource       Group = "source"
	ByDay          Group = "day" // of the timestamp
	ByFirstSeenDay Group = "firstSeenDay"
	ByResourceKind Group = "resourceKind"
	ByResource     Group = "resource" // its name
	ByDigest       Group = "digest"   // of the image of a vulnerability report
)

// Groups are all groups, in the order of the reference.
var Groups = []Group{
	ByNamespace, BySeverity, ByResult, ByPolicy, ByRule, ByCategory, BySource, ByDay, ByFirstSeenDay, ByResourceKind, ByResource, ByDigest,
}

// Aggregate is what is computed for a group.
type Aggregate string

// The aggregates.
const (
	Count                  Aggregate = "count"
	CountDistinctResources Aggregate = "countDistinctResources"
	MaxScore               Aggregate = "maxScore"
	MeanTimeToFix          Aggregate = "meanTimeToFix"
	New                    Aggregate = "new"
	Fixed                  Aggregate = "fixed"
)

var aggregates = []Aggregate{Count, CountDistinctResources, MaxScore, MeanTimeToFix, New, Fixed}

// Kinds that a question may be narrowed to.
const (
	Reports              = "reports" // of namespaces and of the cluster
	VulnerabilityReports = "vulnerabilityreports"
)

var kinds = []string{Reports, VulnerabilityReports}

// Order is one key of an order: a Field for rows; a Group or an Aggregate of the question for groups.
type Order struct {
	By         string
	Descending bool
}

// Question is a valid question.
type Question struct {
	Where      Node     // never nil
	Kinds      []string // nil is all
	Namespaces []string // nil is all
	GroupBy    []Group  // nil is one group of all if Aggregate is set
	Aggregate  Aggregate
	TrendDays  int // 0 means no trend
	Sort       []Order
	Limit      int
	// Images are the images whose findings are asked for; nil is all. What is empty in it may be anything.
	Images *reportsv1.ImagesQuery
	// VersionRange is that of installed versions; "" is all. Where then asks for a package by its name.
	VersionRange VersionRange
}

// IsGrouped reports whether the answer has groups, and no rows.
func (q *Question) IsGrouped() bool { return q.Aggregate != "" }

// HasMaxScore reports whether groups say their highest score: where it is asked for, and where each finding must have a score anyway.
func (q *Question) HasMaxScore() bool {
	return q.Aggregate == MaxScore || q.Aggregate == Count && q.TrendDays == 0 && demands(q.Where, CVSS)
}

// demands tells whether a finding has to have a field for an expression to hold.
func demands(node Node, field Field) bool {
	switch node := node.(type) {
	case And:
		return slices.ContainsFunc(node, func(part Node) bool { return demands(part, field) })
	case Term:
		return node.Field == field
	}
	return false
}

// newQuestion reads the spec of a question. now is what since counts back from.
func newQuestion(spec *reportsv1.FindingQuerySpec, now time.Time, path *field.Path) (*Question, field.ErrorList) {
	where, errs := condition(spec, now, path)
	q := &Question{Where: where, Kinds: slices.Compact(slices.Sorted(slices.Values(spec.Kinds))), Aggregate: Aggregate(spec.Aggregate), Limit: int(spec.Limit)}
	for i, kind := range spec.Kinds {
		if !slices.Contains(kinds, kind) {
			errs = append(errs, field.NotSupported(path.Child("kinds").Index(i), kind, kinds))
		}
	}
	errs = append(errs, q.readImages(spec, path)...)
	if len(q.Kinds) == len(kinds) {
		q.Kinds = nil
	}
	errs = append(errs, q.readGroups(spec, path)...)
	errs = append(errs, q.readSort(spec.Sort, path.Child("sort"))...)
	most := MaxRows
	if q.IsGrouped() {
		most = MaxGroups
	}
	if q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	if q.Limit < 1 || q.Limit > most {
		errs = append(errs, field.Invalid(path.Child("limit"), spec.Limit, fmt.Sprintf("must be from 1 to %d", most)))
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return q, nil
}

// Namespaced reads a question over one namespace.
func Namespaced(query *reportsv1.FindingQuery, now time.Time) (*Question, field.ErrorList) {
	q, errs := newQuestion(&query.Spec, now, field.NewPath("spec"))
	if q != nil {
		q.Namespaces = []string{query.Namespace}
	}
	return q, errs
}

// Clusterwide reads a question over all namespaces, or those that it names.
func Clusterwide(query *reportsv1.ClusterFindingQuery, now time.Time) (*Question, field.ErrorList) {
	q, errs := newQuestion(&query.Spec.FindingQuerySpec, now, field.NewPath("spec"))
	if len(query.Spec.Namespaces) > MaxValues {
		errs = append(errs, field.TooMany(field.NewPath("spec", "namespaces"), len(query.Spec.Namespaces), MaxValues))
	}
	if len(errs) > 0 {
		return nil, errs
	}
	if len(query.Spec.Namespaces) > 0 {
		q.Namespaces = slices.Compact(slices.Sorted(slices.Values(query.Spec.Namespaces)))
	}
	return q, nil
}

// condition joins all that a finding must fulfil.
func condition(spec *reportsv1.FindingQuerySpec, now time.Time, path *field.Path) (Node, field.ErrorList) {
	filter, err := Parse(spec.Filter)
	where, errs := Where(spec.Where, path.Child("where"))
	if err != nil {
		errs = append(errs, field.Invalid(path.Child("filter"), spec.Filter, err.Error()))
	}
	if n := countTerms(filter) + countTerms(where); n > MaxTerms {
		errs = append(errs, field.TooMany(path.Child("filter"), n, MaxTerms))
	}
	parts := []Node{filter, where}
	seen := func(op Op, t time.Time) {
		parts = append(parts, Term{Field: FirstSeen, Op: op, Values: []Value{{Time: t.UTC()}}})
	}
	if spec.Since != nil {
		if spec.Since.Duration <= 0 {
			errs = append(errs, field.Invalid(path.Child("since"), spec.Since.Duration.String(), "must be more than 0"))
		}
		seen(GreaterEqual, now.Add(-spec.Since.Duration))
	}
	for _, after := range []*metav1.Time{spec.After, spec.FirstSeenAfter} {
		if after != nil {
			seen(Greater, after.Time)
		}
	}
	if spec.Before != nil {
		seen(Less, spec.Before.Time)
	}
	is := func(name Field, text string, at *field.Path) {
		if text == "" {
			return
		}
		value, err := valueOf(Text, text)
		if err != nil {
			errs = append(errs, field.Invalid(at, text, err.Error()))
		}
		parts = append(parts, Term{Field: name, Op: Equal, Values: []Value{value}})
	}
	is(Policy, spec.Vulnerability, path.Child("vulnerability"))
	if spec.Package != nil {
		is(Rule, spec.Package.Name, path.Child("package", "name"))
		is(PackageType, spec.Package.Type, path.Child("package", "type"))
	}
	if spec.Fixable != nil {
		parts = append(parts, Term{Field: Fixable, Op: Equal, Values: []Value{{Flag: *spec.Fixable}}})
	}
	if !spec.IncludeSuppressed {
		parts = append(parts, Term{Field: Suppressed, Op: Equal, Values: []Value{{Flag: false}}})
	}
	if all := join(parts...); all != nil {
		return all, errs
	}
	return And{}, errs
}

// readImages reads what only findings of images have: their images, packages, and whether they can be fixed.
func (q *Question) readImages(spec *reportsv1.FindingQuerySpec, path *field.Path) (errs field.ErrorList) {
	if spec.Images == nil && spec.Fixable == nil && (spec.Package == nil || *spec.Package == (reportsv1.PackageQuery{})) {
		return nil
	}
	if len(q.Kinds) > 0 && !slices.Contains(q.Kinds, VulnerabilityReports) {
		errs = append(errs, field.Invalid(path.Child("kinds"), spec.Kinds, "must hold vulnerabilityreports: no other reports have images and packages"))
	}
	q.Kinds = []string{VulnerabilityReports}
	if images := spec.Images; images != nil {
		q.Images = images
		if images.Presence != "" && !slices.Contains(reportsv1.ImagePresences, images.Presence) {
			errs = append(errs, field.NotSupported(path.Child("images", "presence"), images.Presence, reportsv1.ImagePresences))
		}
	}
	if spec.Package == nil || spec.Package.VersionRange == "" {
		return errs
	}
	at := path.Child("package", "versionRange")
	q.VersionRange = VersionRange(spec.Package.VersionRange)
	if spec.Package.Name == "" {
		errs = append(errs, field.Forbidden(at, "must stand beside name: versions are those of one package"))
	}
	if err := q.VersionRange.Check(spec.Package.Type); err != nil {
		errs = append(errs, field.Invalid(at, spec.Package.VersionRange, err.Error()))
	}
	return errs
}

func (q *Question) readGroups(spec *reportsv1.FindingQuerySpec, path *field.Path) (errs field.ErrorList) {
	if q.Aggregate != "" && !slices.Contains(aggregates, q.Aggregate) {
		errs = append(errs, field.NotSupported(path.Child("aggregate"), q.Aggregate, aggregates))
	}
	if len(spec.GroupBy) > MaxGroupBy {
		errs = append(errs, field.TooMany(path.Child("groupBy"), len(spec.GroupBy), MaxGroupBy))
	}
	for i, name := range spec.GroupBy {
		group, at := Group(name), path.Child("groupBy").Index(i)
		switch {
		case !slices.Contains(Groups, group):
			errs = append(errs, field.NotSupported(at, group, Groups))
		case slices.Contains(q.GroupBy, group):
			errs = append(errs, field.Duplicate(at, name))
		}
		q.GroupBy = append(q.GroupBy, group)
	}
	if spec.Trend != nil {
		errs = append(errs, q.readTrend(spec, path)...)
	} else if q.Aggregate == New || q.Aggregate == Fixed {
		errs = append(errs, field.Invalid(path.Child("aggregate"), q.Aggregate, "must stand beside trend: it is counted by day"))
	}
	if q.Aggregate == "" && (len(q.GroupBy) > 0 || q.TrendDays > 0) {
		q.Aggregate = Count
	}
	return errs
}

func (q *Question) readTrend(spec *reportsv1.FindingQuerySpec, path *field.Path) (errs field.ErrorList) {
	q.TrendDays = int(spec.Trend.Days)
	if q.TrendDays < 1 || q.TrendDays > MaxTrendDays {
		errs = append(errs, field.Invalid(path.Child("trend", "days"), spec.Trend.Days, fmt.Sprintf("must be from 1 to %d", MaxTrendDays)))
	}
	if len(spec.GroupBy) > 0 {
		errs = append(errs, field.Forbidden(path.Child("groupBy"), "must be absent beside trend, which counts by day and severity"))
	}
	if len(spec.Sort) > 0 {
		errs = append(errs, field.Forbidden(path.Child("sort"), "must be absent beside trend, which is in the order of days"))
	}
	if !slices.Contains([]Aggregate{"", Count, New, Fixed}, q.Aggregate) {
		errs = append(errs, field.NotSupported(path.Child("aggregate"), q.Aggregate, []Aggregate{Count, New, Fixed}))
	}
	return errs
}

// readSort reads the order. That of groups is ended by their keys and that of rows by their place, so that it is whole.
func (q *Question) readSort(keys []reportsv1.SortKey, path *field.Path) (errs field.ErrorList) {
	if len(keys) > MaxSort {
		return field.ErrorList{field.TooMany(path, len(keys), MaxSort)}
	}
	var known []string
	if q.IsGrouped() {
		for _, group := range q.GroupBy {
			known = append(known, string(group))
		}
		known = append(known, string(Count))
		if q.Aggregate != Count {
			known = append(known, string(q.Aggregate))
		}
	} else {
		for _, name := range Fields {
			known = append(known, string(name))
		}
	}
	for i, key := range keys {
		if !slices.Contains(known, key.Field) {
			errs = append(errs, field.NotSupported(path.Index(i).Child("field"), key.Field, known))
		}
		if !slices.Contains([]string{"", "asc", "desc"}, key.Order) {
			errs = append(errs, field.NotSupported(path.Index(i).Child("order"), key.Order, []string{"asc", "desc"}))
		}
		if slices.ContainsFunc(keys[:i], func(other reportsv1.SortKey) bool { return other.Field == key.Field }) {
			errs = append(errs, field.Duplicate(path.Index(i).Child("field"), key.Field))
		}
		q.Sort = append(q.Sort, Order{By: key.Field, Descending: key.Order == "desc"})
	}
	if len(keys) > 0 || q.TrendDays > 0 {
		return errs
	}
	q.Sort = []Order{{By: string(SeverityOf), Descending: true}, {By: string(CVSS), Descending: true}}
	if q.IsGrouped() {
		q.Sort = []Order{{By: string(Count), Descending: true}}
	}
	return errs
}
