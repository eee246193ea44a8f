// SPDX-License-Identifier: Apache-2.0

package marks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/scanyard/scanyard/apis/finding"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/exception/exceptiontest"
	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/marks"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const namespace = "team"

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// known is a Source of what a test says.
type known struct {
	mu      sync.Mutex
	list    []exception.Exception
	unknown bool
	labels  map[string]string
	changed chan struct{}
}

func (k *known) Exceptions() ([]exception.Exception, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list, !k.unknown
}

func (k *known) Labels(string) map[string]string { return k.labels }

func (k *known) Changed() <-chan struct{} { return k.changed }

func (k *known) tell() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// house is a database of reports and what marks them.
type house struct {
	testing.TB

	store   *mvcc.Store
	reports *sqlstorage.Storage
	source  *known
	clock   *testingclock.FakeClock
	marker  *marks.Marker
}

func newHouse(t testing.TB, config sqldb.Config) *house {
	t.Helper()
	h := &house{TB: t, source: &known{changed: make(chan struct{}, 1)}, clock: testingclock.NewFakeClock(now)}
	var err error
	if h.store, err = mvcc.Open(t.Context(), config, mvcc.Options{Clock: h.clock, CompactEvery: -1, Unindex: kinds.Unindex}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	h.reports = h.storageOf(h.store)
	h.marker = h.newMarker()
	return h
}

// storageOf is the storage of reports of a replica.
func (h *house) storageOf(store *mvcc.Store) *sqlstorage.Storage {
	h.Helper()
	reports, err := sqlstorage.New(sqlstorage.Config{
		Store: store, Kind: kinds.Reports.Kind, Codec: kinds.Reports.Codec, New: kinds.Reports.New,
		GroupResource: schema.GroupResource{Group: "openreports.io", Resource: "reports"},
	})
	h.must(err)
	return reports
}

func (h *house) newMarker() *marks.Marker {
	return marks.New(marks.Config{Store: h.store, Reports: h.reports, Source: h.source, Clock: h.clock})
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// once marks what is due by the exceptions that there are now.
func (h *house) once() {
	h.Helper()
	h.source.tell()
	h.must(h.marker.Once(h.Context()))
}

// result is what the hook makes of a finding by the exceptions that it knows.
func (h *house) result(text string, held []exception.Exception) wgpolicyv1.PolicyReportResult {
	h.Helper()
	value, err := finding.DecodeValue([]byte(text), 0)
	h.must(err)
	mapping := policyreport.Mapping{Informational: "warn", Source: "scanyard/trivy"}
	made, _ := mapping.Result(value.(finding.Object))
	if mark, ok := exception.Compile(held, now).For(exception.Scan{Namespace: namespace, Name: "shop", ScanType: "trivy"}).Match(value.(finding.Object)); ok {
		made.Except(&mark)
	}
	encoded, err := json.Marshal(made)
	h.must(err)
	var result wgpolicyv1.PolicyReportResult
	h.must(json.Unmarshal(encoded, &result))
	return result
}

func key(name string) string { return "/reports/" + namespace + "/" + name }

// put writes a report of the hook with the results of findings.
func (h *house) put(name string, held []exception.Exception, change func(*kinds.Report), findings ...string) {
	h.Helper()
	report := &kinds.Report{}
	report.ObjectMeta = metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(now),
		Labels: map[string]string{policyreport.LabelManagedBy: "scanyard"},
	}
	report.Scope = scopeOf("shop")
	for _, text := range findings {
		report.Results = append(report.Results, h.result(text, held))
	}
	if change != nil {
		change(report)
	}
	h.must(h.reports.Create(h.Context(), key(name), report, nil, 0))
}

func (h *house) get(name string) *kinds.Report {
	h.Helper()
	report := &kinds.Report{}
	h.must(h.reports.Get(h.Context(), key(name), storage.GetOptions{}, report))
	return report
}

// state is what a report says of its first result.
func (h *house) state(name string) string {
	h.Helper()
	r := h.get(name).Results[0]
	return string(r.Result) + " " + r.Properties["exception"]
}

func (h *house) expect(when, name, want string) {
	h.Helper()
	if got := h.state(name); got != want {
		h.Errorf("%s: %q, want %q", when, got, want)
	}
}

// numbers are the rows of a question.
func (h *house) numbers(question string) (found []string) {
	h.Helper()
	h.must(h.store.Query(h.Context(), func(tx *sqldb.Tx) error {
		got, err := tx.Query(h.Context(), question)
		if err != nil {
			return err
		}
		defer func() { _ = got.Close() }()
		for got.Next() {
			var a, b, n int64
			if err := got.Scan(&a, &b, &n); err != nil {
				return err
			}
			found = append(found, fmt.Sprint(a, b, n))
		}
		return got.Err()
	}))
	return found
}

const (
	rowsOf   = `SELECT result, suppressed, COUNT(*) FROM results GROUP BY result, suppressed ORDER BY result, suppressed`
	countsOf = `SELECT result, suppressed, SUM(n) FROM counts WHERE ns = 0 GROUP BY result, suppressed ORDER BY result, suppressed`
	daysOf   = `SELECT result, suppressed, SUM(n) FROM daily WHERE n > 0 GROUP BY result, suppressed ORDER BY result, suppressed`
)

func (h *house) counted(when string, want ...string) {
	h.Helper()
	for what, question := range map[string]string{"rows": rowsOf, "counts": countsOf, "days": daysOf} {
		if diff := cmp.Diff(want, h.numbers(question)); diff != "" {
			h.Errorf("%s, %s (-want +got):\n%s", when, what, diff)
		}
	}
}

const other = `{"id":"2","name":"curl","category":"Vulnerability","severity":"LOW"}`

func excepting(name string, change func(*exception.Exception)) exception.Exception {
	e := exception.Exception{Namespace: namespace, Name: name}
	e.Spec.Status, e.Spec.Reason = settingsv1alpha2.ExceptionMitigated, "It is dealt with elsewhere."
	e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Names: []string{"lodash*"}}}
	if change != nil {
		change(&e)
	}
	return e
}

// A stored report follows the exceptions, with its rows, counts and days, and who watches sees each change.
func TestReportsFollowExceptions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		h := newHouse(t, config)
		h.put("a", nil, nil, exceptiontest.Finding, other)
		h.put("b", nil, nil, other)
		open, suppressed := []string{"2 0 3"}, []string{"2 0 2", "5 1 1"}
		h.counted("as written", open...)
		seen, err := h.reports.Watch(t.Context(), "/reports/", storage.ListOptions{ResourceVersion: h.get("b").ResourceVersion, Recursive: true, Predicate: storage.Everything})
		h.must(err)
		defer seen.Stop()

		h.source.list = []exception.Exception{excepting("one", nil)}
		h.source.unknown = true
		h.once()
		h.expect("as long as exceptions are not known", "a", "fail ")
		h.source.unknown = false
		h.once()
		h.expect("made", "a", "skip FindingException/one")
		h.counted("made", suppressed...)
		if event := <-seen.ResultChan(); event.Type != watch.Modified || event.Object.(*kinds.Report).Name != "a" {
			t.Errorf("a watch sees %s %v", event.Type, event.Object)
		}
		if s := h.get("a").Summary; s == nil || *s.Skip != 1 || *s.Fail != 1 {
			t.Errorf("summary %+v", s)
		}
		before := h.get("a").ResourceVersion
		h.once()
		if after := h.get("a").ResourceVersion; after != before {
			t.Error("a report that is marked already is written again")
		}

		h.source.list[0].Spec.Status = settingsv1alpha2.ExceptionUnderInvestigation
		h.once()
		h.expect("changed", "a", "fail FindingException/one")
		h.counted("changed", open...)

		end := metav1.NewTime(now.Add(time.Hour))
		h.source.list = []exception.Exception{excepting("two", func(e *exception.Exception) { e.Spec.ExpiresAt = &end })}
		h.once()
		h.expect("another one", "a", "skip FindingException/two")
		h.put("c", nil, nil, exceptiontest.Finding)
		h.once()
		h.expect("written since", "c", "skip FindingException/two")
		h.clock.SetTime(end.Time)
		h.must(h.marker.Once(h.Context())) // nobody tells of an end but the clock
		h.expect("ended", "a", "fail ")
		h.expect("ended", "c", "fail ")
		h.counted("ended", "2 0 4")
	})
}

// What the hook has marked by an exception that has ended meanwhile is open, also for a server that has just begun.
func TestMarksThatAreOver(t *testing.T) {
	h := newHouse(t, dbtest.New(t, sqldb.SQLite))
	one := []exception.Exception{excepting("one", nil)}
	info := `{"id":"3","name":"lodash banner","severity":"INFORMATIONAL"}`
	h.put("a", one, nil, exceptiontest.Finding)
	h.put("info", one, nil, info)
	h.put("old", one, func(r *kinds.Report) { delete(r.Results[0].Properties, "exceptionResult") }, info)
	h.put("ignoring", one, func(r *kinds.Report) { r.Annotations = map[string]string{"scanyard.io/exceptions": "ignore"} }, exceptiontest.Finding)
	h.once()
	h.expect("deleted", "a", "fail ")
	h.expect("deleted", "info", "warn ")
	h.expect("of an older hook", "old", "warn ")
	h.expect("of a hook that takes no notice", "ignoring", "skip FindingException/one")
}

// Reports of others are nobody's findings.
func TestReportsOfOthers(t *testing.T) {
	h := newHouse(t, dbtest.New(t, sqldb.SQLite))
	h.source.list = []exception.Exception{excepting("one", nil)}
	for name, change := range map[string]func(*kinds.Report){
		"manager": func(r *kinds.Report) { r.Labels[policyreport.LabelManagedBy] = "kyverno" },
		"scope":   func(r *kinds.Report) { r.Scope = nil },
		"source":  func(r *kinds.Report) { r.Results[0].Source = "kyverno" },
	} {
		h.put(name, nil, change, exceptiontest.Finding)
		h.once()
		h.expect("after a look", name, "fail ")
	}
}

// TestCases runs the cases of the specification: of a result that the hook has marked, and of one that it has not.
func TestCases(t *testing.T) {
	exceptiontest.Each(t, "stored PolicyReports", namespace, now, func(t *testing.T, c *exceptiontest.Case) {
		h := newHouse(t, dbtest.New(t, sqldb.SQLite))
		h.source.list = c.List
		want := "fail " + c.Want
		if c.Suppressed {
			want = "skip " + c.Want
		}
		h.put("marked", c.List, nil, c.Finding)
		h.put("unmarked", nil, nil, c.Finding)
		h.once()
		h.expect("of a hook that knew", "marked", want)
		if slices.ContainsFunc(c.List, func(e exception.Exception) bool {
			return e.Spec.Match.AnyOf[0].Expression != "" && c.Name == "Expression"
		}) {
			want = "fail " // a result does not hold what an expression may ask for: the next Scan marks it
		}
		h.expect("of a hook that did not", "unmarked", want)
		h.source.list = nil
		h.once()
		h.expect("without exceptions", "marked", "fail ")
	})
}

func scopeOf(scan string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Scan", Name: scan}
}
