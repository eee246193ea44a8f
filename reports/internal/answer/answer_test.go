// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

var everywhere = Scope{Cluster: true}

func spec(filter string) reportsv1.ClusterFindingQuerySpec {
	return reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: reportsv1.FindingQuerySpec{Filter: filter}}
}

func filled(t *testing.T, n int) *filler {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 4))
	f := open(t, dbtest.New(t, sqldb.SQLite))
	f.fill(random, samples(random, n))
	return f
}

func TestPlan(t *testing.T) {
	f := filled(t, 20)
	cases := map[string]struct {
		reason string
		spec   reportsv1.FindingQuerySpec
		want   Plan
	}{
		"TopPolicies": {"counts has policies", reportsv1.FindingQuerySpec{GroupBy: []string{"policy"}}, PlanCounts},
		"ByResult":    {"the smallest table that has it", reportsv1.FindingQuerySpec{GroupBy: []string{"result"}}, PlanCounts},
		"Severities":  {"the rows of the last day", reportsv1.FindingQuerySpec{GroupBy: []string{"namespace"}, Filter: "severity >= 'high'"}, PlanDaily},
		"Rules":       {"no rollup has rules", reportsv1.FindingQuerySpec{GroupBy: []string{"rule"}}, PlanResults},
		"Both":        {"no rollup has severities and policies", reportsv1.FindingQuerySpec{GroupBy: []string{"policy"}, Filter: "severity >= 'high'"}, PlanResults},
		"Scores":      {"no rollup has scores", reportsv1.FindingQuerySpec{GroupBy: []string{"namespace"}, Aggregate: "maxScore"}, PlanResults},
		"Kinds":       {"no rollup has kinds", reportsv1.FindingQuerySpec{Aggregate: "count", Kinds: []string{"reports"}}, PlanResults},
		"Rows":        {"rows are those of results", reportsv1.FindingQuerySpec{}, PlanResults},
		"Trend":       {"days are those of daily", reportsv1.FindingQuerySpec{Trend: &reportsv1.TrendQuery{Days: 2}}, PlanDaily},
		"TimeToFix":   {"what was fixed is in history", reportsv1.FindingQuerySpec{Aggregate: "meanTimeToFix"}, PlanHistory},
		"Fixed":       {"the same for its count", reportsv1.FindingQuerySpec{Aggregate: "count", Filter: "fixedAt > '2026-01-01'"}, PlanHistory},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := f.answerer().Answer(t.Context(), &Input{Spec: reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: c.spec}, Scope: everywhere, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if got.Plan != string(c.want) || got.AsOf != "1" {
				t.Errorf("plan %s as of %s, want %s as of 1: %s", got.Plan, got.AsOf, c.want, c.reason)
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	f := filled(t, 20)
	with := func(change func(*reportsv1.FindingQuerySpec)) reportsv1.ClusterFindingQuerySpec {
		s := spec("")
		change(&s.FindingQuerySpec)
		return s
	}
	first, err := f.answerer().Answer(t.Context(), &Input{Spec: with(func(s *reportsv1.FindingQuerySpec) { s.Limit = 1 }), Scope: everywhere, Now: now})
	if err != nil || first.Continue == "" {
		t.Fatal(first, err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(first.Continue)
	if err != nil {
		t.Fatal(err)
	}
	forged := func(from, to string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(raw), from, to, 1)))
	}
	next := func(token string) reportsv1.ClusterFindingQuerySpec {
		return with(func(s *reportsv1.FindingQuerySpec) { s.Limit, s.Continue = 1, token })
	}
	cases := map[string]struct {
		spec  reportsv1.ClusterFindingQuerySpec
		scope Scope
		want  string
	}{
		"Filter":      {spec("cvss >"), everywhere, "spec.filter: Invalid value: \"cvss >\": position 7: expected a number, found the end"},
		"Nested":      {spec(strings.Repeat("(", 1000)), everywhere, "position 21: expected 20 parentheses in each other at most"},
		"Long":        {spec(strings.Repeat("x", 5<<10)), everywhere, "position 1: expected 4096 bytes at most, found 5120"},
		"FixedReport": {spec("has(fixedAt) && report == 'x'"), everywhere, "report must not be asked for here: only namespace, source, policy, rule, severity"},
		"TargetScore": {spec("target == 'x' && cvss > 1"), everywhere, "cvss must not be asked for here"},
		"FixedByOpen": {with(func(s *reportsv1.FindingQuerySpec) {
			s.Filter, s.Sort = "has(fixedAt)", []reportsv1.SortKey{{Field: "openFor"}}
		}), everywhere, "spec.sort[0].field: Unsupported value: \"openFor\""},
		"TrendOfRule": {with(func(s *reportsv1.FindingQuerySpec) { s.Filter, s.Trend = "rule == 'x'", &reportsv1.TrendQuery{Days: 2} }), everywhere, "rule must not be asked for here: only namespace, source, severity, result, suppressed"},
		"TrendOfKind": {with(func(s *reportsv1.FindingQuerySpec) {
			s.Kinds, s.Trend = []string{"reports"}, &reportsv1.TrendQuery{Days: 2}
		}), everywhere, "spec.kinds: Forbidden"},
		"FixOfCategory": {with(func(s *reportsv1.FindingQuerySpec) { s.Aggregate, s.GroupBy = "meanTimeToFix", []string{"category"} }), everywhere, "spec.groupBy[0]: Invalid value: \"category\": must not stand beside meanTimeToFix"},
		"SortByTarget":  {with(func(s *reportsv1.FindingQuerySpec) { s.Sort = []reportsv1.SortKey{{Field: "target"}} }), everywhere, "spec.sort[0].field: Unsupported value: \"target\""},
		"NoToken":       {next("%"), everywhere, "spec.continue: Invalid value"},
		"LongToken":     {next(strings.Repeat("A", 20<<10)), everywhere, "spec.continue: Invalid value"},
		"OtherScope":    {next(first.Continue), Scope{Namespace: "team-a"}, "spec.continue: Invalid value"},
		"OtherQuestion": {with(func(s *reportsv1.FindingQuerySpec) { s.Continue, s.IncludeSuppressed = first.Continue, true }), everywhere, "spec.continue: Invalid value"},
		"FewerKeys":     {next(forged(`"a":[`, `"a":[1],"b":[`)), everywhere, "spec.continue: Invalid value"},
		"TextAsNumber":  {next(forged(`"a":[`, `"a":["x' OR 1=1 --",0,0,0,0],"b":[`)), everywhere, "spec.continue: Invalid value"},
		"ObjectAsKey":   {next(forged(`"a":[`, `"a":[{},0,0,0,0],"b":[`)), everywhere, "spec.continue: Invalid value"},
		"HugeNumber":    {next(forged(`"a":[`, `"a":[1e999,0,0,0,0],"b":[`)), everywhere, "spec.continue: Invalid value"},
		"WrongTime":     {next(forged(`"n":`, `"n":9999999`)), everywhere, "spec.continue: Invalid value"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := f.answerer().Answer(t.Context(), &Input{Spec: c.spec, Scope: c.scope, Now: now})
			invalid, ok := errors.AsType[*InvalidError](err)
			if !ok || len(invalid.Mistakes) != 1 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one mistake with %s", err, c.want)
			}
		})
	}
}

// A question of a namespace sees nothing of another one: no row, no count, no token leads out.
func TestScopeBounds(t *testing.T) {
	f := filled(t, 200)
	scope := Scope{Namespace: "team-a"}
	for _, filter := range []string{"namespace == 'team-b'", "namespace != 'team-a'", "!(namespace == 'team-a')", "!has(namespace)"} {
		for _, aggregate := range []string{"", "count", "maxScore"} {
			s := spec(filter)
			s.Aggregate, s.IncludeSuppressed = aggregate, true
			got, err := f.answerer().Answer(t.Context(), &Input{Spec: s, Scope: scope, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Rows)+len(got.Groups) > 0 || *got.Total != 0 {
				t.Errorf("%s %s of team-a: %+v", filter, aggregate, got)
			}
		}
	}
	s := spec("")
	s.Namespaces = []string{"team-b"}
	got, err := f.answerer().Answer(t.Context(), &Input{Spec: s, Scope: scope, Now: now})
	if err != nil || len(got.Rows) > 0 || *got.Total != 0 {
		t.Errorf("another namespace: %+v, %v", got, err)
	}
	s.Namespaces, s.GroupBy = nil, []string{"namespace"}
	got, err = f.answerer().Answer(t.Context(), &Input{Spec: s, Scope: scope, Now: now})
	if err != nil || len(got.Groups) != 1 || got.Groups[0].Key["namespace"] != "team-a" {
		t.Errorf("groups of namespaces: %+v, %v", got, err)
	}
	got, err = f.answerer().Answer(t.Context(), &Input{Spec: spec(""), Scope: Scope{Namespace: "nowhere"}, Now: now})
	if err != nil || len(got.Rows) > 0 {
		t.Errorf("a namespace without findings: %+v, %v", got, err)
	}
}

// Whatever a filter says is a value.
func TestNoSQLFromClients(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		random := rand.New(rand.NewPCG(5, 6))
		f := open(t, config)
		f.fill(random, samples(random, 100))
		for text, found := range map[string]bool{
			`\'; DROP TABLE results; --`: false, `\' OR 1=1 --`: false, "%": true, "_": true, "100%_sure": true, "100xysure": false, "~": true, `\\`: true, "it\\'s": true, "?": false, "$1": false, "CVE%1": false,
		} {
			s := spec("policy.contains('" + text + "')")
			s.IncludeSuppressed = true
			got, err := f.answerer().Answer(t.Context(), &Input{Spec: s, Scope: everywhere, Now: now})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if (len(got.Rows) > 0) != found {
				t.Errorf("%s: %d rows, want some: %v", text, len(got.Rows), found)
			}
		}
	})
}

func TestSearchNeedsAnotherTerm(t *testing.T) {
	f := filled(t, 50)
	a := f.answerer()
	a.MaxSearched = 49
	cases := map[string]bool{
		"rule.contains('ssl')":                                false,
		"rule.contains('ssl') || cvss > 8":                    false,
		"rule.contains('ssl') && has(timestamp)":              false,
		"rule.contains('ssl') && cvss > 8":                    true,
		"rule.contains('ssl') && severity == 'high'":          true,
		"rule.contains('ssl') && namespace == 'team-a'":       true,
		"rule.contains('ssl') && firstSeen > '2026-01-01'":    true,
		"rule.contains('ssl') && policy.startsWith('CVE-20')": true,
		"rule.startsWith('open')":                             true,
	}
	for filter, want := range cases {
		_, err := a.Answer(t.Context(), &Input{Spec: spec(filter), Scope: everywhere, Now: now})
		if (err == nil) != want {
			t.Errorf("%s: error %v, want an answer: %v", filter, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "needs policy, severity, cvss, namespace or since beside it") {
			t.Errorf("%s: error %v", filter, err)
		}
	}
	if _, err := a.Answer(t.Context(), &Input{Spec: spec("rule.contains('ssl')"), Scope: Scope{Namespace: "team-a"}, Now: now}); err != nil {
		t.Errorf("one namespace is searched: %v", err)
	}
}

func TestTimeout(t *testing.T) {
	f := filled(t, 10)
	a := f.answerer()
	a.Timeout = time.Nanosecond
	_, err := a.Answer(t.Context(), &Input{Spec: spec("cvss > 8 && report == 'x' && rule.contains('y')"), Scope: everywhere, Now: now})
	timeout, ok := errors.AsType[*TimeoutError](err)
	if !ok {
		t.Fatalf("error %v, want a TimeoutError", err)
	}
	if diff := cmp.Diff([]string{"report == 'x'", "rule.contains('y')"}, timeout.Unindexed); diff != "" {
		t.Errorf("terms without an index (-want +got):\n%s", diff)
	}
}

func TestTotalIsBounded(t *testing.T) {
	f := filled(t, 10_100)
	s := spec("")
	s.IncludeSuppressed = true
	for _, aggregate := range []string{"", "count"} {
		s.Aggregate = aggregate
		got, err := f.answerer().Answer(t.Context(), &Input{Spec: s, Scope: everywhere, Now: now})
		if err != nil || got.Total != nil || got.TotalAtLeast == nil || *got.TotalAtLeast != 10_000 {
			t.Errorf("total %v, at least %v, %v", got.Total, got.TotalAtLeast, err)
		}
	}
}

// printed are groups as text.
func printed(groups []reportsv1.FindingGroup, keys ...string) (lines []string) {
	for _, group := range groups {
		var words []string
		for _, key := range keys {
			words = append(words, group.Key[key])
		}
		words = append(words, strconv.FormatInt(group.Count, 10))
		if group.MeanTimeToFix != nil {
			words = append(words, "in", group.MeanTimeToFix.Duration.String())
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

// A day without a write ends as the day before; what came and went is of its day only.
func TestTrend(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		f := open(t, config)
		f.nameAll(rand.New(rand.NewPCG(7, 8)), []string{"", "team-a", "team-b", "nmap"})
		day := func(day int, namespace string, severity, suppressed, n, added, fixed int) []any {
			return []any{day, f.names[namespace], f.names["nmap"], severity, 2, suppressed, n, added, fixed}
		}
		var values []any
		for _, row := range [][]any{
			day(today-9, "team-a", 4, 0, 100, 1, 1), day(today-5, "team-a", 4, 0, 3, 2, 1), day(today-5, "team-a", 4, 1, 50, 0, 0), day(today-5, "team-a", 1, 0, 1, 1, 0),
			day(today-2, "team-a", 4, 0, 0, 0, 3), day(today-2, "team-b", 4, 0, 7, 7, 0),
		} {
			values = append(values, row...)
		}
		f.insert("daily (day, ns, source, severity, result, suppressed, n, added, fixed)", 9, values)
		cases := map[string]struct {
			filter, aggregate string
			days              int32
			want              []string
		}{
			"Open":      {"", "", 5, []string{"2026-11-18 high 3", "2026-11-18 info 1", "2026-11-19 high 3", "2026-11-19 info 1", "2026-11-20 high 7", "2026-11-21 high 7", "2026-11-22 high 7"}},
			"Namespace": {"namespace == 'team-a'", "", 4, []string{"2026-11-19 high 3", "2026-11-19 info 1"}},
			"Long":      {"severity == 'high'", "count", 11, []string{"2026-11-13 high 100", "2026-11-14 high 100", "2026-11-15 high 100", "2026-11-16 high 100", "2026-11-17 high 3", "2026-11-18 high 3", "2026-11-19 high 3", "2026-11-20 high 7", "2026-11-21 high 7", "2026-11-22 high 7"}},
			"New":       {"", "new", 6, []string{"2026-11-17 high 2", "2026-11-17 info 1", "2026-11-20 high 7"}},
			"Fixed":     {"", "fixed", 11, []string{"2026-11-13 high 1", "2026-11-17 high 1", "2026-11-20 high 3"}},
		}
		for name, c := range cases {
			s := spec(c.filter)
			s.Aggregate, s.Trend = c.aggregate, &reportsv1.TrendQuery{Days: c.days}
			got, err := f.answerer().Answer(t.Context(), &Input{Spec: s, Scope: everywhere, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, printed(got.Groups, "day", "severity")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

// What is fixed is known when its report is gone.
func TestHistory(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		f := open(t, config)
		f.nameAll(rand.New(rand.NewPCG(9, 10)), []string{"", "team-a", "team-b", "nmap", "host", "CVE-1", "xz"})
		hour := func(before int) int64 { return now.Add(-time.Duration(before) * time.Hour).Unix() }
		life := func(namespace, fingerprint string, severity int, first int, fixed any) []any {
			return []any{f.names[namespace], f.names["host"], fingerprint, f.names["nmap"], severity, 2, f.names["CVE-1"], f.names["xz"], hour(first), hour(0), fixed, 0, "run"}
		}
		var values []any
		for _, row := range [][]any{
			life("team-a", "1", 4, 10, hour(4)), life("team-a", "2", 4, 10, hour(9)), life("team-a", "3", 3, 100, nil), life("team-b", "4", 4, 2, hour(0)), life("team-b", "5", 4, 30, nil),
		} {
			values = append(values, row...)
		}
		f.insert("history (ns, target, fingerprint, source, severity, result, policy, rule, first_at, last_at, fixed_at, reopened, run)", 13, values)
		cases := map[string]struct {
			change func(*reportsv1.FindingQuerySpec)
			want   []string
		}{
			"MeanTimeToFix": {func(s *reportsv1.FindingQuerySpec) { s.Aggregate, s.GroupBy = "meanTimeToFix", []string{"namespace"} }, []string{"team-a 3 in 3h30m0s", "team-b 2 in 2h0m0s"}},
			"Slowest": {func(s *reportsv1.FindingQuerySpec) {
				s.Aggregate, s.GroupBy, s.Sort = "meanTimeToFix", []string{"severity"}, []reportsv1.SortKey{{Field: "meanTimeToFix"}}
			}, []string{"medium 1", "high 4 in 3h0m0s"}},
			"FixedLately": {func(s *reportsv1.FindingQuerySpec) {
				s.Filter, s.GroupBy = "fixedAt > '"+now.Add(-5*time.Hour).Format(time.RFC3339)+"'", []string{"namespace"}
			}, []string{"team-a 1", "team-b 1"}},
			"OpenLong": {func(s *reportsv1.FindingQuerySpec) {
				s.Filter, s.Aggregate = "openFor >= '6h' && target == 'host'", "count"
			}, []string{" 3"}},
			"NotLong": {func(s *reportsv1.FindingQuerySpec) {
				s.Filter, s.Aggregate = "!(openFor > '5h') && target == 'host'", "count"
			}, []string{" 2"}},
			"Since": {func(s *reportsv1.FindingQuerySpec) {
				s.Aggregate, s.Since = "meanTimeToFix", &metav1.Duration{Duration: 3 * time.Hour}
			}, []string{" 1 in 2h0m0s"}},
			"Elsewhere": {func(s *reportsv1.FindingQuerySpec) { s.Filter, s.Aggregate = "target == 'other'", "count" }, nil},
			"Suppressed": {func(s *reportsv1.FindingQuerySpec) {
				s.Filter, s.Aggregate, s.IncludeSuppressed = "suppressed && has(target)", "count", true
			}, nil},
		}
		for name, c := range cases {
			s := spec("")
			c.change(&s.FindingQuerySpec)
			got, err := f.answerer().Answer(t.Context(), &Input{Spec: s, Scope: everywhere, Now: now})
			if err != nil {
				t.Fatal(name, err)
			}
			key := "none"
			if len(s.GroupBy) > 0 {
				key = s.GroupBy[0]
			}
			if diff := cmp.Diff(c.want, printed(got.Groups, key)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		listLives(t, f)
	})
}

// listLives lists each finding that was fixed, page by page: the worst first, and then what was fixed last.
func listLives(t *testing.T, f *filler) {
	t.Helper()
	var fixed []string
	s := spec("has(fixedAt) && policy == 'CVE-1'")
	for s.Limit = 2; ; {
		got, err := f.answerer().Answer(t.Context(), &Input{Spec: s, Scope: everywhere, Now: now})
		if err != nil || got.Total == nil || *got.Total != 3 || got.Plan != string(PlanHistory) {
			t.Fatal(got, err)
		}
		for _, row := range got.Rows {
			fixed = append(fixed, strings.Join([]string{row.Namespace, row.Target, row.Severity, row.Policy, row.Rule, row.OpenFor.Duration.String()}, " "))
		}
		if s.Continue = got.Continue; s.Continue == "" {
			break
		}
	}
	want := []string{"team-b host high CVE-1 xz 2h0m0s", "team-a host high CVE-1 xz 6h0m0s", "team-a host high CVE-1 xz 1h0m0s"}
	if diff := cmp.Diff(want, fixed); diff != "" {
		t.Errorf("what was fixed (-want +got):\n%s", diff)
	}
	if got, err := f.answerer().Answer(t.Context(), &Input{Spec: spec("target == 'host'"), Scope: Scope{Namespace: "team-a"}, Now: now}); err != nil || len(got.Rows) != 3 {
		t.Errorf("of one namespace: %+v, %v", got, err)
	}
}
