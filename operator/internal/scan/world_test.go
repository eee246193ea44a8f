// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"context"
	"errors"
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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/rbac"
	"github.com/scanyard/scanyard/operator/internal/scan"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/store/storetest"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
	"github.com/scanyard/scanyard/operator/internal/testworld"
	"github.com/scanyard/scanyard/settings"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) { testworld.Main(m, func(c *testcluster.Cluster) { cluster = c }) }

// world is a namespace of the cluster with a Reconciler that looks after it.
type world struct {
	*testworld.World

	faults  *faults
	storage *store.Store
	tenancy *tenancy.Source
	// stop ends the manager, for tests that start another one with run.
	stop func()
	// blocked is for tests that hold one worker up.
	blocked atomic.Bool
}

// settings that tests change.
type worldOption func(*scan.Options)

func newWorld(t *testing.T, options ...worldOption) *world {
	t.Helper()
	return newWorldWith(t, nil, options...)
}

// newWorldWith makes a world whose Reconciler sees further namespaces.
func newWorldWith(t *testing.T, further []string, options ...worldOption) *world {
	t.Helper()
	w := newQuietWorld(t)
	w.run(further, options...)
	return w
}

// newQuietWorld makes a world without a Reconciler.
func newQuietWorld(t *testing.T) *world {
	t.Helper()
	return &world{World: testworld.New(t, cluster, nil), faults: &faults{}}
}

// run starts a manager for the world's namespace, until the test ends.
func (w *world) run(further []string, options ...worldOption) {
	w.Helper()
	kept := scan.CacheOptions()
	maps.Copy(kept, tenancy.CacheOptions())
	mgr := w.NewManager(testworld.Manager{Kinds: kept, Namespaces: append([]string{w.Namespace}, further...)})
	buckets := tenancy.NewBuckets(tenancy.NewSource(mgr.GetCache(), settings.Defaults{}, nil), mgr.GetAPIReader(), clock.RealClock{})
	storage, err := store.New(storetest.Config(cluster), store.WithTenants(buckets))
	w.Expect(err).NotTo(HaveOccurred())
	w.storage = storage
	o := scan.Options{
		Client: w.faults.in(mgr.GetClient()), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder("scanyard"),
		Clock: clock.RealClock{}, Storage: &faultyStorage{storage, w.faults},
		Settings: life.Settings{
			StartDeadline: time.Hour, ScannerDeadline: time.Hour, ParserDeadline: time.Hour, HookDeadline: time.Hour,
			MissingKindGrace: time.Hour, CleanupDeadline: time.Minute, StatusLinks: true,
		},
		Expiry:  scan.Expiry{Scan: time.Hour, Parser: time.Hour, Hook: time.Hour},
		Jobs:    jobs.Config{Lurker: jobs.Lurker{Image: "lurker", PullPolicy: corev1.PullIfNotPresent, SeccompProfile: corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}},
		Metrics: scan.NewMetrics(prometheus.NewRegistry()),
	}
	for _, option := range options {
		option(&o)
	}
	w.tenancy = tenancy.NewSource(mgr.GetCache(), settings.Defaults{
		StartDeadline: o.Settings.StartDeadline, ScannerDeadline: o.Settings.ScannerDeadline,
		ParserDeadline: o.Settings.ParserDeadline, HookDeadline: o.Settings.HookDeadline, StatusLinks: o.Settings.StatusLinks,
	}, nil)
	o.Tenancy = w.tenancy
	w.stop = w.Run(mgr, func(ctx context.Context) error {
		accounts, err := rbac.NewReader(ctx, mgr, o.Live, o.Access, append([]string{w.Namespace}, further...))
		o.Accounts = accounts
		return errors.Join(err, scan.NewReconciler(o).SetupWithManager(ctx, mgr, 4))
	})
}

func (w *world) scanType(options ...func(*executionv1.ScanTypeSpec)) *executionv1.ScanType {
	return &executionv1.ScanType{ObjectMeta: metav1.ObjectMeta{Name: "nmap"}, Spec: *testobjects.ScanTypeSpec(options...)}
}

func (w *world) parseDefinition() *executionv1.ParseDefinition {
	return &executionv1.ParseDefinition{ObjectMeta: metav1.ObjectMeta{Name: "nmap-xml"}, Spec: executionv1.ParseDefinitionSpec{Image: "parser"}}
}

func (w *world) hook(name string, kind executionv1.HookType, priority int) *executionv1.ScanCompletionHook {
	return &executionv1.ScanCompletionHook{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *testobjects.HookSpec(kind, priority)}
}

// scan returns a Scan as a user writes it.
func (w *world) scan(name string, options ...func(*executionv1.Scan)) *executionv1.Scan {
	s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"example.com"}}}
	for _, o := range options {
		o(s)
	}
	return s
}

func (w *world) get(name string) *executionv1.Scan {
	w.Helper()
	s := &executionv1.Scan{}
	w.Expect(w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, s)).To(Succeed())
	return s
}

// clusterKinds creates a ClusterScanType and a ClusterParseDefinition, named for this
// world since all tests share them, and hooks. It returns the name of the type; that
// of the result ends in -xml.
func (w *world) clusterKinds(hooks ...*executionv1.ClusterScanCompletionHook) string {
	w.Helper()
	name := "nmap-" + w.Namespace
	spec := testobjects.ScanTypeSpec(func(s *executionv1.ScanTypeSpec) { s.ExtractResults.Type = name + "-xml" })
	objects := []client.Object{
		&executionv1.ClusterScanType{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *spec},
		&executionv1.ClusterParseDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-xml"},
			Spec:       executionv1.ParseDefinitionSpec{Image: "parser", ContentType: executionv1.ContentTypeBinary},
		},
	}
	for _, h := range hooks {
		objects = append(objects, h)
	}
	for _, o := range objects {
		w.Expect(w.Client.Create(w.Context(), o)).To(Succeed())
		w.Cleanup(func() {
			if err := w.Client.Delete(context.Background(), o); err != nil {
				w.Errorf("delete %s: %v", o.GetName(), err)
			}
		})
	}
	return name
}

// gone polls whether a Scan is gone.
func (w *world) gone(name string) func() bool {
	return func() bool {
		return apierrors.IsNotFound(w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, &executionv1.Scan{}))
	}
}

// state polls the state of a Scan.
func (w *world) state(name string) func() executionv1.ScanState {
	return func() executionv1.ScanState { return w.get(name).Status.State }
}

// ready polls the reason of the Ready condition.
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

// jobs returns the Jobs of a job type, or all.
func (w *world) jobs(jobType string) []batchv1.Job {
	w.Helper()
	var list batchv1.JobList
	options := []client.ListOption{client.InNamespace(w.Namespace)}
	if jobType != "" {
		options = append(options, client.MatchingLabels{executionv1.LabelJobType: jobType})
	}
	w.Expect(w.Client.List(w.Context(), &list, options...)).To(Succeed())
	return list.Items
}

// job waits for the one Job of a type.
func (w *world) job(jobType string) *batchv1.Job {
	w.Helper()
	w.Eventually(func() []batchv1.Job { return w.jobs(jobType) }).Should(HaveLen(1))
	return &w.jobs(jobType)[0]
}

// finish plays the Job controller.
func (w *world) finish(j *batchv1.Job, kind batchv1.JobConditionType, reason string) {
	w.Helper()
	w.Expect(finish(w.Context(), w.Client, j, kind, reason)).To(Succeed())
}

// finish ends a Job as the Job controller of Kubernetes 1.36 does.
func finish(ctx context.Context, c client.Client, j *batchv1.Job, kind batchv1.JobConditionType, reason string) error {
	now := metav1.Now()
	before, target := j.DeepCopy(), batchv1.JobSuccessCriteriaMet
	if j.Status.StartTime == nil {
		j.Status.StartTime = &now
	}
	j.Status.Active, j.Status.Ready = 0, nil
	if kind == batchv1.JobFailed {
		target = batchv1.JobFailureTarget
		j.Status.Failed = 1
	} else {
		j.Status.Succeeded = ptr.Deref(j.Spec.Completions, 1)
		j.Status.CompletionTime = &now
	}
	j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	for _, t := range []batchv1.JobConditionType{target, kind} {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
			Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: "by the test", LastTransitionTime: now, LastProbeTime: now,
		})
	}
	return c.Status().Patch(ctx, j, client.MergeFrom(before))
}

// completeAll completes every Job that appears, until the test ends.
func (w *world) completeAll() {
	watching, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	events, err := watching.Watch(w.Context(), &batchv1.JobList{}, client.InNamespace(w.Namespace))
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(events.Stop)
	go func() {
		for e := range events.ResultChan() {
			if j, ok := e.Object.(*batchv1.Job); ok && len(j.Status.Conditions) == 0 {
				if err := finish(w.Context(), watching, j, batchv1.JobComplete, "CompletionsReached"); err != nil && w.Context().Err() == nil {
					w.Logf("complete Job %s: %v", j.Name, err)
				}
			}
		}
	}()
}

// createRaw creates a Scan exactly as written.
func (w *world) createRaw(name string, spec map[string]any) {
	w.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": executionv1.SchemeGroupVersion.String(), "kind": "Scan",
		"metadata": map[string]any{"name": name, "namespace": w.Namespace},
	}}
	if spec != nil {
		u.Object["spec"] = spec
	}
	w.Expect(w.Client.Create(w.Context(), u)).To(Succeed())
}

// touch brings a Scan to the Reconciler once more.
func (w *world) touch(name string) {
	w.Helper()
	w.Touch(w.get(name))
}

// put stores a file of a Scan, through a presigned URL as a pod does.
func (w *world) put(s *executionv1.Scan, file, content string) {
	w.Helper()
	u, err := w.storage.PresignUpload(w.Context(), store.OwnerOf(s), file, time.Minute)
	w.Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPut, u, strings.NewReader(content))
	w.Expect(err).NotTo(HaveOccurred())
	resp, err := http.DefaultClient.Do(req)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(resp.Body.Close()).To(Succeed())
	w.Expect(resp.StatusCode).To(Equal(http.StatusOK))
	w.Expect(w.stored(s, file)).To(BeTrue())
}

// stored says whether a file of a Scan is stored.
func (w *world) stored(s *executionv1.Scan, file string) bool {
	w.Helper()
	exists, err := w.storage.Exists(w.Context(), store.OwnerOf(s), file)
	w.Expect(err).NotTo(HaveOccurred())
	return exists
}

// events returns the notes of the Events on a Scan.
func (w *world) events(name string) string {
	w.Helper()
	var notes []string
	for _, e := range w.Events("Scan", name) {
		notes = append(notes, e.Note)
	}
	return strings.Join(notes, "\n")
}

// podOf plays the Job controller and kubelet: a pod of the Job whose first container waits.
func (w *world) podOf(j *batchv1.Job, waiting corev1.ContainerStateWaiting) {
	w.Helper()
	// Pods need their ServiceAccount's namespace to have settled; only what the operator
	// reads is set.
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: j.Name + "-pod", Labels: j.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: j.Spec.Template.Spec,
	}
	w.Create(pod)
	before := pod.DeepCopy()
	c := pod.Spec.Containers[0]
	pod.Status.Phase = corev1.PodPending
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: &waiting}}}
	w.Expect(w.Client.Status().Patch(w.Context(), pod, client.MergeFrom(before))).To(Succeed())
}

// faults fails calls of the Reconciler.
type faults struct {
	mu sync.Mutex
	// at is the number of the write, from 1, that fails; 0 fails none.
	at int
	// after lets the call have its effect before it fails.
	after bool
	// err is what a call fails with; errFault where it is not set.
	err error
	// always fails every call that counts.
	always bool
	// match, where set, chooses the calls that count.
	match func(call string) bool
	calls []string
}

var errFault = errors.New("fault of the test")

// hit counts a call and says whether it is to fail.
func (f *faults) hit(call string) bool {
	f.mu.Lock()
	match := f.match
	f.mu.Unlock()
	if match != nil && !match(call) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
	return f.always || len(f.calls) == f.at
}

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

func (f *faults) do(call string, act func() error) error {
	failed := f.hit(call)
	fault := f.err
	if fault == nil {
		fault = errFault
	}
	if failed && !f.after {
		return fault
	}
	err := act()
	if failed {
		return fault
	}
	return err
}

// in returns a client whose writes may fail.
func (f *faults) in(c client.Client) client.Client {
	return &testworld.Intercepted{Client: c, Write: func(verb string, o client.Object, write func() error) error {
		return f.do(verb+" "+strings.TrimPrefix(fmt.Sprintf("%T", o), "*"), write)
	}}
}

type faultyStorage struct {
	*store.Store

	faults *faults
}

func (s *faultyStorage) PresignUpload(ctx context.Context, o store.Owner, file string, d time.Duration) (u string, err error) {
	err = s.faults.do("presign upload", func() error { u, err = s.Store.PresignUpload(ctx, o, file, d); return err })
	return u, err
}

func (s *faultyStorage) PresignDownload(ctx context.Context, o store.Owner, file string, d time.Duration) (u string, err error) {
	err = s.faults.do("presign download", func() error { u, err = s.Store.PresignDownload(ctx, o, file, d); return err })
	return u, err
}

func (s *faultyStorage) Remove(ctx context.Context, o store.Owner, file string, last ...string) error {
	return s.faults.do("remove stored", func() error { return s.Store.Remove(ctx, o, file, last...) })
}
