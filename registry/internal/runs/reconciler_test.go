// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/feeder"
	"github.com/scanyard/scanyard/registry/internal/job"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/results"
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

// world is a namespace with a Registry that is Ready, and Reconcilers that a test calls.
type world struct {
	t                *testing.T
	namespace        string
	clock            *clocktesting.FakePassiveClock
	reports          *reports
	feeder           *feeder.Feeder
	registry         *registryv1alpha1.Registry
	cancelled        []string
	reportsAway      string
	discovery, scans *Reconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "jobs-"}}
	w := &world{t: t, reports: newReports(), clock: clocktesting.NewFakePassiveClock(time.Now())}
	w.must(cluster.Client.Create(t.Context(), namespace))
	w.namespace = namespace.Name
	c, err := config.Read("")
	w.must(err)
	w.feeder = feeder.New(feeder.Options{Clock: w.clock, Woken: func(string, string, string) {}, Log: logr.Discard()})
	options := Options{
		Client: cluster.Client, Reports: w.reports, Feeder: w.feeder, Events: events.NewFakeRecorder(100), Clock: w.clock, Config: c,
		Limits: func(_ context.Context, namespace string) (tenancy.Limits, error) {
			return tenancy.Of(c, namespace, tenancy.Settings{}), nil
		},
		Away: func() (string, string) { return w.reportsAway, "" }, Zones: time.LoadLocation,
		Cancel: func(uid string) error { w.cancelled = append(w.cancelled, uid); return nil },
	}
	w.discovery, w.scans = NewReconciler(job.Discovery, options), NewReconciler(job.Scan, options)
	w.registry = &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Name: "hub", Namespace: w.namespace}, Spec: registryv1alpha1.RegistrySpec{URL: "https://hub.example"}}
	w.must(cluster.Client.Create(t.Context(), w.registry))
	meta.SetStatusCondition(&w.registry.Status.Conditions, metav1.Condition{
		Type: registryv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: registryv1alpha1.ReasonAccepted, ObservedGeneration: w.registry.Generation,
	})
	w.must(cluster.Client.Status().Update(t.Context(), w.registry))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) discover(name string, change ...func(*registryv1alpha1.DiscoveryJob)) *registryv1alpha1.DiscoveryJob {
	w.t.Helper()
	j := &registryv1alpha1.DiscoveryJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}}
	j.Spec.Registry = w.registry.Name
	for _, c := range change {
		c(j)
	}
	w.must(cluster.Client.Create(w.t.Context(), j))
	return j
}

// pass looks at a job some seconds later.
func (w *world) pass(r *Reconciler, name string) reconcile.Result {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Add(writeEvery + time.Second))
	result, err := r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: w.namespace, Name: name}})
	w.must(err)
	return result
}

func (w *world) get(o client.Object, name string) {
	w.t.Helper()
	w.must(cluster.Client.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, o))
}

func (w *world) discoveryState(name, state string, progress registryv1alpha1.Progress) *registryv1alpha1.DiscoveryJob {
	w.t.Helper()
	j := &registryv1alpha1.DiscoveryJob{}
	w.get(j, name)
	got := registryv1alpha1.Progress{}
	if j.Status.Progress != nil {
		got = *j.Status.Progress
		got.Duration = ""
	}
	if j.Status.State != state || got != progress {
		w.t.Fatalf("the job is %s, %+v, %+v; want %s, %+v", j.Status.State, got, j.Status.Conditions, state, progress)
	}
	return j
}

// waiting counts what the Feeder may let in.
func (w *world) waiting() map[queue.Step]int {
	waiting, _ := w.feeder.Counts()
	return waiting
}

func work(j client.Object) *reportsv1.Work {
	return &reportsv1.Work{Job: &reportsv1.JobRef{UID: string(j.GetUID())}}
}

func (w *world) repository(name, state string, by *reportsv1.Work) *reportsv1.Repository {
	r := &reportsv1.Repository{ObjectMeta: metav1.ObjectMeta{Name: results.RepositoryName(string(w.registry.UID), name), Namespace: w.namespace}}
	r.Spec.Repository, r.Status.State, r.Status.Work = name, state, by
	r.Spec.Registry.UID = string(w.registry.UID)
	w.reports.repositories[r.Name] = r
	return r
}

func (w *world) image(name, state string, by *reportsv1.Work) *reportsv1.Image {
	i := &reportsv1.Image{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}}
	i.Spec.Repository, i.Spec.Tag, i.Spec.Digest, i.Spec.Registry.UID = "shop/"+name, "1", "sha256:"+name, string(w.registry.UID)
	i.Status = reportsv1.ImageStatus{Presence: reportsv1.ImagePresent, State: state, Work: by, Database: &reportsv1.DatabaseRef{}}
	w.reports.images[name] = i
	return i
}

func TestDiscoveryFromCatalogueToEnd(t *testing.T) {
	w := newWorld(t)
	j := w.discover("first")
	none := registryv1alpha1.Progress{}
	w.pass(w.discovery, "first")
	w.discoveryState("first", registryv1alpha1.ReasonPlanning, none)
	w.pass(w.discovery, "first")
	w.discoveryState("first", registryv1alpha1.ReasonListing, registryv1alpha1.Progress{Total: 1})
	if w.waiting()[queue.Discover] != 1 {
		t.Fatalf("the catalogue is not offered: %v", w.waiting())
	}
	w.repository("", reportsv1.RepositoryDone, work(j)).Status.Reason = registryv1alpha1.ReasonListed
	done := w.repository("shop/api", reportsv1.RepositoryDone, work(j))
	done.Status.Tags = &reportsv1.TagCounts{Listed: 3, Selected: 2, Skipped: 1}
	done.Status.ByReason = map[string]int64{"Excluded": 1}
	w.repository("shop/web", reportsv1.RepositoryWaiting, nil)
	w.image("api", reportsv1.ImagePending, nil)
	w.pass(w.discovery, "first")
	w.discoveryState("first", registryv1alpha1.ReasonListing, registryv1alpha1.Progress{Total: 3, Done: 1})
	if got := w.waiting(); got[queue.Discover] != 1 || got[queue.SBOM] != 1 {
		t.Fatalf("offered: %v", got)
	}
	w.repository("shop/web", reportsv1.RepositoryFailed, work(j)).Status.Reason = "NotFound"
	gone := w.image("old", reportsv1.ImageScanned, nil)
	gone.Status.Presence, gone.Status.GoneTime = reportsv1.ImageGone, &metav1.Time{Time: w.clock.Now()}
	w.image("known", reportsv1.ImageScanned, nil).CreationTimestamp = metav1.NewTime(w.clock.Now().Add(-time.Hour))
	api := w.image("api", reportsv1.ImageScanned, work(j))
	api.CreationTimestamp = metav1.NewTime(w.clock.Now())
	api.Status.Vulnerabilities = &reportsv1.VulnerabilitySummary{Critical: new(int64(2))}
	w.pass(w.discovery, "first")
	ended := w.discoveryState("first", registryv1alpha1.ReasonCompletedWithErrors, registryv1alpha1.Progress{Total: 3, Done: 2, Failed: 1})
	if ended.Status.CompletionTime == nil || ended.Status.Tags.Selected != 2 || ended.Status.ErrorsTotal != 1 || ended.Status.Errors[0].Item != "shop/web" {
		t.Errorf("the status: %+v", ended.Status)
	}
	if want := (registryv1alpha1.FoundImages{Found: 2, New: 1, Unchanged: 1, Gone: 1}); *ended.Status.Images != want {
		t.Errorf("images %+v, want %+v", *ended.Status.Images, want)
	}
	if len(w.waiting()) != 0 {
		t.Errorf("an ended job offers %v", w.waiting())
	}
	w.get(w.registry, "hub")
	s := w.registry.Status
	if s.LastDiscovery == nil || s.LastDiscovery.Job != "first" || s.Images.Scanned != 2 || s.Vulnerabilities.Critical != 2 || s.Repositories != 2 || s.Tags != 2 {
		t.Errorf("the Registry: %+v", s)
	}
	for kind, reason := range map[string]string{
		registryv1alpha1.ConditionReachable: registryv1alpha1.ReasonAnswered, registryv1alpha1.ConditionCatalogAvailable: registryv1alpha1.ReasonListed,
		registryv1alpha1.ConditionUpToDate: registryv1alpha1.ReasonDatabaseMissing,
	} {
		if c := meta.FindStatusCondition(s.Conditions, kind); c == nil || c.Reason != reason {
			t.Errorf("the condition %s is %+v, want %s", kind, c, reason)
		}
	}
	version := ended.ResourceVersion
	w.pass(w.discovery, "first")
	if again := w.discoveryState("first", registryv1alpha1.ReasonCompletedWithErrors, registryv1alpha1.Progress{Total: 3, Done: 2, Failed: 1}); again.ResourceVersion != version {
		t.Error("an ended job is written again")
	}
}

func TestLostWorkersItemsWaitAgain(t *testing.T) {
	w := newWorld(t)
	j := w.discover("first")
	w.pass(w.discovery, "first")
	w.repository("", reportsv1.RepositoryDone, work(j))
	image := w.image("api", reportsv1.ImageGeneratingSBOM, work(j))
	image.Status.Work.Claim = "claimed"
	image.Status.Work.LeaseExpiresAt = &metav1.Time{Time: w.clock.Now().Add(time.Minute)}
	w.pass(w.discovery, "first")
	if len(w.waiting()) != 0 {
		t.Fatalf("what is held is offered: %v", w.waiting())
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.pass(w.discovery, "first")
	if w.waiting()[queue.SBOM] != 1 {
		t.Errorf("what was lost is not offered: %v", w.waiting())
	}
}

func TestSecondJobOfTheKindWaits(t *testing.T) {
	w := newWorld(t)
	w.discover("a")
	w.discover("b")
	w.pass(w.discovery, "a")
	w.pass(w.discovery, "b")
	w.discoveryState("b", registryv1alpha1.ReasonQueued, registryv1alpha1.Progress{})
}

func TestHeldAndCancelled(t *testing.T) {
	w := newWorld(t)
	j := w.discover("first")
	w.pass(w.discovery, "first")
	w.pass(w.discovery, "first")
	w.reportsAway = "the reports API does not answer"
	w.pass(w.discovery, "first")
	w.discoveryState("first", registryv1alpha1.ReasonReportsUnavailable, registryv1alpha1.Progress{Total: 1})
	if len(w.waiting()) != 0 {
		t.Errorf("a held job offers %v", w.waiting())
	}
	w.reportsAway = ""
	w.get(j, "first")
	j.Spec.Suspend = true
	w.must(cluster.Client.Update(t.Context(), j))
	w.pass(w.discovery, "first")
	w.discoveryState("first", registryv1alpha1.ReasonSuspended, registryv1alpha1.Progress{Total: 1})
	catalog := w.repository("", reportsv1.RepositoryWorking, work(j))
	catalog.Status.Work.Claim, catalog.Status.Work.LeaseExpiresAt = "claimed", &metav1.Time{Time: w.clock.Now().Add(time.Hour)}
	w.get(j, "first")
	j.Spec.Cancel = true
	w.must(cluster.Client.Update(t.Context(), j))
	w.pass(w.discovery, "first")
	if len(w.cancelled) != 1 || w.cancelled[0] != string(j.UID) {
		t.Errorf("workers were told of %v", w.cancelled)
	}
	catalog.Status.State = reportsv1.RepositoryWaiting
	w.pass(w.discovery, "first")
	w.discoveryState("first", registryv1alpha1.ReasonCancelled, registryv1alpha1.Progress{Total: 1})
}

func TestDryRunKeepsTheAnswerOnly(t *testing.T) {
	w := newWorld(t)
	j := w.discover("look", func(j *registryv1alpha1.DiscoveryJob) { j.Spec.DryRun = true })
	w.pass(w.discovery, "look")
	w.pass(w.discovery, "look")
	if w.waiting()[queue.Discover] != 1 {
		t.Fatalf("offered: %v", w.waiting())
	}
	w.discovery.Previewed(queue.Ended{Job: string(j.UID), Preview: &registryv1alpha1.DiscoveryJobStatus{
		Tags: &registryv1alpha1.TagCounts{Listed: 2, Selected: 1}, Preview: &registryv1alpha1.Preview{Selected: []string{"shop/api:1"}},
	}})
	w.pass(w.discovery, "look")
	ended := w.discoveryState("look", registryv1alpha1.ReasonSucceeded, registryv1alpha1.Progress{Total: 1, Done: 1})
	if ended.Status.Preview == nil || ended.Status.Preview.Selected[0] != "shop/api:1" || ended.Status.Tags.Listed != 2 {
		t.Errorf("the status: %+v", ended.Status)
	}
	w.get(w.registry, "hub")
	if w.registry.Status.LastDiscovery != nil {
		t.Error("a dry run counts as a discovery")
	}
}

// F27: a ScanJob counts by the data that it began with.
func TestScanJobCountsByItsData(t *testing.T) {
	w := newWorld(t)
	w.reports.databases["mini"] = &reportsv1.VulnerabilityDatabase{Status: reportsv1.VulnerabilityDatabaseStatus{Version: "sha256:two"}}
	w.image("api", reportsv1.ImageScanned, nil).Status.Database.Version = "sha256:one"
	w.image("web", reportsv1.ImageScanned, nil).Status.Database.Version = "sha256:two"
	j := &registryv1alpha1.ScanJob{ObjectMeta: metav1.ObjectMeta{Name: "again", Namespace: w.namespace}}
	j.Spec.Registry = "hub"
	w.must(cluster.Client.Create(t.Context(), j))
	w.pass(w.scans, "again")
	w.pass(w.scans, "again")
	w.get(j, "again")
	if s := j.Status.Images; s == nil || *s != (registryv1alpha1.ScannedImages{Total: 2, Unaffected: 1, Wanted: 1, Waiting: 1}) || j.Status.Database.Version != "sha256:two" {
		t.Fatalf("the status: %+v", j.Status)
	}
	done := w.image("api", reportsv1.ImageScanned, work(j))
	done.Status.Database.Version, done.Status.Reason = "sha256:two", reportsv1.ReasonChanged
	w.pass(w.scans, "again")
	w.get(j, "again")
	if s := j.Status.Images; j.Status.State != registryv1alpha1.ReasonSucceeded || *s != (registryv1alpha1.ScannedImages{Total: 2, Unaffected: 1, Wanted: 1, Changed: 1}) {
		t.Errorf("%s: %+v", j.Status.State, j.Status.Images)
	}
	w.get(w.registry, "hub")
	if w.registry.Status.Database == nil || w.registry.Status.Database.Version != "sha256:two" || w.registry.Status.LastScan.Result != registryv1alpha1.ReasonSucceeded {
		t.Errorf("the Registry: %+v", w.registry.Status)
	}
}

func TestHostThatWantsFewerRequestsHoldsDiscoveryOnly(t *testing.T) {
	w := newWorld(t)
	w.reports.databases["mini"] = &reportsv1.VulnerabilityDatabase{Status: reportsv1.VulnerabilityDatabaseStatus{Version: "sha256:two"}}
	w.image("api", reportsv1.ImageScanned, nil).Status.Database.Version = "sha256:one"
	w.feeder.Pause("hub.example", "", w.clock.Now().Add(time.Hour))
	w.discover("look")
	w.pass(w.discovery, "look")
	w.discoveryState("look", registryv1alpha1.ReasonRateLimited, registryv1alpha1.Progress{})
	j := &registryv1alpha1.ScanJob{ObjectMeta: metav1.ObjectMeta{Name: "again", Namespace: w.namespace}}
	j.Spec.Registry = "hub"
	w.must(cluster.Client.Create(t.Context(), j))
	w.pass(w.scans, "again")
	w.pass(w.scans, "again")
	w.get(j, "again")
	if j.Status.State != registryv1alpha1.ReasonWorking || w.waiting()[queue.Match] != 1 {
		t.Errorf("the job is %s and offers %v: the images' SBOMs are stored", j.Status.State, w.waiting())
	}
}

func TestScanJobWaitsForData(t *testing.T) {
	w := newWorld(t)
	j := &registryv1alpha1.ScanJob{ObjectMeta: metav1.ObjectMeta{Name: "again", Namespace: w.namespace}}
	j.Spec.Registry = "hub"
	w.must(cluster.Client.Create(t.Context(), j))
	w.pass(w.scans, "again")
	w.get(j, "again")
	if j.Status.State != registryv1alpha1.ReasonDatabaseMissing {
		t.Errorf("the job is %s", j.Status.State)
	}
}
