// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

// TestDefect07TroubleShows: whatever keeps a phase from going on is said on the Scan,
// by a condition and an Event.
func TestDefect07TroubleShows(t *testing.T) {
	t.Parallel()
	secret := func(j *batchv1.JobSpec) {
		j.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "not-made"}, Key: "token"},
		}}}
	}
	cases := map[string]struct {
		edit   func(*batchv1.JobSpec)
		scan   func(*executionv1.Scan)
		reason string
		says   []string
	}{
		"ImageMissing": {
			func(j *batchv1.JobSpec) { j.Template.Spec.Containers[0].Image = "docker.io/e2e/nothing:1" }, nil,
			executionv1.ReasonImagePull,
			[]string{"docker.io/e2e/nothing:1", "cannot be pulled", "imagePullSecrets"},
		},
		"ImageOfInitContainerMissing": {nil, func(s *executionv1.Scan) {
			s.Spec.InitContainers = []corev1.Container{{Name: "prepare", Image: "docker.io/e2e/nothing:2"}}
		}, executionv1.ReasonImagePull, []string{"docker.io/e2e/nothing:2", `container "prepare"`}},
		"Unschedulable": {
			nil, func(s *executionv1.Scan) { s.Spec.NodeSelector = map[string]string{"disk": "none"} },
			executionv1.ReasonUnschedulable,
			[]string{"nodes are available", "node affinity/selector"},
		},
		"TooLarge": {nil, func(s *executionv1.Scan) {
			s.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Ti")}
		}, executionv1.ReasonUnschedulable, []string{"Insufficient memory"}},
		"SecretMissing": {secret, nil, executionv1.ReasonContainerConfig, []string{"not-made"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			kind, s := shellType(ns, "test-txt"), shellScan(ns, "troubled", quick)
			if tc.edit != nil {
				kind = shellType(ns, "test-txt", tc.edit)
			}
			if tc.scan != nil {
				tc.scan(s)
			}
			create(t, kind, parser(ns, "test-txt"))
			got := troubled(t, s, tc.reason, tc.says...)
			if got.Settled() {
				t.Errorf("the Scan ended %s: what is wrong could still be put right", got.Status.State)
			}
		})
	}
}

// TestPutRight: trouble that goes away lets the Scan go on by itself.
func TestPutRight(t *testing.T) {
	t.Parallel()
	t.Run("Secret", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t)
		create(t, shellType(ns, "test-txt", func(j *batchv1.JobSpec) {
			j.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}}}
		}), parser(ns, "test-txt"))
		s := shellScan(ns, "patient", quick)
		troubled(t, s, executionv1.ReasonContainerConfig, "late")
		create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "late"}, StringData: map[string]string{"TOKEN": "x"}})
		wantJobs(t, wantDone(t, s), "scanner", "parser")
	})
	t.Run("ScanType", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t)
		create(t, parser(ns, "test-txt"))
		s := shellScan(ns, "patient", quick)
		troubled(t, s, executionv1.ReasonScanTypeNotFound, `ScanType "sh" not found`, "helm install sh")
		create(t, shellType(ns, "test-txt"))
		wantJobs(t, wantDone(t, s), "scanner", "parser")
	})
	t.Run("ParseDefinition", func(t *testing.T) {
		t.Parallel()
		ns := namespace(t)
		create(t, shellType(ns, "test-txt"))
		s := shellScan(ns, "patient", quick)
		troubled(t, s, executionv1.ReasonParseDefinitionNotFound, `ParseDefinition "test-txt" not found`)
		create(t, parser(ns, "test-txt"))
		wantJobs(t, wantDone(t, s), "scanner", "parser")
	})
}

// TestDefect15MissingKinds: after a while a missing kind ends the Scan, and the
// message says what to install.
func TestDefect15MissingKinds(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	// All charts are installed for the whole cluster: it takes a scanner that has none.
	errored(t, scans.New(ns, "nothing", "zmap"), executionv1.ReasonScanTypeNotFound, "zmap", "helm install zmap")
	errored(t, scans.NewClusterWide(ns, "nothing-wide", "zmap"), executionv1.ReasonScanTypeNotFound, "ClusterScanType", "zmap", "clusterWide=true")
}

// TestQuota: a quota holds a Scan up, says so, and lets it go on when it has room.
func TestQuota(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]corev1.ResourceName{"Jobs": "count/jobs.batch", "Pods": corev1.ResourcePods} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := prepared(t)
			quota := &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tight"},
				Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{what: resource.MustParse("0")}},
			}
			create(t, quota)
			eventuallyQuota(t, quota)
			s := shellScan(ns, "held-up", quick)
			troubled(t, s, executionv1.ReasonQuotaExceeded, "exceeded quota: tight")
			if err := w.admin.Delete(t.Context(), quota); err != nil {
				t.Fatal(err)
			}
			wantJobs(t, wantDone(t, s), "scanner", "parser")
		})
	}
}

// TestDefect24JobRejected: what the API server refuses for good ends the Scan with its
// answer.
func TestDefect24JobRejected(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	s := shellScan(ns, "twice", quick)
	s.Spec.Volumes = []corev1.Volume{{Name: "same"}, {Name: "same"}}
	errored(t, s, executionv1.ReasonJobRejected, "volumes", "Duplicate value", "same")
	wantJobs(t, s)
}

// TestPodsRefused: a policy that refuses pods, not Jobs, shows too.
func TestPodsRefused(t *testing.T) {
	t.Parallel()
	ns := namespace(t, "pod-security.kubernetes.io/enforce=restricted")
	create(t, shellType(ns, "test-txt"), parser(ns, "test-txt")) // its scanner may run as root
	troubled(t, shellScan(ns, "refused", quick), executionv1.ReasonPodRejected, "violates PodSecurity")
}

// TestFailingScannerShows: a scanner that is restarted says so, and at the end why it failed.
func TestFailingScannerShows(t *testing.T) {
	t.Parallel()
	ns := prepared(t)
	s := shellScan(ns, "crashes", "echo 'no such target' >/dev/termination-log; exit 7")
	got := errored(t, s, executionv1.ReasonScannerFailed, "code 7", "no such target")
	wantJobs(t, got, "scanner")
	if keys := stored(t, got); len(keys) > 0 {
		t.Errorf("a scanner that failed has stored %v", keys)
	}
}

// eventuallyQuota waits until a quota counts: before that it lets everything pass.
func eventuallyQuota(t *testing.T, q *corev1.ResourceQuota) {
	t.Helper()
	eventually(t, "the quota to count", func(ctx context.Context) (bool, error) {
		var have corev1.ResourceQuota
		err := w.admin.Get(ctx, client.ObjectKeyFromObject(q), &have)
		return len(have.Status.Hard) > 0, err
	})
}

// TestSuspendedJob: a ScanType may leave the start to a queue such as Kueue.
func TestSuspendedJob(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, shellType(ns, "test-txt", func(j *batchv1.JobSpec) { yes := true; j.Suspend = &yes }), parser(ns, "test-txt"))
	s := shellScan(ns, "queued", quick)
	create(t, s)
	until(t, s, "say that its Job is suspended", func(s *executionv1.Scan) bool { return scans.Ready(s).Reason == executionv1.ReasonJobSuspended })
	job := jobsOf(s)["scanner"].DeepCopy()
	if err := w.admin.Patch(t.Context(), job, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`))); err != nil {
		t.Fatal(err)
	}
	wantJobs(t, wantDone(t, s), "scanner", "parser")
}
