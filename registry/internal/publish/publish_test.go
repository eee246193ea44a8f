// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
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

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func hub(change ...func(*registryv1alpha1.Registry)) *registryv1alpha1.Registry {
	r := &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Name: "hub", Namespace: "shop", UID: "r", Generation: 1}}
	r.Spec.URL, r.Spec.Findings = "https://hub.example", &registryv1alpha1.Findings{MinSeverity: "LOW", ScanType: "registry-findings"}
	for _, c := range change {
		c(r)
	}
	return r
}

func TestDecide(t *testing.T) {
	old, recent := Job{"first", "1", begin}, Job{"second", "2", begin.Add(time.Minute)}
	of := func(reason string) *metav1.Condition { return &metav1.Condition{Reason: reason, ObservedGeneration: 1} }
	last := func(j Job) *registryv1alpha1.PublishedFindings {
		return &registryv1alpha1.PublishedFindings{Job: j.UID, Scan: NameOf("hub", j.UID), Ended: metav1.NewTime(j.Ended)}
	}
	published := registryv1alpha1.ReasonPublished
	for name, tc := range map[string]struct {
		o      Observation
		job    string
		remove bool
		reason string
		again  time.Duration
	}{
		"NothingWanted":      {o: Observation{Registry: hub(func(r *registryv1alpha1.Registry) { r.Spec.Findings = nil }), Published: of(published), Last: last(old)}, remove: true},
		"NoJobs":             {o: Observation{}},
		"First":              {o: Observation{Jobs: []Job{old}}, job: "first"},
		"TheNewestOnly":      {o: Observation{Jobs: []Job{old, recent}}, job: "second"},
		"Published":          {o: Observation{Jobs: []Job{old, recent}, Published: of(published), Last: last(recent)}},
		"PublishedAndGone":   {o: Observation{Jobs: []Job{old}, Published: of(published), Last: last(recent)}},
		"ANewerOne":          {o: Observation{Jobs: []Job{old, recent}, Published: of(published), Last: last(old), Scans: []Scan{{Name: NameOf("hub", "1")}}}, job: "second"},
		"InTheSameSecond":    {o: Observation{Jobs: []Job{{"third", "3", begin}}, Published: of(published), Last: last(old)}, job: "third"},
		"OneAtATime":         {o: Observation{Jobs: []Job{old, recent}, Published: of(published), Last: last(old), Scans: []Scan{{Name: NameOf("hub", "1"), Active: true}}}, again: lookAgain},
		"StatusWasWiped":     {o: Observation{Jobs: []Job{old}, Scans: []Scan{{Name: NameOf("hub", "1")}}}, job: "first"},
		"RejectedOnesAgain":  {o: Observation{Jobs: []Job{old}, Published: of(registryv1alpha1.ReasonScanRejected), Last: last(old)}, job: "first"},
		"TooManyStayTooMany": {o: Observation{Jobs: []Job{old}, Published: of(registryv1alpha1.ReasonTooManyFindings), Last: last(old)}},
		"TooManyOfBefore": {
			o: Observation{
				Registry: hub(func(r *registryv1alpha1.Registry) { r.Generation = 2 }), Jobs: []Job{old}, Published: of(registryv1alpha1.ReasonTooManyFindings), Last: last(old),
			}, job: "first",
		},
		"NoScanType": {
			o:      Observation{Jobs: []Job{old}, Published: of(published), Last: last(old), Scans: []Scan{{Name: NameOf("hub", "1"), NoScanType: true}}},
			reason: registryv1alpha1.ReasonScanTypeNotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.o.Registry == nil {
				tc.o.Registry = hub()
			}
			tc.o.Now = begin.Add(time.Hour)
			d := Decide(tc.o)
			job, reason := "", ""
			if d.Job != nil {
				job = d.Job.Name
			}
			if d.Condition != nil {
				reason = d.Condition.Reason
			}
			if job != tc.job || reason != tc.reason || d.RequeueAfter != tc.again || d.Remove != tc.remove {
				t.Errorf("job %q, reason %q, again %v, remove %v", job, reason, d.RequeueAfter, d.Remove)
			}
		})
	}
}

func TestBuild(t *testing.T) {
	long := strings.Repeat("very-long-name-", 10)
	for name, tc := range map[string]struct {
		registry           *registryv1alpha1.Registry
		scan, target, args string
	}{
		"All": {hub(), "registry-hub-", "registry-hub", "--registry hub --job j --min-severity LOW"},
		"Changed": {
			hub(func(r *registryv1alpha1.Registry) { r.Spec.Findings.Publish = registryv1alpha1.PublishChanged }),
			"registry-hub-", "registry-hub-changed-", "--registry hub --job j --min-severity LOW --changed-only",
		},
		"Long": {hub(func(r *registryv1alpha1.Registry) { r.Name = long }), "registry-very-long-name-", "registry-very-long-name-", "--registry " + long + " --job j --min-severity LOW"},
	} {
		s := Build(tc.registry, Job{Name: "j", UID: "u-" + name}, nil)
		target := s.Labels[executionv1.LabelTarget]
		if !strings.HasPrefix(s.Name, tc.scan) || !strings.HasPrefix(target, tc.target) || len(target) > 63 || len(s.Name) > 60 || strings.Join(s.Spec.Parameters, " ") != tc.args {
			t.Errorf("%s: %s, target %s, %q", name, s.Name, target, s.Spec.Parameters)
		}
		other := Build(tc.registry, Job{Name: "j", UID: "another"}, nil)
		if same := other.Labels[executionv1.LabelTarget] == target; same == (name == "Changed") {
			t.Errorf("%s: Scans of two jobs have the targets %s and %s", name, target, other.Labels[executionv1.LabelTarget])
		}
	}
}

// withImages is the API server with one Image, which has so many findings.
type withImages struct {
	client.Client

	findings *int64
}

func (c withImages) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	images, is := list.(*reportsv1.ImageList)
	if !is {
		return c.Client.List(ctx, list, options...)
	}
	images.Items = []reportsv1.Image{{Status: reportsv1.ImageStatus{Vulnerabilities: &reportsv1.VulnerabilitySummary{High: c.findings}}}}
	return nil
}

// world is a namespace with a Registry, and Images that have the findings that a test wants.
type world struct {
	*Reconciler

	t         *testing.T
	namespace string
	registry  *registryv1alpha1.Registry
	findings  int64
}

func newWorld(t *testing.T, change ...func(*registryv1alpha1.Registry)) *world {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "findings-"}}
	w := &world{t: t}
	w.must(cluster.Client.Create(t.Context(), namespace))
	w.namespace, w.findings = namespace.Name, 3
	w.Reconciler = NewReconciler(Options{
		Client: cluster.Client, Direct: withImages{cluster.Client, &w.findings}, Clock: clocktesting.NewFakePassiveClock(begin.Add(time.Hour)),
	})
	w.registry = hub(change...)
	w.registry.ObjectMeta = metav1.ObjectMeta{Name: "hub", Namespace: w.namespace}
	w.must(cluster.Client.Create(t.Context(), w.registry))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// job makes a ScanJob that has ended.
func (w *world) job(name string, changed int64, after time.Duration) {
	w.t.Helper()
	j := &registryv1alpha1.ScanJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}}
	j.Spec.Registry = "hub"
	w.must(cluster.Client.Create(w.t.Context(), j))
	at := metav1.NewTime(begin.Add(after))
	j.Status.CompletionTime, j.Status.RegistryUID = &at, string(w.registry.UID)
	j.Status.Images = &registryv1alpha1.ScannedImages{Changed: changed}
	w.must(cluster.Client.Status().Update(w.t.Context(), j))
}

// pass reconciles once, and gives the condition and the Scans by the job that they are for.
func (w *world) pass() (*metav1.Condition, map[string]*executionv1.Scan) {
	w.t.Helper()
	key := types.NamespacedName{Namespace: w.namespace, Name: "hub"}
	_, err := w.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: key})
	w.must(err)
	w.must(cluster.Client.Get(w.t.Context(), key, w.registry))
	list := &executionv1.ScanList{}
	w.must(cluster.Client.List(w.t.Context(), list, client.InNamespace(w.namespace)))
	scans := map[string]*executionv1.Scan{}
	for i := range list.Items {
		scans[list.Items[i].Spec.Parameters[3]] = &list.Items[i]
	}
	return meta.FindStatusCondition(w.registry.Status.Conditions, registryv1alpha1.ConditionFindingsPublished), scans
}

// end has a Scan end.
func (w *world) end(s *executionv1.Scan, state executionv1.ScanState, change ...metav1.Condition) {
	w.t.Helper()
	s.Status.State, s.Status.Conditions = state, change
	w.must(cluster.Client.Status().Update(w.t.Context(), s))
}

// What ends while a Scan runs is published by one more Scan; a Scan that was deleted is not made again.
func TestFindingsArePublishedOneScanAtATime(t *testing.T) {
	w := newWorld(t, func(r *registryv1alpha1.Registry) {
		r.Spec.Findings.HookSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}
		r.Spec.Findings.Priority = new(int32(7))
	})
	if c, scans := w.pass(); c != nil || len(scans) > 0 {
		t.Fatalf("nothing has ended: %+v, %d Scans", c, len(scans))
	}
	w.job("same", 0, 0)
	w.job("first", 2, time.Minute)
	c, scans := w.pass()
	first := scans["first"]
	if first == nil || len(scans) != 1 || c == nil || c.Status != metav1.ConditionTrue || c.Reason != registryv1alpha1.ReasonPublished {
		t.Fatalf("%+v, Scans %v", c, scans)
	}
	if !metav1.IsControlledBy(first, w.registry) || *first.Spec.Priority != 7 || *first.Spec.TTLSecondsAfterFinished != 604800 ||
		first.Spec.HookSelector.MatchLabels["team"] != "shop" || first.Spec.ScanType != "registry-findings" {
		t.Errorf("%+v", first)
	}
	w.job("second", 1, 2*time.Minute)
	w.job("third", 1, 3*time.Minute)
	if _, scans := w.pass(); len(scans) != 1 {
		t.Fatalf("%d Scans beside one that runs", len(scans))
	}
	w.end(first, executionv1.ScanStateDone)
	if _, scans = w.pass(); len(scans) != 2 || scans["third"] == nil {
		t.Fatalf("%d Scans, want one more, of the newest job", len(scans))
	}
	for _, s := range scans {
		w.must(cluster.Client.Delete(t.Context(), s))
	}
	before := w.registry.ResourceVersion
	if _, scans = w.pass(); len(scans) != 0 || w.registry.ResourceVersion != before {
		t.Errorf("%d Scans were made again", len(scans))
	}
	w.registry.Spec.Findings = nil
	w.must(cluster.Client.Update(t.Context(), w.registry))
	if c, _ = w.pass(); c != nil {
		t.Errorf("nothing is published any more, and the condition is there: %+v", c)
	}
}

func TestPublishFailures(t *testing.T) {
	t.Run("TooManyFindings", func(t *testing.T) {
		w := newWorld(t)
		w.findings = MostFindings + 1
		w.job("first", 1, 0)
		c, scans := w.pass()
		if c == nil || c.Reason != registryv1alpha1.ReasonTooManyFindings || !strings.Contains(c.Message, "minSeverity") || len(scans) > 0 {
			t.Fatalf("%+v, %d Scans", c, len(scans))
		}
		w.findings = 10
		w.registry.Spec.Findings.MinSeverity = "HIGH"
		w.must(cluster.Client.Update(t.Context(), w.registry))
		if c, scans = w.pass(); c.Reason != registryv1alpha1.ReasonPublished || len(scans) != 1 {
			t.Errorf("%+v, %d Scans", c, len(scans))
		}
	})
	t.Run("NoScanType", func(t *testing.T) {
		w := newWorld(t)
		w.job("first", 1, 0)
		_, scans := w.pass()
		w.end(scans["first"], executionv1.ScanStateErrored, metav1.Condition{
			Type: executionv1.ConditionScanned, Status: metav1.ConditionFalse, Reason: executionv1.ReasonScanTypeNotFound, LastTransitionTime: metav1.Now(),
		})
		if c, _ := w.pass(); c.Status != metav1.ConditionFalse || c.Reason != registryv1alpha1.ReasonScanTypeNotFound {
			t.Errorf("%+v", c)
		}
		w.job("second", 1, time.Minute)
		if c, scans := w.pass(); c.Reason != registryv1alpha1.ReasonPublished || scans["second"] == nil {
			t.Errorf("the next job is not published: %+v", c)
		}
	})
}

// Where the installation is for the whole cluster, the scanner's account is made in the namespace.
func TestAccountOfTheScanner(t *testing.T) {
	w := newWorld(t, func(r *registryv1alpha1.Registry) { r.Spec.Findings.ResourceMode = "clusterWide" })
	w.job("first", 1, 0)
	_, scans := w.pass()
	if s := scans["first"]; s == nil || s.Spec.ResourceMode == nil || *s.Spec.ResourceMode != executionv1.ClusterWide {
		t.Fatalf("%+v", scans)
	}
	binding := &rbacv1.RoleBinding{}
	w.must(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: account}, binding))
	w.must(cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: account}, &corev1.ServiceAccount{}))
	want := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	if diff := cmp.Diff(want, binding.RoleRef); diff != "" || binding.Subjects[0].Namespace != w.namespace {
		t.Errorf("%s %+v", diff, binding.Subjects)
	}
}
