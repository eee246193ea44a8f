// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

func suspend(t *testing.T, s *executionv1.Scan, to string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":`+to+`}}`))
	if err := w.admin.Patch(t.Context(), s, patch); err != nil {
		t.Fatal(err)
	}
}

func TestSuspend(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	s := shellScan(ns, "paused", quick)
	yes := true
	s.Spec.Suspend = &yes
	create(t, s)
	until(t, s, "be suspended", func(s *executionv1.Scan) bool { return scans.Ready(s).Reason == executionv1.ReasonSuspended })
	if n := len(jobsOf(s)); n > 0 {
		t.Errorf("a suspended Scan has %d Jobs", n)
	}
	suspend(t, s, "false")
	wantJobs(t, wantDone(t, s), "scanner", "parser")
}

// TestSuspendMidway: what runs goes on to its end, nothing further starts.
func TestSuspendMidway(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	s := shellScan(ns, "midway", "sleep 2; "+quick)
	create(t, s)
	until(t, s, "run", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateScanning })
	suspend(t, s, "true")
	if _, err := w.jobs.UntilAll(bounded(t), func([]*batchv1.Job) bool {
		j := jobsOf(s)["scanner"]
		return j != nil && j.Status.Succeeded == 1 && j.Status.CompletionTime != nil
	}); err != nil {
		t.Fatalf("the running Job did not end: %v", err)
	}
	wantJobs(t, s, "scanner")
	suspend(t, s, "false")
	wantJobs(t, wantDone(t, s), "scanner", "parser")
}

func TestDefect08SuspendedScanCanBeDeleted(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	s := shellScan(ns, "stuck", "sleep 60")
	create(t, s)
	until(t, s, "run", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateScanning })
	suspend(t, s, "true")
	if err := w.admin.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	gone(t, s)
}

func TestTTL(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	s := shellScan(ns, "short-lived", quick)
	ttl := int32(1)
	s.Spec.TTLSecondsAfterFinished = &ttl
	create(t, s)
	gone(t, s)
	wantJobs(t, s, "scanner", "parser")
	if keys := stored(t, s); len(keys) > 0 {
		t.Errorf("storage still has %v", keys)
	}
}

// TestDefect54DeletionRemovesThePrefix: all of it, not the two known objects only, and
// the Jobs with it.
func TestDefect54DeletionRemovesThePrefix(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	got := done(t, shellScan(ns, "doomed", quick))
	extra := []byte("a screenshot")
	if _, err := w.store.PutObject(t.Context(), w.bucket, prefix(got)+"more/shot.png", bytes.NewReader(extra), int64(len(extra)), minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"findings.json", "more/shot.png", "result"}, stored(t, got)); diff != "" {
		t.Fatalf("stored (-want +got):\n%s", diff)
	}
	if err := w.admin.Delete(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	gone(t, got)
	if keys := stored(t, got); len(keys) > 0 {
		t.Errorf("storage still has %v", keys)
	}
	eventually(t, "Jobs to be gone", func(context.Context) (bool, error) { return len(jobsOf(got)) == 0, nil })
}

// TestDefect16DeletionStartsNothing deletes a Scan while its scanner runs.
func TestDefect16DeletionStartsNothing(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	s := shellScan(ns, "cut-short", quick+"; sleep 60")
	create(t, s)
	until(t, s, "run", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateScanning })
	if err := w.admin.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	gone(t, s)
	eventually(t, "Jobs to be gone", func(context.Context) (bool, error) { return len(jobsOf(s)) == 0, nil })
	wantJobs(t, s, "scanner")
	if keys := stored(t, s); len(keys) > 0 {
		t.Errorf("storage has %v", keys)
	}
}

// TestDefect14SameNameAgain: a Scan made again under its old name starts from scratch.
func TestDefect14SameNameAgain(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	first := done(t, shellScan(ns, "again", quick))
	if err := w.admin.Delete(t.Context(), first, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	gone(t, first)
	second := done(t, shellScan(ns, "again", quick))
	wantJobs(t, first, "scanner", "parser")
	wantJobs(t, second, "scanner", "parser")
	if first.UID == second.UID {
		t.Fatal("it is the same Scan")
	}
}

// TestDefect05DeletedJob: a Job that somebody deletes is not taken for one that is done.
func TestDefect05DeletedJob(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	s := shellScan(ns, "robbed", "sleep 60")
	create(t, s)
	until(t, s, "run", func(s *executionv1.Scan) bool {
		return s.Status.State == executionv1.ScanStateScanning && jobsOf(s)["scanner"] != nil
	})
	if err := w.admin.Delete(t.Context(), jobsOf(s)["scanner"], client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	got := settled(t, s)
	wantTrouble(t, got, executionv1.ReasonJobLost, "result")
	wantJobs(t, got, "scanner")
}

// TestDefect06ActiveDeadline: any failed Job counts, not one reason only.
func TestDefect06ActiveDeadline(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	two := int64(2)
	create(t, shellType(ns, "test-txt", func(j *batchv1.JobSpec) { j.ActiveDeadlineSeconds = &two }), parser(ns, "test-txt"))
	errored(t, shellScan(ns, "too-slow", "sleep 60"), executionv1.ReasonScannerFailed, "DeadlineExceeded")
}

// TestDefect07PhaseDeadline: a phase has an end, and it can be set.
func TestDefect07PhaseDeadline(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	s := shellScan(ns, "bounded", "sleep 60")
	two := int64(2)
	s.Spec.Deadlines = &executionv1.Deadlines{ScannerSeconds: &two}
	errored(t, s, executionv1.ReasonDeadlineExceeded, "scanner", "2s")
}

// TestDefect09EmptyParameters: they are valid, and stay in the stored object.
func TestDefect09EmptyParameters(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, shellType(ns, "test-txt", func(j *batchv1.JobSpec) { j.Template.Spec.Containers[0].Command = []string{"touch", resultPath} }), parser(ns, "test-txt"))
	got := done(t, scans.New(ns, "bare", "sh"))
	if got.Spec.Parameters == nil {
		t.Error("parameters: [] is gone from the stored Scan")
	}
}

// TestDefect21AllCompletionsCount: a Job with several completions has ended with the last.
func TestDefect21AllCompletionsCount(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	three := int32(3)
	create(t, shellType(ns, "test-txt", func(j *batchv1.JobSpec) { j.Completions = &three }), parser(ns, "test-txt"))
	got := done(t, shellScan(ns, "thrice", quick))
	jobs := jobsOf(got)
	if jobs["scanner"].Status.Succeeded != 3 {
		t.Errorf("%d pods of the scanner had succeeded", jobs["scanner"].Status.Succeeded)
	}
	if jobs["parser"].CreationTimestamp.Before(jobs["scanner"].Status.CompletionTime) {
		t.Error("the parser started before the scanner's Job was complete")
	}
}

// TestDefect22And23TemplateIsKept: volumes without a mount in the scanner container,
// and labels and annotations of the pod template (trap T9).
func TestDefect22And23TemplateIsKept(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, shellType(ns, "test-txt", func(j *batchv1.JobSpec) {
		pod := &j.Template
		pod.Labels, pod.Annotations = map[string]string{"cost": "red"}, map[string]string{"karpenter.sh/do-not-disrupt": "true"}
		pod.Spec.Volumes = []corev1.Volume{{Name: "spare"}}
		pod.Spec.InitContainers = []corev1.Container{{
			Name: "prepare", Image: "docker.io/e2e/sh", Command: []string{"/bin/sh", "-c", "touch /spare/x"}, VolumeMounts: []corev1.VolumeMount{{Name: "spare", MountPath: "/spare"}},
		}}
	}), parser(ns, "test-txt"))
	pod := jobsOf(done(t, shellScan(ns, "kept", quick)))["scanner"].Spec.Template
	if pod.Labels["cost"] != "red" || pod.Annotations["karpenter.sh/do-not-disrupt"] != "true" || !hasVolume(&pod.Spec, "spare") {
		t.Errorf("labels %v, annotations %v, volumes %v", pod.Labels, pod.Annotations, pod.Spec.Volumes)
	}
}

// TestDefect25EmptyTolerations: [] clears what ScanType and ParseDefinition ask for.
func TestDefect25EmptyTolerations(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	p := parser(ns, "test-txt")
	p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	create(t, shellType(ns, "test-txt"), p)
	u := `{"apiVersion":"execution.securecodebox.io/v1","kind":"Scan","metadata":{"name":"clear","namespace":"` + ns + `"},` +
		`"spec":{"scanType":"sh","parameters":["` + quick + `"],"tolerations":[]}}`
	s := apply(t, u)
	wantDone(t, s)
	if got := jobsOf(s)["parser"].Spec.Template.Spec.Tolerations; len(got) > 0 {
		t.Errorf("the parser has tolerations %v", got)
	}
}

// apply sends a manifest as it is, without passing through Go types.
func apply(t *testing.T, manifest string) *executionv1.Scan {
	t.Helper()
	s, err := post(t.Context(), manifest)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func execution() (*rest.RESTClient, error) {
	cfg := rest.CopyConfig(w.config)
	cfg.GroupVersion, cfg.APIPath, cfg.NegotiatedSerializer = &executionv1.SchemeGroupVersion, "/apis", scheme.Codecs.WithoutConversion()
	return rest.RESTClientFor(cfg)
}

// TestDefect59Columns: what "kubectl get scans" shows.
func TestDefect59Columns(t *testing.T) {
	t.Parallel()
	c, err := execution()
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	err = c.Get().Resource("scans").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(&table)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, col := range table.ColumnDefinitions {
		names = append(names, col.Name)
	}
	for _, want := range []string{"Name", "UID", "Type", "State", "Findings", "Parameters", "Age"} {
		if !slices.Contains(names, want) {
			t.Errorf("column %s is missing among %v", want, names)
		}
	}
}

// TestManifestsRefused: what can never work is refused with the field's name.
func TestManifestsRefused(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		object client.Object
		says   string
	}{
		"HookType":     {"defect 19: an unknown type was never run", hook("default", "bad", "ok", "Sometimes", 0), "spec.type"},
		"Location":     {"nobody could read the result", locationType("/tmp/result"), "spec.extractResults.location"},
		"FindingsFile": {"defect 53: it collides with the findings", locationType("/home/securecodebox/findings.json"), "findings.json"},
		"ResourceMode": {"there are two", mode("everywhere"), "spec.resourceMode"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := w.admin.Create(t.Context(), tc.object, client.DryRunAll)
			if !apierrors.IsInvalid(err) || !bytes.Contains([]byte(err.Error()), []byte(tc.says)) {
				t.Errorf("%s: got %v, want it invalid with %q", tc.reason, err, tc.says)
			}
		})
	}
}

func locationType(location string) *executionv1.ScanType {
	t := shellType("default", "test-txt")
	t.Spec.ExtractResults.Location = location
	return t
}

func mode(m executionv1.ResourceMode) *executionv1.Scan {
	s := shellScan("default", "bad", quick)
	s.Spec.ResourceMode = &m
	return s
}

// post creates a Scan from JSON.
func post(ctx context.Context, manifest string) (*executionv1.Scan, error) {
	c, err := execution()
	if err != nil {
		return nil, err
	}
	s := &executionv1.Scan{}
	if err := json.Unmarshal([]byte(manifest), s); err != nil {
		return nil, err
	}
	b, err := c.Post().Resource("scans").Namespace(s.Namespace).SetHeader("Content-Type", "application/json").Body([]byte(manifest)).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	return s, json.Unmarshal(b, s)
}
