// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/query"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Random questions over random results have the same answers from the database, page by page, as in memory.
func TestSameAsInMemory(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		random := rand.New(rand.NewPCG(1, 2))
		f := open(t, config)
		all := samples(random, 250)
		f.fill(random, all)
		slices.SortFunc(all, func(a, b sample) int {
			return cmp.Or(cmp.Compare(f.names[a.row.Namespace], f.names[b.row.Namespace]), cmp.Compare(a.object, b.object), cmp.Compare(*a.row.Index, *b.row.Index))
		})
		plans := map[string]int{}
		for i := range 400 {
			input := &Input{Spec: randomSpec(random), Now: now, Scope: Scope{Cluster: random.IntN(3) > 0, Namespace: pick(random, words[query.Namespace][1:])}}
			plans[f.compare(input, all)]++
			if t.Failed() {
				t.Fatalf("question %d: %+v of %+v", i, input.Spec, input.Scope)
			}
		}
		if len(plans) != 3 {
			t.Errorf("plans %v: the questions must need all tables", plans)
		}
	})
}

// compare returns the plan.
func (f *filler) compare(input *Input, all []sample) string {
	f.t.Helper()
	q, mistakes := query.Clusterwide(&reportsv1.ClusterFindingQuery{Spec: input.Spec}, now)
	if len(mistakes) > 0 {
		f.t.Fatal(mistakes.ToAggregate())
	}
	var visible []reportsv1.FindingRow
	for _, s := range all {
		if input.Scope.Cluster || s.row.Namespace == input.Scope.Namespace {
			visible = append(visible, s.row)
		}
	}
	wantRows, wantGroups := query.Answer(q, visible)
	got := f.pages(input)
	if diff := gocmp.Diff(wantRows, got.Rows, cmpopts.EquateEmpty()); diff != "" {
		f.t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(wantGroups, got.Groups, cmpopts.EquateEmpty()); diff != "" {
		f.t.Errorf("groups (-want +got):\n%s", diff)
	}
	want := int64(len(wantRows))
	for _, group := range wantGroups {
		want += group.Count
	}
	if got.Total == nil || *got.Total != want {
		f.t.Errorf("total %v, want %d", got.Total, want)
	}
	return got.Plan
}

// pages puts all pages of an answer together.
func (f *filler) pages(input *Input) *reportsv1.FindingQueryStatus {
	f.t.Helper()
	page := *input
	var whole reportsv1.FindingQueryStatus
	for {
		got, err := f.answerer().Answer(f.t.Context(), &page)
		if err != nil {
			f.t.Fatalf("%+v: %v", page.Spec, err)
		}
		if len(got.Rows)+len(got.Groups) > int(input.Spec.Limit) {
			f.t.Fatalf("%d rows, %d groups: the limit is %d", len(got.Rows), len(got.Groups), input.Spec.Limit)
		}
		rows, groups := append(whole.Rows, got.Rows...), append(whole.Groups, got.Groups...)
		whole = *got
		whole.Rows, whole.Groups = rows, groups
		if got.Continue == "" {
			return &whole
		}
		page.Spec.Continue = got.Continue
		page.Now = page.Now.Add(time.Hour) // since counts from the first page
	}
}

// randomSpec is a question that the tables can answer.
func randomSpec(random *rand.Rand) (spec reportsv1.ClusterFindingQuerySpec) {
	depth := random.IntN(4)
	if random.IntN(5) > 0 {
		spec.Filter = randomFilter(random, depth)
	}
	spec.IncludeSuppressed = random.IntN(2) == 0
	spec.Limit = int32(pick(random, []int{7, 40, 1000}))
	if random.IntN(6) == 0 {
		spec.Kinds = []string{pick(random, []string{query.Reports, query.VulnerabilityReports})}
	}
	if random.IntN(5) == 0 {
		spec.Since = &metav1.Duration{Duration: time.Duration(random.IntN(60)+1) * time.Hour}
	}
	if random.IntN(6) == 0 {
		spec.Namespaces = []string{pick(random, words[query.Namespace][1:]), "missing"}
	}
	var sortable []string
	if random.IntN(2) == 0 {
		sortable = []string{"namespace", "source", "policy", "rule", "category", "severity", "result", "cvss", "timestamp", "firstSeen", "openFor", "resource.kind", "resource.name", "report", "suppressed", "exception", "package.type", "package.version", "fixable"}
	} else {
		spec.Aggregate = pick(random, []string{"count", "count", "count", "maxScore", "countDistinctResources"})
		sortable = []string{"count", spec.Aggregate}
		for _, group := range []string{"namespace", "severity", "result", "policy", "source", "rule", "category", "day", "firstSeenDay", "resourceKind", "resource"} {
			if len(spec.GroupBy) < 3 && random.IntN(5) == 0 {
				spec.GroupBy, sortable = append(spec.GroupBy, group), append(sortable, group)
			}
		}
		if random.IntN(3) == 0 { // for the rollups
			spec.Filter, spec.Since, spec.Kinds = "", nil, nil
		}
	}
	for range random.IntN(4) {
		key := reportsv1.SortKey{Field: pick(random, sortable), Order: pick(random, []string{"", "asc", "desc"})}
		if !slices.ContainsFunc(spec.Sort, func(other reportsv1.SortKey) bool { return other.Field == key.Field }) {
			spec.Sort = append(spec.Sort, key)
		}
	}
	return spec
}

func randomFilter(random *rand.Rand, depth int) string {
	if depth == 0 {
		return randomTerm(random)
	}
	left, right := randomFilter(random, depth-1), randomFilter(random, random.IntN(depth))
	switch random.IntN(4) {
	case 0:
		return "(" + left + " || " + right + ")"
	case 1:
		return "!(" + left + ")"
	default:
		return left + " && " + right
	}
}

func randomTerm(random *rand.Rand) string {
	fields := slices.DeleteFunc(slices.Clone(query.Fields), func(f query.Field) bool { return f == query.FixedAt || f == query.Target })
	field := pick(random, fields)
	op := pick(random, field.Ops())
	value := func() string { return randomValue(random, field) }
	switch op {
	case query.Has:
		return fmt.Sprintf("has(%s)", field)
	case query.StartsWith, query.Contains:
		part := []rune(strings.Trim(value(), "'"))
		from := random.IntN(len(part))
		if op == query.StartsWith || part[0] == '\\' || slices.Contains(part, '\\') {
			from = 0
		}
		text := string(part[from:])
		if !slices.Contains(part, '\\') {
			text = string(part[from : from+1+random.IntN(len(part)-from)])
		}
		return fmt.Sprintf("%s.%s('%s')", field, op, text)
	case query.In:
		return fmt.Sprintf("%s in [%s, %s]", field, value(), value())
	default:
		return fmt.Sprintf("%s %s %s", field, op, value())
	}
}

var escaped = strings.NewReplacer(`\`, `\\`, `'`, `\'`)

func randomValue(random *rand.Rand, field query.Field) string {
	switch field.Type() {
	case query.Severity:
		return "'" + query.SeverityOfRank(1+random.IntN(severities-1)) + "'"
	case query.Result:
		return "'" + query.ResultOfCode(1+random.IntN(results-1)) + "'"
	case query.Number:
		return fmt.Sprintf("%.1f", float64(random.IntN(100))/10)
	case query.Time:
		return "'" + moments(random).Add(pick(random, []time.Duration{0, time.Second / 2, time.Hour})).Format(time.RFC3339Nano) + "'"
	case query.Duration:
		return fmt.Sprintf("'%s'", time.Duration(random.IntN(6))*11*time.Hour+pick(random, []time.Duration{0, time.Second / 2, time.Hour}))
	case query.Flag:
		return pick(random, []string{"true", "false"})
	default:
		some := append([]string{"missing"}, words[field]...)
		return "'" + escaped.Replace(pick(random, slices.DeleteFunc(some, func(s string) bool { return s == "" }))) + "'"
	}
}
