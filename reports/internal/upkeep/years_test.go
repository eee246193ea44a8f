// SPDX-License-Identifier: Apache-2.0

package upkeep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/answer"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
	"github.com/scanyard/scanyard/reports/internal/upkeep"
)

const (
	keptDays = 400 // as it is by default
	allDays  = keptDays + 30
)

// life is what a finding has been through.
type life struct{ first, fixed int } // days; fixed is -1 while it is open

// years are days of scans: some targets, each with a run on each working day, and in memory what must be known of them.
type years struct {
	t       *testing.T
	clock   *testingclock.FakeClock
	store   *mvcc.Store
	upkeep  *upkeep.Upkeep
	targets int
	found   int // how many findings a target may have

	written []int64           // the revision of each target's report
	lives   []map[int]life    // of each target, by finding
	open    []map[string]int  // of each day, by severity
	changed map[string][2]int // added and fixed, by day and severity
}

func newYears(t *testing.T, targets, found int) *years {
	t.Helper()
	y := &years{t: t, clock: testingclock.NewFakeClock(begin), targets: targets, found: found, written: make([]int64, targets), changed: map[string][2]int{}}
	for range targets {
		y.lives = append(y.lives, map[int]life{})
	}
	var err error
	y.store, err = mvcc.Open(t.Context(), dbtest.New(t, sqldb.SQLite), mvcc.Options{Clock: y.clock, CompactEvery: -1, Unindex: rows.Drop})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	y.upkeep = upkeep.New(upkeep.Config{Store: y.store, Clock: y.clock})
	return y
}

var severities = []string{"info", "low", "medium", "high", "critical"}

func severityOf(finding int) (rows.Severity, string) {
	return rows.Info + rows.Severity(finding%len(severities)), severities[finding%len(severities)]
}

// isThere tells on which days a target has a finding: one is always there, one in the first days only, one in the last days
// only, and the others come and go.
func isThere(target, finding, day int) bool {
	switch finding {
	case 0:
		return true
	case 1:
		return day < 5
	case 2:
		return day >= allDays-3
	}
	return (day/(3+finding%40)+finding+target)%3 != 0
}

func dayName(day int) string { return begin.AddDate(0, 0, day).Format(time.DateOnly) }

// pass is a day: its scans, and the upkeep.
func (y *years) pass(day int) {
	y.t.Helper()
	y.clock.SetTime(begin.AddDate(0, 0, day))
	if weekday := y.clock.Now().Weekday(); weekday != time.Saturday && weekday != time.Sunday {
		for target := range y.targets {
			y.scan(day, target)
		}
	}
	if err := y.upkeep.Once(y.t.Context()); err != nil {
		y.t.Fatal(err)
	}
	open := map[string]int{}
	for _, lives := range y.lives {
		for finding, l := range lives {
			if _, severity := severityOf(finding); l.fixed < 0 {
				open[severity]++
			} else if day-l.fixed > keptDays {
				delete(lives, finding)
			}
		}
	}
	y.open = append(y.open, open)
}

func (y *years) scan(day, target int) {
	y.t.Helper()
	namespace := fmt.Sprintf("team-%d", target%7)
	set := &rows.Set{Namespace: namespace, Target: fmt.Sprintf("host-%d", target), Run: dayName(day), Parts: 1}
	for finding := range y.found {
		severity, name := severityOf(finding)
		key := dayName(day) + " " + name
		change, l := y.changed[key], y.lives[target][finding]
		_, known := y.lives[target][finding]
		switch there := isThere(target, finding, day); {
		case there && !known:
			y.lives[target][finding] = life{first: day, fixed: -1}
			change[0]++
		case there && l.fixed >= 0:
			y.lives[target][finding] = life{first: l.first, fixed: -1}
			change[0]++
		case !there && known && l.fixed < 0:
			y.lives[target][finding] = life{first: l.first, fixed: day}
			change[1]++
		}
		y.changed[key] = change
		if isThere(target, finding, day) {
			set.Rows = append(set.Rows, rows.Row{
				Source: "nmap", Policy: fmt.Sprintf("policy-%d", finding), Severity: severity, Result: rows.Fail, ResourceKind: "Host", ResourceName: set.Target,
			})
		}
	}
	outcome, err := y.store.Write(y.t.Context(), mvcc.Change{
		Key: "/reports/" + namespace + "/" + set.Target, From: y.written[target], To: &mvcc.State{Kind: 1, Head: fmt.Appendf(nil, "{%d}", day), Index: set.Indexer()},
	})
	if err != nil || !outcome.Written {
		y.t.Fatal(outcome, err)
	}
	y.written[target] = outcome.Revision
}

// ask returns the groups of an answer.
func (y *years) ask(spec *reportsv1.FindingQuerySpec) []reportsv1.FindingGroup {
	y.t.Helper()
	answerer := &answer.Answerer{Database: y.store, Driver: sqldb.SQLite, Kinds: []answer.Kind{{Number: 1, Name: "PolicyReport", Word: "reports"}}}
	got, err := answerer.Answer(y.t.Context(), &answer.Input{
		Spec: reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: *spec}, Scope: answer.Scope{Cluster: true}, Now: y.clock.Now(),
	})
	if err != nil {
		y.t.Fatal(err)
	}
	return got.Groups
}

// compare asks for each of the days that are kept.
func (y *years) compare(what, aggregate string, of func(day int, severity string) int) {
	y.t.Helper()
	got, want := map[string]int64{}, map[string]int64{}
	for _, group := range y.ask(&reportsv1.FindingQuerySpec{Aggregate: aggregate, Trend: &reportsv1.TrendQuery{Days: keptDays}}) {
		got[group.Key["day"]+" "+group.Key["severity"]] = group.Count
	}
	for day := len(y.open) - keptDays; day < len(y.open); day++ {
		for _, severity := range severities {
			if n := of(day, severity); n > 0 {
				want[dayName(day)+" "+severity] = int64(n)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		y.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (y *years) number(query string, args ...any) (n int64) {
	y.t.Helper()
	err := y.store.Query(y.t.Context(), func(tx *sqldb.Tx) error { return tx.QueryRow(y.t.Context(), query, args...).Scan(&n) })
	if err != nil {
		y.t.Fatal(err)
	}
	return n
}

// 400 days are kept, and no more, whatever comes and goes: what was open, new and fixed on each of them, when findings were
// seen first, and how long it took to fix them. Each is one question.
func TestHistoryOfFourHundredDays(t *testing.T) {
	t.Parallel()
	y := newYears(t, dbtest.Size(2, 20), dbtest.Size(12, 150))
	for day := range allDays {
		y.pass(day)
	}
	y.compare("open", "count", func(day int, severity string) int { return y.open[day][severity] })
	y.compare("new", "new", func(day int, severity string) int { return y.changed[dayName(day)+" "+severity][0] })
	y.compare("fixed", "fixed", func(day int, severity string) int { return y.changed[dayName(day)+" "+severity][1] })

	var lately, open, fixed int64
	var took int64 // days
	for _, lives := range y.lives {
		for _, l := range lives {
			switch {
			case l.fixed >= 0:
				fixed++
				took += int64(l.fixed - l.first)
			case l.first >= allDays-1-7:
				lately++
				open++
			default:
				open++
			}
		}
	}
	count := func(spec *reportsv1.FindingQuerySpec) (n int64) {
		for _, group := range y.ask(spec) {
			n += group.Count
		}
		return n
	}
	if n := count(&reportsv1.FindingQuerySpec{Aggregate: "count"}); n != open {
		t.Errorf("%d are open, must be %d", n, open)
	}
	if n := count(&reportsv1.FindingQuerySpec{Aggregate: "count", Since: &metav1.Duration{Duration: 7 * day}}); n != lately {
		t.Errorf("%d are new since last week, must be %d", n, lately)
	}
	mean := time.Duration(took*int64(day/time.Second)/fixed) * time.Second
	groups := y.ask(&reportsv1.FindingQuerySpec{Aggregate: "meanTimeToFix"})
	if len(groups) != 1 || groups[0].MeanTimeToFix == nil || groups[0].MeanTimeToFix.Duration != mean {
		t.Errorf("mean time to fix: %+v, must be %s of %d", groups, mean, fixed)
	}
	if n := y.number(`SELECT COUNT(DISTINCT day) FROM daily`); n > keptDays+1 {
		t.Errorf("%d days are kept", n)
	}
	cutoff := begin.AddDate(0, 0, allDays-1-keptDays).Unix()
	for _, query := range []string{
		`SELECT COUNT(*) FROM first_seen WHERE last < ?`, `SELECT COUNT(*) FROM history WHERE fixed_at < ?`, `SELECT COUNT(*) FROM run_parts WHERE at < ?`,
	} {
		if n := y.number(query, cutoff); n != 0 {
			t.Errorf("%d are kept for too long: %s", n, query)
		}
	}
	t.Logf("%d results in %d rows of days", y.number(`SELECT COUNT(*) FROM results`), y.number(`SELECT COUNT(*) FROM daily`))
}
