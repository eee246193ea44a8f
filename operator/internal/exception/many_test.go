// SPDX-License-Identifier: Apache-2.0

package exception_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	findings "github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/operator/internal/exception"
)

// manyExceptions are five times what a namespace may have, as the fault list has it.
const manyExceptions = 5_000

// BenchmarkManyExceptions takes 5,000 exceptions of a real API server: to make them, to give each its status, to read them again as
// after a restart, and to compile them as for a Scan. It is run once: -benchtime 1x.
func BenchmarkManyExceptions(b *testing.B) {
	ctx := b.Context()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "many-"}}
	if err := cluster.Client.Create(ctx, ns); err != nil {
		b.Fatal(err)
	}
	measure(b, "made", func() { makeMany(ctx, b, ns.Name) })
	settled := func(c client.Client) bool {
		var all settingsv1alpha2.FindingExceptionList
		if err := c.List(ctx, &all, client.InNamespace(ns.Name)); err != nil {
			b.Fatal(err)
		}
		n := 0
		for i := range all.Items {
			if len(all.Items[i].Status.Conditions) > 0 {
				n++
			}
		}
		return n == manyExceptions
	}
	for _, what := range []string{"first-status", "restart"} {
		measure(b, what, func() {
			mgr, stop := started(b)
			defer stop()
			for tick := time.NewTicker(time.Second); !settled(mgr.GetClient()); { // a look copies all of them
				<-tick.C
			}
			var heap runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&heap)
			b.ReportMetric(float64(heap.HeapAlloc)/(1<<20), what+"-heap-MiB")
		})
	}
	var list []findings.Exception
	measure(b, "listed", func() {
		all, next := settingsv1alpha2.FindingExceptionList{}, ""
		for {
			if err := cluster.Client.List(ctx, &all, client.InNamespace(ns.Name), client.Limit(500), client.Continue(next)); err != nil {
				b.Fatal(err)
			}
			for i := range all.Items {
				list = append(list, findings.Of(&all.Items[i]))
			}
			if next = all.Continue; next == "" {
				return
			}
		}
	})
	measure(b, "handed-over", func() {
		text, err := findings.HandOver(list, findings.Scan{Namespace: ns.Name, Name: "shop"}, time.Now())
		if err != nil || len(list) != manyExceptions {
			b.Fatal(len(list), err)
		}
		b.ReportMetric(float64(len(text))/(1<<20), "handover-MiB")
	})
}

// measure reports the seconds of the clock and of the process that something takes.
func measure(b *testing.B, what string, do func()) {
	b.Helper()
	begun, before := time.Now(), cpu(b)
	do()
	b.ReportMetric(time.Since(begun).Seconds(), what+"-s")
	b.ReportMetric((cpu(b) - before).Seconds(), what+"-CPU-s")
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func makeMany(ctx context.Context, b *testing.B, namespace string) {
	b.Helper()
	names := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range names {
				e := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("e-%04d", i)}}
				e.Spec.Status, e.Spec.Reason = settingsv1alpha2.ExceptionMitigated, fmt.Sprintf("dealt with in another way, case %d of many", i)
				e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{References: []string{fmt.Sprintf("CVE-2026-%04d", i)}}, {Names: []string{fmt.Sprintf("name-%d-*", i)}}}
				if err := cluster.Client.Create(ctx, e); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range manyExceptions {
		names <- i
	}
	close(names)
	workers.Wait()
}

// started is an operator with the controllers of exceptions.
func started(b *testing.B) (mgr ctrl.Manager, stop func()) {
	b.Helper()
	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme: cluster.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{ByObject: exception.CacheOptions()},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	err = exception.NewReconciler(exception.Options{
		Client: mgr.GetClient(), Events: events.NewFakeRecorder(2 * manyExceptions), Clock: clock.RealClock{},
		Target: func(s *executionv1.Scan) string { return s.Labels[executionv1.LabelTarget] },
	}).SetupWithManager(ctx, mgr)
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		b.Fatal("the cache is not filled")
	}
	return mgr, func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
	}
}
