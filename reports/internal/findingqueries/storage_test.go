// SPDX-License-Identifier: Apache-2.0

package findingqueries

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	testingclock "k8s.io/utils/clock/testing"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/answer"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/rows"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// desks are both storages over a database with a report in each of two namespaces.
type desks struct {
	t                       *testing.T
	namespaced, clusterwide *Storage
	revision                int64
	watched                 *counter
}

// counter counts what an Observer is told.
type counter struct {
	mu       sync.Mutex
	plans    []string
	rejected int
}

func (c *counter) Answered(plan string, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans = append(c.plans, plan)
}

func (c *counter) QueryRejected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejected++
}

func newDesks(t *testing.T, config sqldb.Config) *desks {
	t.Helper()
	clock := testingclock.NewFakePassiveClock(now)
	store, err := mvcc.Open(t.Context(), config, mvcc.Options{Clock: testingclock.NewFakeClock(now), CompactEvery: -1, Unindex: rows.Drop})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	d := &desks{t: t, watched: &counter{}}
	for _, namespace := range []string{"team-a", "team-b"} {
		set := &rows.Set{Namespace: namespace, Rows: []rows.Row{
			{Source: "test", Policy: "CVE-1", Severity: rows.High, Result: rows.Fail}, {Source: "test", Policy: "in-" + namespace, Severity: rows.Low, Result: rows.Fail},
		}}
		state := &mvcc.State{Head: []byte("{}"), Kind: 1, Namespace: namespace, Name: "report", Index: set.Indexer()}
		outcome, err := store.Write(t.Context(), mvcc.Change{Key: "/reports/" + namespace + "/report", To: state})
		if err != nil {
			t.Fatal(err)
		}
		d.revision = outcome.Revision
	}
	answerer := &answer.Answerer{Database: store, Driver: config.Driver, Kinds: []answer.Kind{{Number: 1, Name: "PolicyReport", Word: "reports"}}}
	d.namespaced, d.clusterwide = New(Config{Answerer: answerer, Clock: clock, Observer: d.watched})
	return d
}

func in(ctx context.Context, namespace string) context.Context {
	return request.WithNamespace(request.WithUser(ctx, &user.DefaultInfo{Name: "ann"}), namespace)
}

// A tenant's question is answered from the namespace of the request, whatever it says.
func TestScope(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		d := newDesks(t, config)
		policies := func(status *reportsv1.FindingQueryStatus) (found []string) {
			for _, row := range status.Rows {
				found = append(found, row.Namespace+" "+row.Policy)
			}
			return found
		}
		ask := func(filter string) []string {
			obj, err := d.namespaced.Create(in(t.Context(), "team-a"), &reportsv1.FindingQuery{Spec: reportsv1.FindingQuerySpec{Filter: filter}}, nil, &metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			q := obj.(*reportsv1.FindingQuery)
			if q.Namespace != "team-a" || q.Status.AsOf != strconv.FormatInt(d.revision, 10) || q.Status.Plan != "results" {
				t.Errorf("namespace %q, as of %q, plan %q", q.Namespace, q.Status.AsOf, q.Status.Plan)
			}
			return policies(&q.Status)
		}
		if diff := cmp.Diff([]string{"team-a CVE-1", "team-a in-team-a"}, ask("cvss > 1 || severity >= 'low'")); diff != "" {
			t.Error(diff)
		}
		if found := ask("namespace == 'team-b'"); len(found) > 0 {
			t.Errorf("another namespace: %s", found)
		}
		obj, err := d.clusterwide.Create(in(t.Context(), ""), &reportsv1.ClusterFindingQuery{Spec: reportsv1.ClusterFindingQuerySpec{
			FindingQuerySpec: reportsv1.FindingQuerySpec{Filter: "policy.startsWith('in-')"}, Namespaces: []string{"team-b"},
		}}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"team-b in-team-b"}, policies(&obj.(*reportsv1.ClusterFindingQuery).Status)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"results", "results", "results"}, d.watched.plans); diff != "" {
			t.Error(diff)
		}
	})
}

// What admission refuses, and what cannot be read, is not asked of the database; nor is a dry run.
func TestNotAsked(t *testing.T) {
	d := newDesks(t, dbtest.New(t, sqldb.SQLite))
	refusal := errors.New("refused")
	refuse := func(context.Context, apiruntime.Object) error { return refusal }
	if _, err := d.namespaced.Create(in(t.Context(), "team-a"), &reportsv1.FindingQuery{}, refuse, nil); !errors.Is(err, refusal) {
		t.Errorf("admission: %v", err)
	}
	dry := &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	obj, err := d.namespaced.Create(in(t.Context(), "team-a"), &reportsv1.FindingQuery{}, nil, dry)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(reportsv1.FindingQueryStatus{}, obj.(*reportsv1.FindingQuery).Status); diff != "" {
		t.Errorf("dry run:\n%s", diff)
	}
	for _, options := range []*metav1.CreateOptions{nil, dry} {
		_, err = d.namespaced.Create(in(t.Context(), "team-a"), &reportsv1.FindingQuery{Spec: reportsv1.FindingQuerySpec{Filter: "severity >= "}}, nil, options)
		status := apierrors.APIStatus(nil)
		if !errors.As(err, &status) || status.Status().Code != http.StatusUnprocessableEntity || len(status.Status().Details.Causes) != 1 {
			t.Fatalf("nonsense: %v", err)
		}
		if cause := status.Status().Details.Causes[0]; cause.Field != "spec.filter" || !strings.Contains(cause.Message, "position 13") {
			t.Errorf("nonsense: %+v", cause)
		}
	}
	if _, err := d.namespaced.Create(t.Context(), &reportsv1.FindingQuery{}, nil, nil); !apierrors.IsBadRequest(err) {
		t.Errorf("without a namespace: %v", err)
	}
	if _, err := d.namespaced.Create(t.Context(), &reportsv1.ClusterFindingQuery{}, nil, nil); !apierrors.IsBadRequest(err) {
		t.Errorf("another kind: %v", err)
	}
	if len(d.watched.plans) > 0 {
		t.Errorf("asked: %s", d.watched.plans)
	}
}

// slow answers when it is told to, with an error.
type slow struct {
	begun chan struct{}
	end   chan error
}

func (s *slow) Answer(context.Context, *answer.Input) (*reportsv1.FindingQueryStatus, error) {
	s.begun <- struct{}{}
	return &reportsv1.FindingQueryStatus{Plan: "counts"}, <-s.end
}

// Four queries run at once; of each user one waits, and the next is told to come back.
func TestCrowd(t *testing.T) {
	answerer, watched := &slow{begun: make(chan struct{}), end: make(chan error)}, &counter{}
	namespaced, clusterwide := New(Config{Answerer: answerer, Observer: watched})
	answers := make(chan error)
	ask := func(ctx context.Context, name string, storage *Storage, obj apiruntime.Object) {
		go func() {
			_, err := storage.Create(request.WithUser(ctx, &user.DefaultInfo{Name: name}), obj, nil, nil)
			answers <- err
		}()
	}
	question := int32(0)
	another := func() reportsv1.FindingQuerySpec { // who asks the same waits for the same answer
		question++
		return reportsv1.FindingQuerySpec{Limit: question}
	}
	for range 4 {
		ask(in(t.Context(), "team-a"), "ann", namespaced, &reportsv1.FindingQuery{Spec: another()})
		<-answerer.begun
	}
	waits := func(n int) {
		for {
			namespaced.desk.gate.mu.Lock()
			waiting := len(namespaced.desk.gate.waiting)
			namespaced.desk.gate.mu.Unlock()
			if waiting == n {
				return
			}
			runtime.Gosched()
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	ask(t.Context(), "ann", clusterwide, &reportsv1.ClusterFindingQuery{Spec: reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: another()}})
	waits(1)
	ask(gone, "ben", clusterwide, &reportsv1.ClusterFindingQuery{Spec: reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: another()}})
	waits(2)
	ask(in(t.Context(), "team-a"), "ann", namespaced, &reportsv1.FindingQuery{Spec: another()})
	err := <-answers
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || seconds != 1 {
		t.Errorf("two waiting for one user: %v", err)
	}
	cancel()
	if err := <-answers; !apierrors.IsTimeout(err) && !strings.Contains(fmt.Sprint(err), "did not complete") {
		t.Errorf("who has gone: %v", err)
	}
	waits(1)
	answerer.end <- nil
	<-answerer.begun // it was ann's turn
	for range 3 {
		answerer.end <- nil
	}
	answerer.end <- &answer.TimeoutError{After: 10 * time.Second, Unindexed: []string{`category == "x"`}}
	late := 0
	for range 5 {
		err := <-answers
		if err == nil {
			continue
		}
		late++
		if status := apierrors.APIStatus(nil); !errors.As(err, &status) || status.Status().Code != http.StatusGatewayTimeout || !strings.Contains(err.Error(), `no index serves category == "x"`) {
			t.Errorf("late: %v", err)
		}
	}
	if late != 1 || watched.rejected != 1 || namespaced.desk.gate.free != 4 {
		t.Errorf("%d late, %d rejected, %d free", late, watched.rejected, namespaced.desk.gate.free)
	}
}
