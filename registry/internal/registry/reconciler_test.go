// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/tenancy"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) {
		cluster = c
		if err := c.InstallRegistryCRDs(context.Background()); err != nil {
			panic(err)
		}
	}))
}

// world is a namespace with a Reconciler that a test calls.
type world struct {
	*Reconciler

	t         *testing.T
	namespace string
	clock     *clocktesting.FakePassiveClock
	events    *events.FakeRecorder
	limits    tenancy.Limits
}

func newWorld(t *testing.T) *world {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "registry-"}}
	if err := cluster.Client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, namespace: namespace.Name, clock: clocktesting.NewFakePassiveClock(created), events: events.NewFakeRecorder(10)}
	w.limits = tenancy.Limits{Registries: bounds().Registries}
	w.Reconciler = NewReconciler(Options{
		Client: cluster.Client, Events: w.events, Clock: w.clock, Bounds: bounds(),
		Limits: func(context.Context, string) (tenancy.Limits, error) { return w.limits, nil }, Away: func() (string, string) { return "", "" },
	})
	return w
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	o.SetNamespace(w.namespace)
	if err := cluster.Client.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	if r, isRegistry := o.(*registryv1alpha1.Registry); isRegistry {
		w.clock.SetTime(r.CreationTimestamp.Time)
	}
}

func (w *world) pass(name string) (reconcile.Result, error) {
	w.t.Helper()
	return w.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: w.namespace, Name: name}})
}

func (w *world) mustPass(name string) reconcile.Result {
	w.t.Helper()
	result, err := w.pass(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *world) registry(name string) *registryv1alpha1.Registry {
	w.t.Helper()
	r := &registryv1alpha1.Registry{}
	if err := cluster.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, r); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) discoveries() []registryv1alpha1.DiscoveryJob {
	w.t.Helper()
	list := &registryv1alpha1.DiscoveryJobList{}
	if err := cluster.Client.List(w.t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// end ends a job as the controller of jobs does.
func (w *world) end(job *registryv1alpha1.DiscoveryJob) {
	w.t.Helper()
	at := metav1.NewTime(w.clock.Now())
	job.Status.CompletionTime = &at
	job.Status.Conditions = []metav1.Condition{{Type: registryv1alpha1.ConditionCompleted, Status: metav1.ConditionTrue, Reason: "Succeeded", LastTransitionTime: at}}
	if err := cluster.Client.Status().Update(w.t.Context(), job); err != nil {
		w.t.Fatal(err)
	}
}

func hourlyRegistry() *registryv1alpha1.Registry {
	return &registryv1alpha1.Registry{
		ObjectMeta: metav1.ObjectMeta{Name: "prod"},
		Spec:       registryv1alpha1.RegistrySpec{URL: "https://r.example.com", DiscoveryPeriod: "1h", Jitter: "1ms", ScanOn: []registryv1alpha1.ScanTrigger{}},
	}
}

// TestScheduleRuns walks some hours: one job for each, the older ones go, and what somebody wiped comes back.
func TestScheduleRuns(t *testing.T) {
	w := newWorld(t)
	w.create(hourlyRegistry())
	first := w.mustPass("prod")
	jobs := w.discoveries()
	if len(jobs) != 1 || first.RequeueAfter <= 0 || first.RequeueAfter > time.Hour {
		t.Fatalf("%d jobs, again after %v", len(jobs), first.RequeueAfter)
	}
	job := jobs[0]
	if job.Labels[registryv1alpha1.LabelTrigger] != "Schedule" || job.Spec.Priority != registryv1alpha1.Scheduled || job.Spec.StopAfter != registryv1alpha1.StopAfterSBOM ||
		!metav1.IsControlledBy(&job, w.registry("prod")) {
		t.Errorf("job %+v", job)
	}
	before := w.registry("prod")
	if !meta.IsStatusConditionTrue(before.Status.Conditions, registryv1alpha1.ConditionReady) || before.Status.NextDiscoveryTime == nil || before.Status.ObservedGeneration != before.Generation {
		t.Errorf("status %+v", before.Status)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.mustPass("prod")
	if after := w.registry("prod"); after.ResourceVersion != before.ResourceVersion {
		t.Error("a pass in which nothing changes writes")
	}
	// The next one is due while the first one works: it is passed over.
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.mustPass("prod")
	if n := len(w.discoveries()); n != 1 {
		t.Errorf("%d jobs while one works", n)
	}
	if event := <-w.events.Events; !strings.Contains(event, "Skipped") {
		t.Errorf("event %s", event)
	}
	for range 5 {
		for i := range w.discoveries() {
			if job := w.discoveries()[i]; job.Status.CompletionTime == nil {
				w.end(&job)
			}
		}
		w.clock.SetTime(w.clock.Now().Add(time.Hour))
		w.mustPass("prod")
	}
	if n := len(w.discoveries()); n != 4 {
		t.Errorf("%d jobs, want the one at work and three ended ones", n)
	}
	// Another client wipes the status: no job is made twice.
	wiped := w.registry("prod")
	wiped.Status = registryv1alpha1.RegistryStatus{}
	if err := cluster.Client.Status().Update(t.Context(), wiped); err != nil {
		t.Fatal(err)
	}
	w.mustPass("prod")
	if n := len(w.discoveries()); n != 4 || w.registry("prod").Status.NextDiscoveryTime == nil {
		t.Errorf("%d jobs after the status was wiped", n)
	}
}

// TestInvalidStored is about a Registry that the webhook did not see.
func TestInvalidStored(t *testing.T) {
	w := newWorld(t)
	r := hourlyRegistry()
	r.Spec.Tags = &registryv1alpha1.TagFilter{Expression: "tag +"}
	w.create(r)
	if result := w.mustPass("prod"); result.RequeueAfter != 0 || len(w.discoveries()) != 0 {
		t.Errorf("again after %v, %d jobs", result.RequeueAfter, len(w.discoveries()))
	}
	ready := meta.FindStatusCondition(w.registry("prod").Status.Conditions, registryv1alpha1.ConditionReady)
	if ready == nil || ready.Reason != "Invalid" || !strings.HasPrefix(ready.Message, "spec.tags.expression: ") {
		t.Errorf("condition %+v", ready)
	}
}

func TestYoungestRegistriesWait(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		r := hourlyRegistry()
		r.Name = name
		w.create(r)
	}
	reasons := map[string]int{}
	for _, name := range []string{"a", "b", "c"} {
		w.mustPass(name)
		reasons[meta.FindStatusCondition(w.registry(name).Status.Conditions, registryv1alpha1.ConditionReady).Reason]++
	}
	if reasons["Accepted"] != 2 || reasons["QuotaExceeded"] != 1 {
		t.Errorf("reasons %v", reasons)
	}
	if event := <-w.events.Events; !strings.Contains(event, "QuotaExceeded") {
		t.Errorf("event %s", event)
	}
}

// TestSettingsHold: what the settings of a namespace say holds beside the installation's.
func TestSettingsHold(t *testing.T) {
	w := newWorld(t)
	w.create(hourlyRegistry())
	for reason, limits := range map[string]tenancy.Limits{
		"QuotaExceeded": {Registries: 0}, "HostNotAllowed": {Registries: 2, AllowedHosts: [][]string{{"*.example.org"}}},
	} {
		w.limits = limits
		w.mustPass("prod")
		if ready := meta.FindStatusCondition(w.registry("prod").Status.Conditions, registryv1alpha1.ConditionReady); ready.Reason != reason {
			t.Errorf("condition %+v, want %s", ready, reason)
		}
	}
	w.limits = tenancy.Limits{Registries: 2, Denied: true}
	w.mustPass("prod")
	if ready := meta.FindStatusCondition(w.registry("prod").Status.Conditions, registryv1alpha1.ConditionReady); !strings.Contains(ready.Message, "spec.registry.denied") {
		t.Errorf("condition %+v", ready)
	}
}

// TestForeignJobs: a job of that name that is not ours is an error that says so.
func TestForeignJobs(t *testing.T) {
	w := newWorld(t)
	w.create(hourlyRegistry())
	w.mustPass("prod")
	job := w.discoveries()[0]
	if err := cluster.Client.Delete(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	foreign := &registryv1alpha1.DiscoveryJob{ObjectMeta: metav1.ObjectMeta{Name: job.Name}, Spec: registryv1alpha1.DiscoveryJobSpec{JobSpec: registryv1alpha1.JobSpec{Registry: "other"}}}
	w.create(foreign)
	wiped := w.registry("prod")
	wiped.Status = registryv1alpha1.RegistryStatus{}
	if err := cluster.Client.Status().Update(t.Context(), wiped); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pass("prod"); err == nil || !strings.Contains(err.Error(), "not one of this Registry") {
		t.Errorf("error %v", err)
	}
}

// TestEveryCallMayFail: whatever write fails, one more pass comes to the same end.
func TestEveryCallMayFail(t *testing.T) {
	boom := errors.New("boom")
	for name, failing := range map[string]func(failed *bool) interceptor.Funcs{
		"Create": func(failed *bool) interceptor.Funcs {
			return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if !*failed {
					*failed = true
					return boom
				}
				return c.Create(ctx, o, opts...)
			}}
		},
		"CreateThenNoAnswer": func(failed *bool) interceptor.Funcs {
			return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				err := c.Create(ctx, o, opts...)
				if !*failed {
					*failed = true
					return boom
				}
				return err
			}}
		},
		"Status": func(failed *bool) interceptor.Funcs {
			return interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				if !*failed {
					*failed = true
					return boom
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.create(hourlyRegistry())
			watching, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
			if err != nil {
				t.Fatal(err)
			}
			failed := false
			w.Client = interceptor.NewClient(watching, failing(&failed))
			if _, err := w.pass("prod"); !errors.Is(err, boom) {
				t.Fatalf("error %v", err)
			}
			w.mustPass("prod")
			if n := len(w.discoveries()); n != 1 || w.registry("prod").Status.NextDiscoveryTime == nil {
				t.Errorf("%d jobs, status %+v", n, w.registry("prod").Status)
			}
		})
	}
}
