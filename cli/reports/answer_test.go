// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
)

var noon = time.Date(2030, 1, 10, 12, 0, 0, 0, time.UTC)

func newSession(t *testing.T, out *bytes.Buffer) *session.Session {
	t.Helper()
	s, err := session.New(session.Options{
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out},
		Program: "scanyard", Getenv: func(string) string { return "" }, Now: func() time.Time { return noon },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func rows(names ...string) *reportsv1alpha1.FindingQueryStatus {
	a := &reportsv1alpha1.FindingQueryStatus{}
	cvss, seen := 9.8, metav1.NewTime(noon.Add(-72*time.Hour))
	for _, name := range names {
		a.Rows = append(a.Rows, reportsv1alpha1.FindingRow{
			Namespace: "team-a", Report: name, Kind: "PolicyReport", Severity: "critical", CVSS: &cvss, Policy: "CVE-2024-3094", Rule: "xz\tutils",
			Resource: &reportsv1alpha1.ResourceRef{Kind: "Pod", Name: "shop"}, FirstSeen: &seen, Message: "=cmd()",
		})
	}
	return a
}

// TestAnswers holds what each format prints of two pages.
func TestAnswers(t *testing.T) {
	byNamespace := &reportsv1alpha1.FindingQueryStatus{Groups: []reportsv1alpha1.FindingGroup{{Key: map[string]string{"namespace": "team-a"}, Count: 12}}}
	trend := &reportsv1alpha1.FindingQueryStatus{Groups: []reportsv1alpha1.FindingGroup{
		{Key: map[string]string{"day": "2030-01-02", "severity": "high"}, Count: 3},
		{Key: map[string]string{"day": "2030-01-01", "severity": "critical"}, Count: 1},
		{Key: map[string]string{"day": "2030-01-02", "severity": "low"}, Count: 4},
	}}
	for name, tc := range map[string]struct {
		format string
		spec   reportsv1alpha1.FindingQuerySpec
		pages  []*reportsv1alpha1.FindingQueryStatus
		want   string
	}{
		"Table": {
			"table",
			reportsv1alpha1.FindingQuerySpec{},
			[]*reportsv1alpha1.FindingQueryStatus{rows("r-1"), rows("r-2")},
			"NAMESPACE   SEVERITY   CVSS   POLICY          RULE       RESOURCE   REPORT   FIRST-SEEN\n" +
				"team-a      critical   9.8    CVE-2024-3094   xz utils   Pod/shop   r-1      3d\n" +
				"team-a   critical   9.8   CVE-2024-3094   xz utils   Pod/shop   r-2   3d\n",
		},
		"CSV": {
			"csv",
			reportsv1alpha1.FindingQuerySpec{},
			[]*reportsv1alpha1.FindingQueryStatus{rows("r-1")},
			"NAMESPACE,SEVERITY,CVSS,POLICY,RULE,RESOURCE,REPORT,FIRST-SEEN,RESULT,SOURCE,CATEGORY,TARGET,MESSAGE,EXCEPTION\n" +
				"team-a,critical,9.8,CVE-2024-3094,xz\tutils,Pod/shop,r-1,2030-01-07T12:00:00Z,,,,,'=cmd(),\n",
		},
		"Suppressed": {
			"table",
			reportsv1alpha1.FindingQuerySpec{IncludeSuppressed: true},
			[]*reportsv1alpha1.FindingQueryStatus{{Rows: []reportsv1alpha1.FindingRow{{Namespace: "team-a", Report: "r-1", Suppressed: true, Exception: "FindingException/lodash"}}}},
			"NAMESPACE   SEVERITY   CVSS   POLICY   RULE   RESOURCE   REPORT   FIRST-SEEN   EXCEPTION\n" +
				"team-a                                                   r-1                   FindingException/lodash\n",
		},
		"CSVFormulas": {
			"csv",
			reportsv1alpha1.FindingQuerySpec{GroupBy: []string{"policy"}},
			[]*reportsv1alpha1.FindingQueryStatus{{Groups: []reportsv1alpha1.FindingGroup{{Key: map[string]string{"policy": "\u200b＝cmd();+1"}, Count: 1}}}},
			"POLICY,COUNT,MAX-CVSS\n'\u200b＝cmd();'+1,1,\n",
		},
		"Name": {"name", reportsv1alpha1.FindingQuerySpec{}, []*reportsv1alpha1.FindingQueryStatus{rows("r-1", "r-1"), rows("r-2", "r-1")}, "policyreport/r-1\npolicyreport/r-2\n"},
		"Groups": {
			"table",
			reportsv1alpha1.FindingQuerySpec{GroupBy: []string{"namespace"}},
			[]*reportsv1alpha1.FindingQueryStatus{byNamespace},
			"NAMESPACE   COUNT   MAX-CVSS\nteam-a      12      \n",
		},
		"MaxScore": {
			"table",
			reportsv1alpha1.FindingQuerySpec{Aggregate: maxScore},
			[]*reportsv1alpha1.FindingQueryStatus{{Groups: []reportsv1alpha1.FindingGroup{{Key: map[string]string{}, Count: 3, MaxScore: new(9.8)}}}},
			"COUNT   MAX-CVSS\n3       9.8\n",
		},
		"Resources": {
			"csv",
			reportsv1alpha1.FindingQuerySpec{GroupBy: []string{"policy"}, Aggregate: countDistinctResources},
			[]*reportsv1alpha1.FindingQueryStatus{{Groups: []reportsv1alpha1.FindingGroup{{Key: map[string]string{"policy": "p"}, Count: 3, DistinctResources: new(int64(2))}}}},
			"POLICY,COUNT,RESOURCES\np,3,2\n",
		},
		"TimeToFix": {
			"table",
			reportsv1alpha1.FindingQuerySpec{GroupBy: []string{"severity"}, Aggregate: meanTimeToFix},
			[]*reportsv1alpha1.FindingQueryStatus{{Groups: []reportsv1alpha1.FindingGroup{
				{Key: map[string]string{"severity": "high"}, Count: 3, MeanTimeToFix: &metav1.Duration{Duration: 49 * time.Hour}}, {Key: map[string]string{"severity": "low"}, Count: 1},
			}}},
			"SEVERITY   COUNT   MEAN-TIME-TO-FIX\nhigh       3       2d1h\nlow        1       \n",
		},
		"Trend": {
			"csv",
			reportsv1alpha1.FindingQuerySpec{Trend: &reportsv1alpha1.TrendQuery{Days: 2}},
			[]*reportsv1alpha1.FindingQueryStatus{trend},
			"DAY,CRITICAL,HIGH,MEDIUM,LOW,INFO\n2030-01-01,1,0,0,0,0\n2030-01-02,0,3,0,4,0\n",
		},
		"FixedTable": {
			"table",
			reportsv1alpha1.FindingQuerySpec{},
			[]*reportsv1alpha1.FindingQueryStatus{{Rows: []reportsv1alpha1.FindingRow{{
				Namespace: "team-a", Severity: "high", Policy: "CVE-1", Rule: "xz", Target: "shop", FirstSeen: new(metav1.NewTime(noon.Add(-72 * time.Hour))),
				FixedAt: new(metav1.NewTime(noon.Add(-24 * time.Hour))),
			}}}},
			"NAMESPACE   SEVERITY   POLICY   RULE   TARGET   FIRST-SEEN   FIXED\nteam-a      high       CVE-1    xz     shop     3d           24h\n",
		},
		"JSON": {
			"json",
			reportsv1alpha1.FindingQuerySpec{},
			[]*reportsv1alpha1.FindingQueryStatus{byNamespace, byNamespace},
			"{\n    \"groups\": [\n        {\n            \"count\": 12,\n            \"key\": {\n                \"namespace\": \"team-a\"\n            }\n        },\n" +
				"        {\n            \"count\": 12,\n            \"key\": {\n                \"namespace\": \"team-a\"\n            }\n        }\n    ]\n}\n",
		},
		"GroupsByDay": {
			"csv",
			reportsv1alpha1.FindingQuerySpec{GroupBy: []string{"day"}},
			[]*reportsv1alpha1.FindingQueryStatus{{Groups: []reportsv1alpha1.FindingGroup{{Key: map[string]string{"day": "2030-01-01"}, Count: 2}}}},
			"DAY,COUNT,MAX-CVSS\n2030-01-01,2,\n",
		},
		"Nothing": {"table", reportsv1alpha1.FindingQuerySpec{}, []*reportsv1alpha1.FindingQueryStatus{{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p, err := newAnswerPrinter(tc.format, &tc.spec, strings.HasPrefix(name, "Fixed"), newSession(t, &out))
			if err != nil {
				t.Fatal(err)
			}
			for _, page := range tc.pages {
				if err := p.page(page); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.end(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestQuestions holds what flags ask, and what they refuse.
func TestQuestions(t *testing.T) {
	for name, tc := range map[string]struct {
		o    queryOptions
		want reportsv1alpha1.FindingQuerySpec
		err  string
	}{
		"Since":   {o: queryOptions{since: "7d", limit: 5}, want: reportsv1alpha1.FindingQuerySpec{Filter: "f", Since: &metav1.Duration{Duration: 7 * 24 * time.Hour}, Limit: 5}},
		"Hours":   {o: queryOptions{since: "12h", limit: 5}, want: reportsv1alpha1.FindingQuerySpec{Filter: "f", Since: &metav1.Duration{Duration: 12 * time.Hour}, Limit: 5}},
		"Trend":   {o: queryOptions{trend: "30d", limit: 5}, want: reportsv1alpha1.FindingQuerySpec{Filter: "f", Trend: &reportsv1alpha1.TrendQuery{Days: 30}, Limit: 5}},
		"Sort":    {o: queryOptions{sort: []string{"-cvss", "policy"}, limit: 5}, want: reportsv1alpha1.FindingQuerySpec{Filter: "f", Sort: []reportsv1alpha1.SortKey{{Field: "cvss", Order: "desc"}, {Field: "policy", Order: "asc"}}, Limit: 5}},
		"AllRows": {o: queryOptions{limit: 5, pages: true}, want: reportsv1alpha1.FindingQuerySpec{Filter: "f", Limit: maxRows}},

		"Fixed": {o: queryOptions{trend: "30d", aggregate: "fixed", limit: 5}, want: reportsv1alpha1.FindingQuerySpec{Filter: "f", Aggregate: "fixed", Trend: &reportsv1alpha1.TrendQuery{Days: 30}, Limit: 5}},
		"ToFix": {o: queryOptions{aggregate: "meanTimeToFix", limit: 5000}, want: reportsv1alpha1.FindingQuerySpec{Filter: "f", Aggregate: "meanTimeToFix", Limit: 5000}},

		"Images": {
			o:    queryOptions{limit: 5, of: imageFlags{images: reportsv1alpha1.ImagesQuery{Repository: "shop/api"}, fixable: new(false)}},
			want: reportsv1alpha1.FindingQuerySpec{Filter: "f", Images: &reportsv1alpha1.ImagesQuery{Repository: "shop/api"}, Fixable: new(false), Limit: 5},
		},
		"Package": {
			o:    queryOptions{limit: 5, of: imageFlags{pkg: "@babel/core@>=7.0.0,<7.23.2", pkgType: "npm"}},
			want: reportsv1alpha1.FindingQuerySpec{Filter: "f", Package: &reportsv1alpha1.PackageQuery{Name: "@babel/core", Type: "npm", VersionRange: ">=7.0.0,<7.23.2"}, Limit: 5},
		},
		"AnyVersion": {
			o:    queryOptions{limit: 5, of: imageFlags{pkg: "@babel/core"}},
			want: reportsv1alpha1.FindingQuerySpec{Filter: "f", Package: &reportsv1alpha1.PackageQuery{Name: "@babel/core"}, Limit: 5},
		},

		"Aggregate":      {o: queryOptions{aggregate: "sum", limit: 5}, err: "--aggregate sum is not known: choose count or one of maxScore, countDistinctResources"},
		"SinceNonsense":  {o: queryOptions{since: "yesterday", limit: 5}, err: `--since "yesterday" must be a time such as 7d or 12h`},
		"SinceTooLong":   {o: queryOptions{since: "500d", limit: 5}, err: "between 1d and 400d"},
		"TrendOfHours":   {o: queryOptions{trend: "3h", limit: 5}, err: "--trend 3h is less than a day"},
		"TrendAndGroups": {o: queryOptions{trend: "3d", groupBy: []string{"policy"}, limit: 5}, err: "leave out --group-by"},
		"Limit":          {o: queryOptions{limit: 1001}, err: "--limit 1001 must be between 1 and 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.session = newSession(t, &bytes.Buffer{})
			got, err := tc.o.spec("f")
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
