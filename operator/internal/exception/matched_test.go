// SPDX-License-Identifier: Apache-2.0

package exception_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/exception"
)

// running runs the controllers of both kinds until the test ends.
func running(t *testing.T) {
	t.Helper()
	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme: cluster.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = exception.NewReconciler(exception.Options{
		Client: mgr.GetClient(), Events: events.NewFakeRecorder(1000), Clock: clock.RealClock{},
		Target: func(s *executionv1.Scan) string { return s.Labels[executionv1.LabelTarget] },
	}).SetupWithManager(ctx, mgr)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestMatched counts the findings of the latest runs while Scans end and go.
func TestMatched(t *testing.T) {
	running(t)
	ctx, c := t.Context(), cluster.Client
	create := func(o client.Object) {
		t.Helper()
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "matched-"}}
	create(ns)
	spec := settingsv1alpha2.ExceptionSpec{Status: settingsv1alpha2.ExceptionMitigated, Reason: "dealt with in another way"}
	spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Names: []string{"a*"}}}
	own := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: ns.Name}}
	// The name is the namespace's own: Scans of an earlier run of this test are still there.
	all := &settingsv1alpha2.ClusterFindingException{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}
	own.Spec.ExceptionSpec, all.Spec.ExceptionSpec = spec, spec
	create(own)
	create(all)
	t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(ctx), all); err != nil {
			t.Error(err)
		}
	})
	start := time.Now().UTC().Truncate(time.Second)
	ends := 0
	done := func(name, target string, counts ...executionv1.ExceptionCount) *executionv1.Scan {
		t.Helper()
		s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name, Labels: map[string]string{executionv1.LabelTarget: target}}}
		s.Spec.ScanType, s.Spec.Parameters = "nmap", []string{"localhost"}
		create(s)
		ends++
		at := metav1.NewTime(start.Add(time.Duration(ends) * time.Second))
		s.Status.State, s.Status.FinishedAt = executionv1.ScanStateDone, &at
		s.Status.Findings = executionv1.FindingStats{Excepted: new(int64(9)), Exceptions: counts}
		if err := c.Status().Update(ctx, s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	mine := func(n int64) executionv1.ExceptionCount {
		return executionv1.ExceptionCount{Name: ns.Name, Kind: "FindingException", Count: n}
	}
	everybodys := func(n int64) executionv1.ExceptionCount {
		return executionv1.ExceptionCount{Name: ns.Name, Kind: "ClusterFindingException", Count: n}
	}
	want := func(when string, namespaced, clusterwide int64, last int) {
		t.Helper()
		deadline, tick := time.After(time.Minute), time.NewTicker(20*time.Millisecond)
		defer tick.Stop()
		for {
			for _, o := range []client.Object{own, all} {
				if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
					t.Fatal(err)
				}
			}
			a, b := own.Status, all.Status
			if a.Matched != nil && b.Matched != nil && *a.Matched == namespaced && *b.Matched == clusterwide &&
				(last == 0) == (a.LastMatched == nil) && (last == 0 || a.LastMatched.Time.Equal(start.Add(time.Duration(last)*time.Second))) {
				return
			}
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("%s: %+v and %+v, want %d and %d", when, a, b, namespaced, clusterwide)
			}
		}
	}
	want("before any Scan", 0, 0, 0)
	first := done("first", "shop", mine(3), everybodys(1))
	want("one Scan", 3, 1, 1)
	done("other", "api", mine(4))
	want("of another target", 7, 1, 2)
	// The API server counts creation in whole seconds, and the later of two runs counts.
	older := first.CreationTimestamp
	for tick := time.NewTicker(50 * time.Millisecond); !time.Now().After(older.Add(time.Second)); {
		<-tick.C
	}
	second := done("second", "shop", everybodys(2))
	want("a later run of the target", 4, 2, 2)
	if err := c.Delete(ctx, second); err != nil {
		t.Fatal(err)
	}
	want("without the later run", 7, 1, 2)
}
