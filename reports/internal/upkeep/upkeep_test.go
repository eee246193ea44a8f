// SPDX-License-Identifier: Apache-2.0

package upkeep_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/apitesting"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	testingclock "k8s.io/utils/clock/testing"

	policyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
	"github.com/scanyard/scanyard/reports/internal/upkeep"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const day = 24 * time.Hour

var begin = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// house is a storage of PolicyReports and its Upkeep.
type house struct {
	t       *testing.T
	clock   *testingclock.FakeClock
	store   *mvcc.Store
	storage *sqlstorage.Storage
	upkeep  *upkeep.Upkeep
}

func newHouse(t *testing.T, config sqldb.Config, options mvcc.Options, maxAge time.Duration) *house {
	t.Helper()
	h := &house{t: t, clock: testingclock.NewFakeClock(begin)}
	options.Clock, options.CompactEvery, options.Unindex = h.clock, -1, rows.Drop
	var err error
	if h.store, err = mvcc.Open(t.Context(), config, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(schema.GroupVersion{Group: policyv1.SchemeGroupVersion.Group, Version: runtime.APIVersionInternal}, &policyv1.PolicyReport{})
	if err := policyv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	newReport := func() runtime.Object { return &policyv1.PolicyReport{} }
	h.storage, err = sqlstorage.New(sqlstorage.Config{
		Store: h.store, Codec: apitesting.TestCodec(serializer.NewCodecFactory(scheme), policyv1.SchemeGroupVersion), New: newReport,
		Kind: sqlstorage.Kind{Number: 1, Resource: "reports", Payload: "results", Index: func(obj runtime.Object) (mvcc.Indexer, error) {
			report := obj.(*policyv1.PolicyReport)
			return (&rows.Set{Namespace: report.Namespace, Rows: []rows.Row{{Policy: report.Name, Result: rows.Fail}}}).Indexer(), nil
		}},
		NewList: func() runtime.Object { return &policyv1.PolicyReportList{} }, GroupResource: schema.GroupResource{Group: "wgpolicyk8s.io", Resource: "policyreports"},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.upkeep = upkeep.New(upkeep.Config{
		Store: h.store, Clock: h.clock, DailyKeep: 10 * day, FirstSeenKeep: 20 * day,
		Aging: []upkeep.Kind{{Number: 1, MaxAge: maxAge, Storage: h.storage, New: newReport}},
	})
	return h
}

func (h *house) report(name string, finalizers ...string) *policyv1.PolicyReport {
	return &policyv1.PolicyReport{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team-a", Name: name, UID: types.UID("uid-" + name), Generation: 1, CreationTimestamp: metav1.Time{Time: h.clock.Now()}, Finalizers: finalizers,
	}}
}

func key(name string) string { return "/reports/team-a/" + name }

func (h *house) create(name string, finalizers ...string) {
	h.t.Helper()
	if err := h.storage.Create(h.t.Context(), key(name), h.report(name, finalizers...), nil, 0); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) get(name string) *policyv1.PolicyReport {
	h.t.Helper()
	found := &policyv1.PolicyReport{}
	if err := h.storage.Get(h.t.Context(), key(name), storage.GetOptions{IgnoreNotFound: true}, found); err != nil {
		h.t.Fatal(err)
	}
	return found
}

func (h *house) once() {
	h.t.Helper()
	if err := h.upkeep.Once(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// numbers returns the rows of a table.
func (h *house) numbers(query string) (found []string) {
	h.t.Helper()
	err := h.store.Query(h.t.Context(), func(tx *sqldb.Tx) error {
		got, err := tx.Query(h.t.Context(), query)
		if err != nil {
			return err
		}
		defer got.Close()
		for got.Next() {
			var number int64
			if err := got.Scan(&number); err != nil {
				return err
			}
			found = append(found, strconv.FormatInt(number, 10))
		}
		return got.Err()
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

func (h *house) expect(what, query string, want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.numbers(query)); diff != "" {
		h.t.Errorf("%s:\n%s", what, diff)
	}
}

// Objects are deleted at their age, with an event; one that finalizers hold is marked and goes when they do.
func TestMaxAge(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		h := newHouse(t, config, mvcc.Options{}, 3*day)
		h.create("old")
		h.create("held", "example.com/keep")
		h.clock.SetTime(begin.Add(2 * day))
		h.create("young")
		h.once()
		if h.get("old").UID == "" {
			t.Fatal("deleted before its time")
		}
		cursor := h.store.NewCursor(h.store.Revision())
		defer cursor.Close()
		h.clock.SetTime(begin.Add(4 * day))
		h.once()
		h.once() // changes nothing more
		events, _, err := cursor.Next(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for _, event := range events {
			seen = append(seen, fmt.Sprintf("%d %s", event.Type, event.Key))
		}
		if diff := cmp.Diff([]string{"3 /reports/team-a/old", "2 /reports/team-a/held"}, seen); diff != "" {
			t.Errorf("events:\n%s", diff)
		}
		if held := h.get("held"); held.DeletionTimestamp == nil || held.Generation != 2 || *held.DeletionGracePeriodSeconds != 0 {
			t.Errorf("held by a finalizer: %+v", held.ObjectMeta)
		}
		if h.get("young").UID == "" {
			t.Error("a young object is gone")
		}
		h.expect("rows", `SELECT COUNT(*) FROM results`, "2")
	})
}

// What outlives reports is dropped after its time, in as many steps as that takes, and by the compaction.
func TestForget(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		h := newHouse(t, config, mvcc.Options{}, 0)
		for i := range 16 {
			h.create(fmt.Sprintf("r%d", i))
			h.clock.SetTime(begin.Add(time.Duration(i+1) * day))
		}
		first := begin.Unix() / 86400
		days := fmt.Sprintf(`SELECT DISTINCT day - %d FROM daily ORDER BY 1`, first)
		h.once() // day 16: days 7 to 15 are kept, and 6, whose numbers hold until the next
		h.expect("days", days, "6", "7", "8", "9", "10", "11", "12", "13", "14", "15")
		h.expect("first seen", `SELECT COUNT(*) FROM first_seen`, "16")
		h.clock.SetTime(begin.Add(25 * day))
		if err := h.store.CompactOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.expect("the last day stays", days, "15")
		h.expect("first seen in the last 20 days", `SELECT COUNT(*) FROM first_seen`, "11")
		h.expect("the oldest of them", fmt.Sprintf(`SELECT MIN(last) - %d FROM first_seen`, begin.Add(5*day).Unix()), "0")
	})
}

// A namespace that is full can be cleaned, and says how full it is; others are not concerned.
func TestNamespaceBytes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		h := newHouse(t, config, mvcc.Options{NamespaceBytes: 1000}, 0)
		h.create("a")
		used := h.numbers(`SELECT SUM(size) FROM objects`)[0]
		large := h.report("b")
		large.Results = []policyv1.PolicyReportResult{{Policy: new(strings.Repeat("x", 1000))}}
		err := h.storage.Create(t.Context(), key("b"), large.DeepCopy(), nil, 0)
		want := `policyreports.wgpolicyk8s.io "b" is forbidden: exceeded storage of namespace team-a: used ` + used + `, limit 1000`
		if !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("create: %v, want %s", err, want)
		}
		grow := func(to *policyv1.PolicyReport) error {
			return h.storage.GuaranteedUpdate(t.Context(), key("a"), &policyv1.PolicyReport{}, false, nil, func(obj runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				obj.(*policyv1.PolicyReport).Results = to.Results
				return obj, nil, nil
			}, nil)
		}
		if err := grow(large); !apierrors.IsForbidden(err) {
			t.Errorf("update: %v", err)
		}
		if h.get("a").Results != nil || h.get("b").UID != "" {
			t.Error("what was refused was written")
		}
		other := large.DeepCopy()
		other.Namespace, other.Results[0].Policy = "team-b", new("x")
		if err := h.storage.Create(t.Context(), "/reports/team-b/b", other, nil, 0); err != nil {
			t.Errorf("another namespace: %v", err)
		}
		if err := h.store.Maintain(t.Context(), "fill", func(tx *sqldb.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE objects SET size = 5000 WHERE ns = 'team-a'`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := grow(large); err != nil {
			t.Errorf("smaller than before in a full namespace: %v", err)
		}
	})
}
