// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/ledger"
	"github.com/scanyard/scanyard/tests/scans"
)

// patience bounds waits, only to end a broken test: a Job that fails is tried four
// times by Kubernetes, with pauses of 70 s in all.
const patience = 4 * time.Minute

// bounded is the test's context with the bound of patience.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// namespace makes one for the test and removes it at the end.
func namespace(t *testing.T, labels ...string) string {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: map[string]string{}}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		n.Labels[k] = v
	}
	create(t, n)
	t.Cleanup(func() {
		if err := w.admin.Delete(context.WithoutCancel(t.Context()), n); err != nil {
			t.Errorf("delete namespace: %v", err)
		}
	})
	return n.Name
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := w.admin.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

// createGlobal makes an object without a namespace and removes it at the end.
func createGlobal(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		create(t, o)
		t.Cleanup(func() {
			if err := w.admin.Delete(context.WithoutCancel(t.Context()), o); client.IgnoreNotFound(err) != nil {
				t.Errorf("delete %T %s: %v", o, o.GetName(), err)
			}
		})
	}
}

func chart(t *testing.T, name, namespace string, values map[string]any) {
	t.Helper()
	release(t, install.Release{Chart: name, Namespace: namespace, Values: values})
}

func release(t *testing.T, r install.Release) {
	t.Helper()
	if err := w.helm.Install(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// until waits until a condition over a Scan holds.
func until(t *testing.T, s *executionv1.Scan, what string, cond func(*executionv1.Scan) bool) *executionv1.Scan {
	t.Helper()
	got, err := w.scans.Until(bounded(t), s.Namespace, s.Name, func(s *executionv1.Scan, there bool) bool { return there && cond(s) })
	if err != nil {
		if got == nil {
			t.Fatalf("waiting for Scan %s to %s: it does not exist: %v", s.Name, what, err)
		}
		t.Fatalf("waiting for Scan %s to %s: %v\nstate %q, %s: %s", s.Name, what, err, got.Status.State, scans.Ready(got).Reason, scans.Ready(got).Message)
	}
	return got
}

// settled waits for the end of a Scan.
func settled(t *testing.T, s *executionv1.Scan) *executionv1.Scan {
	t.Helper()
	return until(t, s, "end", (*executionv1.Scan).Settled)
}

// done applies a Scan and waits for its good end.
func done(t *testing.T, s *executionv1.Scan) *executionv1.Scan {
	t.Helper()
	create(t, s)
	return wantDone(t, s)
}

// wantDone waits for the good end of a Scan.
func wantDone(t *testing.T, s *executionv1.Scan) *executionv1.Scan {
	t.Helper()
	got := settled(t, s)
	if got.Status.State != executionv1.ScanStateDone {
		t.Fatalf("Scan %s ended %s: %s", s.Name, got.Status.State, got.Status.ErrorDescription)
	}
	return got
}

// errored applies a Scan and waits for its bad end, with a reason and words.
func errored(t *testing.T, s *executionv1.Scan, reason string, says ...string) *executionv1.Scan {
	t.Helper()
	create(t, s)
	got := settled(t, s)
	if got.Status.State != executionv1.ScanStateErrored {
		t.Fatalf("Scan %s ended %s, want Errored for %s", s.Name, got.Status.State, reason)
	}
	wantTrouble(t, got, reason, says...)
	if got.Status.ErrorDescription == "" {
		t.Error("an Errored Scan has no errorDescription")
	}
	return got
}

// troubled applies a Scan and waits until its condition and an Event give a reason.
func troubled(t *testing.T, s *executionv1.Scan, reason string, says ...string) *executionv1.Scan {
	t.Helper()
	create(t, s)
	got := until(t, s, "say "+reason, func(s *executionv1.Scan) bool { return scans.Ready(s).Reason == reason || s.Settled() })
	wantTrouble(t, got, reason, says...)
	return got
}

func wantTrouble(t *testing.T, s *executionv1.Scan, reason string, says ...string) {
	t.Helper()
	ready := scans.Ready(s)
	if ready.Reason != reason {
		t.Fatalf("condition Ready has reason %s, want %s: %s", ready.Reason, reason, ready.Message)
	}
	for _, part := range says {
		if !strings.Contains(ready.Message, part) {
			t.Errorf("condition Ready does not say %q: %s", part, ready.Message)
		}
	}
	if strings.Contains(ready.Message, "X-Amz-") {
		t.Errorf("the condition shows a presigned URL: %s", ready.Message)
	}
	wantEvent(t, s, reason)
}

// wantEvent waits for an Event on the Scan.
func wantEvent(t *testing.T, s *executionv1.Scan, reason string) {
	t.Helper()
	var seen []string
	eventually(t, "Event "+reason, func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := w.admin.List(ctx, &list, client.InNamespace(s.Namespace))
		seen = nil
		for _, e := range list.Items {
			if e.Regarding.UID == s.UID {
				seen = append(seen, e.Reason)
			}
		}
		return slices.Contains(seen, reason), err
	}, &seen)
}

// eventually polls what no watch shows; more is printed when it never comes.
func eventually(t *testing.T, what string, f func(context.Context) (bool, error), more ...any) {
	t.Helper()
	if err := wait.PollUntilContextCancel(bounded(t), 100*time.Millisecond, true, f); err != nil {
		t.Fatalf("waiting for %s: %v %v", what, err, more)
	}
}

// gone waits until an object does not exist.
func gone(t *testing.T, o client.Object) {
	t.Helper()
	eventually(t, o.GetName()+" to be gone", func(ctx context.Context) (bool, error) {
		have, ok := o.DeepCopyObject().(client.Object)
		if !ok {
			t.Fatalf("%T is no object", o)
		}
		err := w.admin.Get(ctx, client.ObjectKeyFromObject(o), have)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && have.GetUID() != o.GetUID(), err
	})
}

// findings downloads the findings of a Scan.
func findings(t *testing.T, s *executionv1.Scan) []finding.Finding {
	t.Helper()
	got, err := scans.Findings(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// stored lists what object storage has for a Scan.
func stored(t *testing.T, s *executionv1.Scan) []string {
	t.Helper()
	var keys []string
	for o := range w.store.ListObjects(t.Context(), w.bucket, minio.ListObjectsOptions{Prefix: prefix(s), Recursive: true}) {
		if o.Err != nil {
			t.Fatalf("list objects: %v", o.Err)
		}
		keys = append(keys, strings.TrimPrefix(o.Key, prefix(s)))
	}
	slices.Sort(keys)
	return keys
}

func prefix(s *executionv1.Scan) string { return "scan-" + string(s.UID) + "/" }

// jobsOf lists the Jobs of a Scan that exist, by role.
func jobsOf(s *executionv1.Scan) map[string]*batchv1.Job {
	out := map[string]*batchv1.Job{}
	for _, j := range w.jobs.All() {
		if ledger.ScanOf(j) == s.UID {
			role := j.Labels[executionv1.LabelJobType]
			if hook := j.Labels[executionv1.LabelHookName]; hook != "" {
				role = hook
			}
			out[role] = j
		}
	}
	return out
}

// wantJobs holds the Jobs that a Scan has ever had against those it should have had,
// each once.
func wantJobs(t *testing.T, s *executionv1.Scan, roles ...string) {
	t.Helper()
	if err := w.ran.Check(s, roles...); err != nil {
		t.Error(err)
	}
}
