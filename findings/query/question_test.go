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

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func ask(t *testing.T, spec reportsv1.FindingQuerySpec) *Question {
	t.Helper()
	q, errs := Clusterwide(&reportsv1.ClusterFindingQuery{Spec: reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: spec}}, now)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return q
}

func TestCondition(t *testing.T) {
	hour := metav1.NewTime(now.Add(-time.Hour))
	cases := map[string]struct {
		reason string
		spec   reportsv1.FindingQuerySpec
		want   string
	}{
		"Nothing":  {"accepted findings are left out", reportsv1.FindingQuerySpec{}, "suppressed == false"},
		"All":      {"unless they are asked for", reportsv1.FindingQuerySpec{IncludeSuppressed: true}, ""},
		"Explicit": {"a filter that names them does not ask for them", reportsv1.FindingQuerySpec{Filter: "suppressed"}, "suppressed == true && suppressed == false"},
		"Joined": {"filter and where must both hold", reportsv1.FindingQuerySpec{
			Filter: "cvss > 1 || cvss < 9", IncludeSuppressed: true,
			Where: []reportsv1.Term{{Field: "severity", Op: ">=", Value: "high"}, {Field: "namespace", Op: "in", Values: []string{"a", "b"}}, {Field: "rule", Op: "has"}},
		}, "(cvss > 1 || cvss < 9) && severity >= 'high' && namespace in ['a', 'b'] && has(rule)"},
		"Since":  {"counts back from now", reportsv1.FindingQuerySpec{Since: &metav1.Duration{Duration: 24 * time.Hour}, IncludeSuppressed: true}, "firstSeen >= '2026-01-30T12:00:00Z'"},
		"After":  {"both words", reportsv1.FindingQuerySpec{After: &hour, FirstSeenAfter: &hour, IncludeSuppressed: true}, "firstSeen > '2026-01-31T11:00:00Z' && firstSeen > '2026-01-31T11:00:00Z'"},
		"Before": {"", reportsv1.FindingQuerySpec{Before: &hour, IncludeSuppressed: true}, "firstSeen < '2026-01-31T11:00:00Z'"},
		"Package": {"a vulnerability of a package", reportsv1.FindingQuerySpec{
			Vulnerability: "CVE-1", Package: &reportsv1.PackageQuery{Name: "openssl"}, IncludeSuppressed: true,
		}, "policy == 'CVE-1' && rule == 'openssl'"},
		"Fixable": {"what only findings of images have", reportsv1.FindingQuerySpec{
			Package: &reportsv1.PackageQuery{Type: "npm"}, Fixable: new(false), IncludeSuppressed: true,
		}, "package.type == 'npm' && fixable == false"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, ask(t, c.spec).Where.String()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestQuestionRefuses(t *testing.T) {
	yes := true
	term := func(field, op, value string, values ...string) reportsv1.FindingQuerySpec {
		return reportsv1.FindingQuerySpec{Where: []reportsv1.Term{{Field: field, Op: op, Value: value, Values: values}}}
	}
	cases := map[string]struct {
		spec reportsv1.FindingQuerySpec
		want string // the beginning of the only mistake
	}{
		"Filter":         {reportsv1.FindingQuerySpec{Filter: "cvss >"}, `spec.filter: Invalid value: "cvss >": position 7: expected a number, found the end`},
		"Field":          {term("colour", "==", "red"), `spec.where[0].field: Unsupported value: "colour"`},
		"Op":             {term("policy", "matches", ".*"), `spec.where[0].op: Unsupported value: "matches"`},
		"OpOfField":      {term("policy", "<", "x"), `spec.where[0].op: Unsupported value: "\u003c"`},
		"Value":          {term("cvss", ">", "high"), `spec.where[0].value: Invalid value: "high": must be a decimal number`},
		"NotANumber":     {term("cvss", ">", "NaN"), `spec.where[0].value: Invalid value: "NaN": must be a decimal number`},
		"NoValue":        {term("policy", "==", ""), `spec.where[0].value: Invalid value: "": must not be empty`},
		"ValueOfHas":     {term("policy", "has", "x"), `spec.where[0].value: Forbidden: must be absent for has`},
		"ValuesOfEqual":  {term("policy", "==", "x", "y"), `spec.where[0].values: Forbidden: must be absent for ==`},
		"NoValues":       {term("policy", "in", ""), `spec.where[0].values: Required value`},
		"OneOfValues":    {term("severity", "in", "", "high", "x"), `spec.where[0].values[1]: Invalid value: "x": must be one of info`},
		"TooManyValues":  {term("policy", "in", "", strings.Split(strings.Repeat("x,", 500)+"x", ",")...), `spec.where[0].values: Too many: 501`},
		"NUL":            {term("policy", "==", "a\x00"), `spec.where[0].value: Invalid value: "a\x00": must be valid UTF-8`},
		"TooManyTerms":   {reportsv1.FindingQuerySpec{Filter: strings.Repeat("has(cvss) && ", 49) + "has(cvss)", Where: term("rule", "has", "").Where}, `spec.filter: Too many: 51`},
		"Since":          {reportsv1.FindingQuerySpec{Since: &metav1.Duration{Duration: -time.Hour}}, `spec.since: Invalid value: "-1h0m0s": must be more than 0`},
		"Kinds":          {reportsv1.FindingQuerySpec{Kinds: []string{"pods"}}, `spec.kinds[0]: Unsupported value: "pods"`},
		"PackageKinds":   {reportsv1.FindingQuerySpec{Kinds: []string{"reports"}, Package: &reportsv1.PackageQuery{Name: "x"}}, `spec.kinds: Invalid value: ["reports"]: must hold vulnerabilityreports`},
		"ImagesKinds":    {reportsv1.FindingQuerySpec{Kinds: []string{"reports"}, Images: &reportsv1.ImagesQuery{}}, `spec.kinds: Invalid value: ["reports"]: must hold vulnerabilityreports`},
		"FixableKinds":   {reportsv1.FindingQuerySpec{Kinds: []string{"reports"}, Fixable: &yes}, `spec.kinds: Invalid value: ["reports"]: must hold vulnerabilityreports`},
		"Presence":       {reportsv1.FindingQuerySpec{Images: &reportsv1.ImagesQuery{Presence: "here"}}, `spec.images.presence: Unsupported value: "here"`},
		"RangeAlone":     {reportsv1.FindingQuerySpec{Package: &reportsv1.PackageQuery{VersionRange: "<2"}}, `spec.package.versionRange: Forbidden: must stand beside name`},
		"Range":          {reportsv1.FindingQuerySpec{Package: &reportsv1.PackageQuery{Name: "x", VersionRange: "<"}}, `spec.package.versionRange: Invalid value: "<": must be a version, or comparisons`},
		"RangeOfWords":   {reportsv1.FindingQuerySpec{Package: &reportsv1.PackageQuery{Name: "x", VersionRange: ">=1|<latest"}}, `spec.package.versionRange: Invalid value: ">=1|<latest": must be a version, or comparisons`},
		"RangeOfType":    {reportsv1.FindingQuerySpec{Package: &reportsv1.PackageQuery{Name: "x", Type: "npm", VersionRange: "<1:2-3"}}, `spec.package.versionRange: Invalid value: "<1:2-3": range "vers:npm/<1:2-3"`},
		"RangeOfNoType":  {reportsv1.FindingQuerySpec{Package: &reportsv1.PackageQuery{Name: "x", Type: "x", VersionRange: "<1"}}, `spec.package.versionRange: Invalid value: "<1": range "vers:x/<1": versions of "x" cannot be compared`},
		"GroupBy":        {reportsv1.FindingQuerySpec{GroupBy: []string{"cvss"}}, `spec.groupBy[0]: Unsupported value: "cvss"`},
		"GroupByTwice":   {reportsv1.FindingQuerySpec{GroupBy: []string{"rule", "rule"}}, `spec.groupBy[1]: Duplicate value: "rule"`},
		"FourGroups":     {reportsv1.FindingQuerySpec{GroupBy: []string{"rule", "policy", "day", "source"}}, `spec.groupBy: Too many: 4`},
		"Aggregate":      {reportsv1.FindingQuerySpec{Aggregate: "sum"}, `spec.aggregate: Unsupported value: "sum"`},
		"NewNoTrend":     {reportsv1.FindingQuerySpec{Aggregate: "new"}, `spec.aggregate: Invalid value: "new": must stand beside trend`},
		"TrendDays":      {reportsv1.FindingQuerySpec{Trend: &reportsv1.TrendQuery{Days: 401}}, `spec.trend.days: Invalid value: 401: must be from 1 to 400`},
		"TrendGroups":    {reportsv1.FindingQuerySpec{Trend: &reportsv1.TrendQuery{Days: 1}, GroupBy: []string{"rule"}}, `spec.groupBy: Forbidden`},
		"TrendSort":      {reportsv1.FindingQuerySpec{Trend: &reportsv1.TrendQuery{Days: 1}, Sort: []reportsv1.SortKey{{Field: "count"}}}, `spec.sort: Forbidden`},
		"TrendAggregate": {reportsv1.FindingQuerySpec{Trend: &reportsv1.TrendQuery{Days: 1}, Aggregate: "maxScore"}, `spec.aggregate: Unsupported value: "maxScore"`},
		"Sort":           {reportsv1.FindingQuerySpec{Sort: []reportsv1.SortKey{{Field: "count"}}}, `spec.sort[0].field: Unsupported value: "count"`},
		"SortOfGroups":   {reportsv1.FindingQuerySpec{GroupBy: []string{"rule"}, Sort: []reportsv1.SortKey{{Field: "cvss"}}}, `spec.sort[0].field: Unsupported value: "cvss"`},
		"SortOrder":      {reportsv1.FindingQuerySpec{Sort: []reportsv1.SortKey{{Field: "cvss", Order: "down"}}}, `spec.sort[0].order: Unsupported value: "down"`},
		"SortTwice":      {reportsv1.FindingQuerySpec{Sort: []reportsv1.SortKey{{Field: "cvss"}, {Field: "cvss"}}}, `spec.sort[1].field: Duplicate value: "cvss"`},
		"LimitOfRows":    {reportsv1.FindingQuerySpec{Limit: 1001}, `spec.limit: Invalid value: 1001: must be from 1 to 1000`},
		"LimitOfGroups":  {reportsv1.FindingQuerySpec{Limit: 10001, Aggregate: "count"}, `spec.limit: Invalid value: 10001: must be from 1 to 10000`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, errs := Namespaced(&reportsv1.FindingQuery{Spec: c.spec}, now)
			if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), c.want) {
				t.Errorf("mistakes %v, want one that begins with %s", errs, c.want)
			}
		})
	}
}

// Questions that only findings of images answer leave the others alone.
func TestImages(t *testing.T) {
	present := &reportsv1.ImagesQuery{Repository: "shop/api", Presence: reportsv1.ImagePresent}
	for name, spec := range map[string]reportsv1.FindingQuerySpec{
		"Images": {Images: present}, "Type": {Package: &reportsv1.PackageQuery{Type: "npm"}}, "Fixable": {Fixable: new(true)},
		"Range": {Package: &reportsv1.PackageQuery{Name: "lodash", VersionRange: ">=4.0.0, <4.17.21"}},
	} {
		q := ask(t, spec)
		if !cmp.Equal([]string{VulnerabilityReports}, q.Kinds) || q.Images != spec.Images || (q.VersionRange != "") != (name == "Range") {
			t.Errorf("%s: %+v", name, q)
		}
	}
	if q := ask(t, reportsv1.FindingQuerySpec{Package: &reportsv1.PackageQuery{}}); q.Kinds != nil {
		t.Errorf("a package that may be any: %+v", q)
	}
}

func TestCheckTypes(t *testing.T) {
	for name, c := range map[string]struct {
		versionRange VersionRange
		types        []string
		want         string
	}{
		"NoTypes":  {"<1:2-3", nil, ""},
		"OneOfTwo": {"<1:2-3", []string{"npm", "deb"}, ""},
		"None":     {"<1:2-3", []string{"npm", "cobol"}, `range "vers:npm/<1:2-3"`},
		"NoOrder":  {"<1", []string{"cobol"}, `range "vers:cobol/<1": versions of "cobol" cannot be compared`},
		"NoType":   {"<1", []string{""}, `range "vers:/<1"`},
	} {
		err := c.versionRange.CheckTypes(c.types...)
		if got := fmt.Sprint(err); (err == nil) != (c.want == "") || c.want != "" && !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %v, want an error that begins with %q", name, err, c.want)
		}
	}
}

func TestVersionRange(t *testing.T) {
	cases := map[string]struct {
		reason       string
		versionRange VersionRange
		packageType  string
		versions     []string
		want         []string
	}{
		"Below":    {"numbers are compared, not texts", "<1.10.0", "npm", []string{"1.9.0", "1.10.0", "1.2.0"}, []string{"1.9.0", "1.2.0"}},
		"Spaces":   {"people write some", "< 1.10.0", "npm", []string{"1.9.0"}, []string{"1.9.0"}},
		"Between":  {"a comma is as good", ">=4.0.0,<4.17.21", "npm", []string{"3.9.9", "4.17.20", "4.17.21"}, []string{"4.17.20"}},
		"One":      {"a version is a range", "1.2.0", "npm", []string{"1.2.0", "1.2.1"}, []string{"1.2.0"}},
		"Epoch":    {"each type has an order of its own", "<1:0", "deb", []string{"9.8-1", "1:0-1"}, []string{"9.8-1"}},
		"NotOne":   {"what is not a version is in no range", "<2.0.0", "npm", []string{"latest", "1.0.0"}, []string{"1.0.0"}},
		"NoOrder":  {"versions of the type cannot be compared", "<2.0.0", "x", []string{"1.0.0"}, nil},
		"OtherWay": {"the range is of another type", "<1:2-3", "npm", []string{"1.0.0"}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.versionRange.Takes(c.packageType, c.versions)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestScope(t *testing.T) {
	namespaced, errs := Namespaced(&reportsv1.FindingQuery{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a"}, Spec: reportsv1.FindingQuerySpec{Filter: "namespace == 'team-b'"}}, now)
	if len(errs) > 0 || !cmp.Equal([]string{"team-a"}, namespaced.Namespaces) {
		t.Errorf("namespaces %v, %v: the namespace of the query bounds the question", namespaced.Namespaces, errs)
	}
	if rows, _ := Answer(namespaced, []reportsv1.FindingRow{{Namespace: "team-b"}}); len(rows) > 0 {
		t.Errorf("rows %v: a filter must not reach another namespace", rows)
	}
	clusterwide, errs := Clusterwide(&reportsv1.ClusterFindingQuery{Spec: reportsv1.ClusterFindingQuerySpec{Namespaces: []string{"b", "a", "b"}}}, now)
	if len(errs) > 0 || !cmp.Equal([]string{"a", "b"}, clusterwide.Namespaces) {
		t.Errorf("namespaces %v, %v", clusterwide.Namespaces, errs)
	}
	_, errs = Clusterwide(&reportsv1.ClusterFindingQuery{Spec: reportsv1.ClusterFindingQuerySpec{Namespaces: make([]string, 501)}}, now)
	if len(errs) != 1 || errs[0].Field != "spec.namespaces" {
		t.Errorf("mistakes %v, want one of spec.namespaces", errs)
	}
}
