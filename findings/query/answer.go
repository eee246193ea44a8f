// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// Answer answers a question over findings in memory: all rows or groups in order, without a limit. The position of a finding
// in rows ends the order, in the direction of the order's last key. A trend has no answer here: findings do not show the
// findings of earlier days. Nor have Images: findings do not show what their images are.
func Answer(q *Question, rows []reportsv1.FindingRow) ([]reportsv1.FindingRow, []reportsv1.FindingGroup) {
	var found []reportsv1.FindingRow
	for i := range rows {
		if q.covers(&rows[i]) {
			found = append(found, rows[i])
		}
	}
	if q.IsGrouped() {
		return nil, q.groups(found)
	}
	last := q.Sort[len(q.Sort)-1]
	if last.Descending {
		slices.Reverse(found)
	}
	slices.SortStableFunc(found, func(a, b reportsv1.FindingRow) int {
		for _, key := range q.Sort {
			if order := key.direct(compareIn(&a, &b, Field(key.By))); order != 0 {
				return order
			}
		}
		return 0
	})
	return found, nil
}

func (q *Question) covers(row *reportsv1.FindingRow) bool {
	return (len(q.Namespaces) == 0 || slices.Contains(q.Namespaces, row.Namespace)) &&
		(len(q.Kinds) == 0 || slices.Contains(q.Kinds, kindOf(row))) && Matches(q.Where, row) && q.VersionRange.takesRow(row)
}

// kindOf is the word of Kinds for a report.
func kindOf(row *reportsv1.FindingRow) string {
	if row.Kind == "VulnerabilityReport" {
		return VulnerabilityReports
	}
	return Reports
}

// direct turns the order of two values into that of the key.
func (o Order) direct(order int) int {
	if o.Descending {
		return -order
	}
	return order
}

// compareIn orders two findings by a field. What is absent is least.
func compareIn(a, b *reportsv1.FindingRow, field Field) int {
	left, hasLeft := valueIn(a, field)
	right, hasRight := valueIn(b, field)
	switch {
	case hasLeft && hasRight:
		return compare(field.Type(), left, right)
	case hasLeft:
		return 1
	case hasRight:
		return -1
	}
	return 0
}

// groups counts findings.
func (q *Question) groups(rows []reportsv1.FindingRow) []reportsv1.FindingGroup {
	parts := map[string][]*reportsv1.FindingRow{}
	for i := range rows {
		id := strings.Join(q.keyOf(&rows[i]), "\x00")
		parts[id] = append(parts[id], &rows[i])
	}
	var groups []reportsv1.FindingGroup
	for _, part := range parts {
		group := reportsv1.FindingGroup{Key: map[string]string{}, Count: int64(len(part))}
		for i, text := range q.keyOf(part[0]) {
			group.Key[string(q.GroupBy[i])] = text
		}
		q.aggregate(&group, part)
		groups = append(groups, group)
	}
	slices.SortFunc(groups, q.compareGroups)
	return groups
}

func (q *Question) aggregate(group *reportsv1.FindingGroup, part []*reportsv1.FindingRow) {
	switch q.Aggregate {
	case CountDistinctResources:
		resources := map[[4]string]bool{}
		for _, row := range part {
			if row.Resource != nil && row.Resource.Name != "" {
				resources[[4]string{row.Namespace, row.Resource.Kind, row.Resource.Namespace, row.Resource.Name}] = true
			}
		}
		n := int64(len(resources))
		group.DistinctResources = &n
	case MeanTimeToFix:
		group.MeanTimeToFix = meanTimeToFix(part)
	case Count, MaxScore, New, Fixed:
	}
	if q.HasMaxScore() {
		group.MaxScore = maxScore(part)
	}
}

func maxScore(part []*reportsv1.FindingRow) (most *float64) {
	for _, row := range part {
		if row.CVSS != nil && (most == nil || *row.CVSS > *most) {
			most = row.CVSS
		}
	}
	return most
}

func meanTimeToFix(part []*reportsv1.FindingRow) *metav1.Duration {
	var sum time.Duration
	var n time.Duration
	for _, row := range part {
		if row.FixedAt != nil && row.FirstSeen != nil {
			sum += row.FixedAt.Sub(row.FirstSeen.Time)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return &metav1.Duration{Duration: (sum / n).Truncate(time.Second)}
}

// keyOf is what a finding is counted by; what is absent is empty.
func (q *Question) keyOf(row *reportsv1.FindingRow) []string {
	key := make([]string, 0, len(q.GroupBy))
	for _, group := range q.GroupBy {
		key = append(key, keyIn(row, group))
	}
	return key
}

func keyIn(row *reportsv1.FindingRow, group Group) string {
	switch group {
	case BySeverity:
		return SeverityOfRank(Rank(row.Severity))
	case ByResult:
		return ResultOfCode(Code(row.Result))
	case ByDay:
		return dayOf(row.Timestamp)
	case ByFirstSeenDay:
		return dayOf(row.FirstSeen)
	case ByResourceKind:
		return textIn(row, ResourceKind)
	case ByResource:
		return textIn(row, ResourceName)
	case ByDigest:
		if kindOf(row) == VulnerabilityReports {
			return textIn(row, ResourceName)
		}
		return ""
	case ByNamespace, ByPolicy, ByRule, ByCategory, BySource:
	}
	return textIn(row, Field(group))
}

func dayOf(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateOnly)
}

func (q *Question) compareGroups(a, b reportsv1.FindingGroup) int {
	for _, key := range q.Sort {
		if order := key.direct(compareGroupsBy(&a, &b, key.By)); order != 0 {
			return order
		}
	}
	for _, group := range q.GroupBy {
		if order := compareGroupsBy(&a, &b, string(group)); order != 0 {
			return order
		}
	}
	return 0
}

// compareGroupsBy orders two groups by a part of their key, or by an aggregate. What is absent is least.
func compareGroupsBy(a, b *reportsv1.FindingGroup, by string) int {
	switch Aggregate(by) {
	case Count:
		return cmp.Compare(a.Count, b.Count)
	case CountDistinctResources:
		return cmp.Compare(*a.DistinctResources, *b.DistinctResources)
	case MaxScore:
		return compareOrAbsent(a.MaxScore, b.MaxScore, cmp.Compare[float64])
	case MeanTimeToFix:
		return compareOrAbsent(a.MeanTimeToFix, b.MeanTimeToFix, func(a, b metav1.Duration) int { return cmp.Compare(a.Duration, b.Duration) })
	case New, Fixed:
	}
	left, right := a.Key[by], b.Key[by]
	switch Group(by) {
	case BySeverity:
		return cmp.Compare(Rank(left), Rank(right))
	case ByResult:
		return cmp.Compare(Code(left), Code(right))
	default:
		return strings.Compare(left, right)
	}
}

func compareOrAbsent[T any](a, b *T, compare func(a, b T) int) int {
	switch {
	case a != nil && b != nil:
		return compare(*a, *b)
	case a != nil:
		return 1
	case b != nil:
		return -1
	}
	return 0
}
