// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/scan"
	"github.com/scanyard/scanyard/operator/internal/schedule"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
	"github.com/scanyard/scanyard/operator/internal/testworld"
	"github.com/scanyard/scanyard/settings"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) { testworld.Main(m, func(c *testcluster.Cluster) { cluster = c }) }

// world is a namespace of the cluster in which tests play all but the schedules.
type world struct {
	*testworld.World

	clock  *shiftedClock
	faults *faults
	calls  *callCounter
}

// newWorld makes a namespace with a Reconciler that looks after it.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := newQuietWorld(t)
	w.startOperator()
	return w
}

// newQuietWorld makes a namespace without a Reconciler.
func newQuietWorld(t *testing.T) *world {
	t.Helper()
	return &world{World: testworld.New(t, cluster, nil), clock: &shiftedClock{}, faults: &faults{}, calls: &callCounter{counts: map[string]int{}}}
}

// startOperator starts a manager with a Reconciler. It returns what ends it: at once,
// with the requests that are under way.
func (w *world) startOperator() (stop func()) {
	w.Helper()
	restConfig := rest.CopyConfig(cluster.Config)
	restConfig.Wrap(w.calls.wrap)
	kinds := scan.CacheOptions()
	maps.Copy(kinds, schedule.CacheOptions())
	mgr := w.NewManager(testworld.Manager{Config: restConfig, Kinds: kinds, Namespaces: []string{w.Namespace}, AtOnce: true})
	r := schedule.NewReconciler(schedule.Options{
		Client: w.faults.in(mgr.GetClient()), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("scanyard"),
		Tenancy: tenancy.NewSource(cluster.Client, settings.Defaults{}, []string{w.Namespace}),
		Clock:   w.clock, Zone: time.UTC, Metrics: schedule.NewMetrics(prometheus.NewRegistry()),
	})
	return w.Run(mgr, func(ctx context.Context) error { return r.SetupWithManager(ctx, mgr, 16) })
}

// shiftedClock is the real clock, some time ahead.
type shiftedClock struct{ ahead atomic.Int64 }

var _ clock.PassiveClock = &shiftedClock{}

func (c *shiftedClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *shiftedClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *shiftedClock) shift(d time.Duration) { c.ahead.Add(int64(d)) }

// callCounter counts requests to the API server.
type callCounter struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *callCounter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
		verb, what := req.Method, parts[len(parts)-1]
		for i, p := range parts {
			if p == "namespaces" && i+2 < len(parts) {
				what = parts[i+2]
				if last := parts[len(parts)-1]; last == "status" {
					what += "/status"
				}
			}
		}
		if req.URL.Query().Get("watch") != "" {
			verb = "WATCH"
		}
		c.mu.Lock()
		c.counts[verb+" "+what]++
		c.mu.Unlock()
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// faults let calls of the Reconciler fail.
type faults struct {
	mu sync.Mutex
	// before and after are called for every call with its number from 1; an error that
	// they return is that of the call, without or with its effect.
	before, after func(call string, n int) error
	n             int
	reads         atomic.Int64
}

func (f *faults) set(before, after func(call string, n int) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after, f.n = before, after, 0
}

func (f *faults) do(call string, act func() error) error {
	f.mu.Lock()
	f.n++
	n, before, after := f.n, f.before, f.after
	f.mu.Unlock()
	if before != nil {
		if err := before(call, n); err != nil {
			return err
		}
	}
	err := act()
	if err == nil && after != nil {
		err = after(call, n)
	}
	return err
}

// in returns a client whose writes may fail, and which counts the passes.
func (f *faults) in(c client.Client) client.Client {
	return &countingClient{f, &testworld.Intercepted{Client: c, Write: func(verb string, o client.Object, write func() error) error {
		if verb == testworld.PatchStatus {
			verb = "status"
		}
		return f.do(verb+" "+o.GetName(), write)
	}}}
}

type countingClient struct {
	faults *faults
	client.Client
}

func (c *countingClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*executionv1.ScheduledScan); ok {
		c.faults.reads.Add(1) // one for each pass
	}
	return c.Client.Get(ctx, key, o, opts...)
}

func (w *world) scanType() *executionv1.ScanType {
	return &executionv1.ScanType{ObjectMeta: metav1.ObjectMeta{Name: "nmap"}, Spec: *testobjects.ScanTypeSpec()}
}

type option = func(*executionv1.ScheduledScan)

func every(d string) option { return func(s *executionv1.ScheduledScan) { s.Spec.Interval = d } }

func cronOf(c string) option {
	return func(s *executionv1.ScheduledScan) { s.Spec.Interval, s.Spec.Schedule = "", c }
}

func policy(p executionv1.ConcurrencyPolicy) option {
	return func(s *executionv1.ScheduledScan) { s.Spec.ConcurrencyPolicy = p }
}

func retrigger(s *executionv1.ScheduledScan) { s.Spec.RetriggerOnScanTypeChange = true }

func history(success, failed int32) option {
	return func(s *executionv1.ScheduledScan) {
		s.Spec.SuccessfulJobsHistoryLimit, s.Spec.FailedJobsHistoryLimit = &success, &failed
	}
}

// scheduled returns a ScheduledScan of every twelve hours.
func (w *world) scheduled(name string, options ...option) *executionv1.ScheduledScan {
	s := &executionv1.ScheduledScan{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: executionv1.ScheduledScanSpec{
			Interval: "12h", ScanSpec: &executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{}},
		},
	}
	for _, o := range options {
		o(s)
	}
	return s
}

func (w *world) get(name string) *executionv1.ScheduledScan {
	w.Helper()
	s := &executionv1.ScheduledScan{}
	w.Expect(w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, s)).To(Succeed())
	return s
}

// scans returns the Scans of the namespace.
func (w *world) scans() []executionv1.Scan {
	w.Helper()
	var list executionv1.ScanList
	w.Expect(w.Client.List(w.Context(), &list, client.InNamespace(w.Namespace))).To(Succeed())
	return list.Items
}

// names returns the names of the Scans of the namespace.
func (w *world) names() []string {
	w.Helper()
	var all []string
	for _, s := range w.scans() {
		all = append(all, s.Name)
	}
	return all
}

// atNext sets the clock to the time of the next run.
func (w *world) atNext(name string) {
	w.Helper()
	w.settled()
	w.clock.shift(w.get(name).Status.NextScheduleTime.Sub(w.clock.Now()) + time.Second)
	w.touch(name)
}

// running waits for that many Scans that have not ended, and returns them.
func (w *world) running(n int) []executionv1.Scan {
	w.Helper()
	var found []executionv1.Scan
	w.Eventually(func() int {
		found = nil
		for _, s := range w.scans() {
			if !s.Settled() {
				found = append(found, s)
			}
		}
		return len(found)
	}).Should(Equal(n))
	return found
}

// ready polls the reason of the condition.
func (w *world) ready(name string) func() string {
	return func() string {
		for _, c := range w.get(name).Status.Conditions {
			if c.Type == executionv1.ConditionReady {
				return c.Reason
			}
		}
		return ""
	}
}

func (w *world) message(name string) string {
	for _, c := range w.get(name).Status.Conditions {
		if c.Type == executionv1.ConditionReady {
			return c.Message
		}
	}
	return ""
}

// recorded waits until the last run is recorded.
func (w *world) recorded(name string) *executionv1.ScheduledScan {
	w.Helper()
	w.Eventually(func() bool {
		s := w.get(name)
		return s.Status.LastScheduleTime != nil && s.Status.NextScheduleTime != nil && s.Status.ScanTypeHash != ""
	}).Should(BeTrue())
	return w.get(name)
}

// finish plays the life of a Scan.
func (w *world) finish(s *executionv1.Scan, state executionv1.ScanState, findings int64) {
	w.Helper()
	patch := fmt.Sprintf(`{"status":{"state":%q,"finishedAt":%q,"findings":{"count":%d,"severities":{"high":%d,"low":0}}}}`,
		state, time.Now().UTC().Format(time.RFC3339), findings, findings)
	w.Expect(w.Client.Status().Patch(w.Context(), s, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// trigger sets the time back as clients do.
func (w *world) trigger(name string, back time.Duration) {
	w.Helper()
	patch := fmt.Sprintf(`{"status":{"lastScheduleTime":%q}}`, w.clock.Now().Add(-back).UTC().Format(time.RFC3339))
	w.Expect(w.Client.Status().Patch(w.Context(), w.get(name), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// touch brings a ScheduledScan to the Reconciler once more.
func (w *world) touch(name string) {
	w.Helper()
	w.Touch(w.get(name))
}

func (w *world) patch(name, patch string) {
	w.Helper()
	w.Expect(w.Client.Patch(w.Context(), w.get(name), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// events returns reason and note of the Events on a ScheduledScan.
func (w *world) events(name string) string {
	w.Helper()
	var notes []string
	for _, e := range w.Events("ScheduledScan", name) {
		notes = append(notes, e.Reason+": "+e.Note)
	}
	return strings.Join(notes, "\n")
}

// settled waits until no pass has come for a moment.
func (w *world) settled() {
	w.Helper()
	last, since := int64(-1), time.Now()
	w.Eventually(func() bool {
		if n := w.faults.reads.Load(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	}).Should(BeTrue())
}
