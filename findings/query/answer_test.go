// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

func moment(text string) *metav1.Time {
	value, err := timeOf(text)
	if err != nil {
		panic(err)
	}
	return &metav1.Time{Time: value.Time}
}

// full has all values, none has nothing.
var (
	full = reportsv1.FindingRow{
		Namespace: "team-a", Report: "nightly", Kind: "PolicyReport", Source: "scanyard/nmap", Policy: "CVE-2024-1", Rule: "Open Port", Category: "Network",
		Severity: "high", Result: "fail", CVSS: new(float64(8)), Resource: &reportsv1.ResourceRef{Kind: "Pod", Name: "web"}, Target: "example.com",
		FirstSeen: moment("2026-01-30"), FixedAt: moment("2026-01-31"), OpenFor: &metav1.Duration{Duration: 24 * time.Hour}, Timestamp: moment("2026-01-31T08:00:00Z"),
	}
	none reportsv1.FindingRow
)

func TestMatches(t *testing.T) {
	cases := map[string]struct{ full, none bool }{
		"":                                 {true, true},
		"policy == 'CVE-2024-1'":           {true, false},
		"policy == 'cve-2024-1'":           {false, false},
		"policy != 'x'":                    {true, false},
		"policy != 'CVE-2024-1'":           {false, false},
		"!(policy == 'x')":                 {true, true},
		"policy in ['x', 'CVE-2024-1']":    {true, false},
		"policy.startsWith('CVE-')":        {true, false},
		"policy.startsWith('%')":           {false, false},
		"policy.contains('2024')":          {true, false},
		"policy.contains('20_4')":          {false, false},
		"has(policy)":                      {true, false},
		"!has(policy)":                     {false, true},
		"severity >= 'medium'":             {true, false},
		"severity > 'high'":                {false, false},
		"severity < 'critical'":            {true, false},
		"severity != 'high'":               {false, false},
		"severity in ['low', 'high']":      {true, false},
		"result == 'fail'":                 {true, false},
		"result != 'pass'":                 {true, false},
		"has(result) || !has(severity)":    {true, true},
		"cvss >= 8":                        {true, false},
		"cvss > 8.0":                       {false, false},
		"cvss <= 8 && cvss < 8.1":          {true, false},
		"!(cvss >= 8)":                     {false, true},
		"cvss == 8.00":                     {true, false},
		"firstSeen >= '2026-01-30'":        {true, false},
		"firstSeen < '2026-01-30'":         {false, false},
		"fixedAt == '2026-01-31'":          {true, false},
		"has(fixedAt)":                     {true, false},
		"timestamp > '2026-01-31'":         {true, false},
		"openFor >= '1d'":                  {true, false},
		"openFor < '24h'":                  {false, false},
		"suppressed":                       {false, false},
		"!suppressed":                      {true, true},
		"suppressed != true":               {true, true},
		"resource.kind == 'Pod'":           {true, false},
		"resource.name.startsWith('we')":   {true, false},
		"report == 'nightly'":              {true, false},
		"target.contains('.com')":          {true, false},
		"namespace == 'team-a'":            {true, false},
		"source.startsWith('scanyard/')":   {true, false},
		"rule != 'x' && category != 'x'":   {true, false},
		"cvss > 9 || policy.contains('C')": {true, false},
	}
	for filter, want := range cases {
		node, err := Parse(filter)
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		if got := Matches(node, &full); got != want.full {
			t.Errorf("%s of the full finding: %v, want %v", filter, got, want.full)
		}
		if got := Matches(node, &none); got != want.none {
			t.Errorf("%s of the empty finding: %v, want %v", filter, got, want.none)
		}
	}
}

func row(report, severity string, cvss *float64, namespace string) reportsv1.FindingRow {
	return reportsv1.FindingRow{Report: report, Severity: severity, CVSS: cvss, Namespace: namespace, Kind: "PolicyReport"}
}

var some = []reportsv1.FindingRow{
	row("1", "low", new(float64(3)), "b"), row("2", "high", nil, "a"), row("3", "high", new(float64(8)), "b"), row("4", "high", new(float64(8)), "b"), row("5", "", new(float64(9)), ""),
}

func TestAnswerRows(t *testing.T) {
	cases := map[string]struct {
		reason string
		spec   reportsv1.FindingQuerySpec
		want   string
	}{
		"Default":    {"the worst first, then by score, then the last in place", reportsv1.FindingQuerySpec{}, "43215"},
		"Ascending":  {"what is absent is least, the first in place comes first", reportsv1.FindingQuerySpec{Sort: []reportsv1.SortKey{{Field: "cvss"}}}, "21345"},
		"Text":       {"texts by their bytes", reportsv1.FindingQuerySpec{Sort: []reportsv1.SortKey{{Field: "namespace", Order: "desc"}, {Field: "report"}}}, "13425"},
		"Kinds":      {"", reportsv1.FindingQuerySpec{Kinds: []string{"vulnerabilityreports"}}, ""},
		"KindsFound": {"", reportsv1.FindingQuerySpec{Kinds: []string{"reports"}, Filter: "severity == 'low'"}, "1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			rows, _ := Answer(ask(t, c.spec), some)
			var reports []string
			for _, row := range rows {
				reports = append(reports, row.Report)
			}
			if got := strings.Join(reports, ""); got != c.want {
				t.Errorf("reports %s, want %s: %s", got, c.want, c.reason)
			}
		})
	}
}

func TestAnswerGroups(t *testing.T) {
	image := reportsv1.FindingRow{Kind: "VulnerabilityReport", Resource: &reportsv1.ResourceRef{Name: "sha256:1"}}
	rows := append([]reportsv1.FindingRow{full, image}, some...)
	cases := map[string]struct {
		spec reportsv1.FindingQuerySpec
		want []string
	}{
		"Count":      {reportsv1.FindingQuerySpec{GroupBy: []string{"namespace"}}, []string{"b 3", " 2", "a 1", "team-a 1"}},
		"ByRank":     {reportsv1.FindingQuerySpec{GroupBy: []string{"severity"}, Sort: []reportsv1.SortKey{{Field: "severity", Order: "desc"}}}, []string{"high 4", "low 1", " 2"}},
		"ByResult":   {reportsv1.FindingQuerySpec{GroupBy: []string{"result"}}, []string{" 6", "fail 1"}},
		"Two":        {reportsv1.FindingQuerySpec{GroupBy: []string{"severity", "namespace"}}, []string{"  2", "high b 2", "low b 1", "high a 1", "high team-a 1"}},
		"MaxScore":   {reportsv1.FindingQuerySpec{GroupBy: []string{"namespace"}, Aggregate: "maxScore", Sort: []reportsv1.SortKey{{Field: "maxScore"}}}, []string{"a 1", "b 3 max 8", "team-a 1 max 8", " 2 max 9"}},
		"Resources":  {reportsv1.FindingQuerySpec{GroupBy: []string{"resourceKind"}, Aggregate: "countDistinctResources"}, []string{" 6 of 1", "Pod 1 of 1"}},
		"All":        {reportsv1.FindingQuerySpec{Aggregate: "count"}, []string{" 7"}},
		"Days":       {reportsv1.FindingQuerySpec{GroupBy: []string{"day", "firstSeenDay"}, Filter: "has(timestamp)"}, []string{"2026-01-31 2026-01-30 1"}},
		"Digest":     {reportsv1.FindingQuerySpec{GroupBy: []string{"digest", "resource"}, Filter: "has(resource.name)"}, []string{" web 1", "sha256:1 sha256:1 1"}},
		"TimeToFix":  {reportsv1.FindingQuerySpec{GroupBy: []string{"policy"}, Aggregate: "meanTimeToFix", Sort: []reportsv1.SortKey{{Field: "meanTimeToFix", Order: "desc"}}}, []string{"CVE-2024-1 1 in 24h0m0s", " 6"}},
		"NoFindings": {reportsv1.FindingQuerySpec{Aggregate: "count", Filter: "rule == 'x'"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := ask(t, c.spec)
			_, groups := Answer(q, rows)
			var got []string
			for _, group := range groups {
				got = append(got, printGroup(q, group))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func printGroup(q *Question, group reportsv1.FindingGroup) string {
	var words []string
	for _, name := range q.GroupBy {
		words = append(words, group.Key[string(name)])
	}
	text := fmt.Sprintf("%s %d", strings.Join(words, " "), group.Count)
	if group.MaxScore != nil {
		text += fmt.Sprintf(" max %g", *group.MaxScore)
	}
	if group.DistinctResources != nil {
		text += fmt.Sprintf(" of %d", *group.DistinctResources)
	}
	if group.MeanTimeToFix != nil {
		text += " in " + group.MeanTimeToFix.Duration.String()
	}
	return text
}
