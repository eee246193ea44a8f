// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/ledger"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/webhook"
)

// patience bounds waits, only to end a broken test: a Job that fails is tried four
// times by Kubernetes, with pauses of 70 s in all, and on a busy machine each container
// takes ten times as long as on a quiet one.
const patience = 8 * time.Minute

// bounded is the test's context with the bound of patience.
func bounded(ctx context.Context) context.Context {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	DeferCleanup(cancel)
	return ctx
}

// namespace makes one for the test and removes it at the end.
func namespace(ctx context.Context, labels ...string) string {
	GinkgoHelper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: map[string]string{}}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		n.Labels[k] = v
	}
	create(ctx, n)
	DeferCleanup(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			showNamespace(ctx, n.Name)
		}
		Expect(w.admin.Delete(ctx, n)).To(Succeed(), "delete namespace")
	})
	return n.Name
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		Expect(w.admin.Create(ctx, o)).To(Succeed(), "create %T %s", o, o.GetName())
	}
}

// createGlobal makes an object without a namespace and removes it at the end.
func createGlobal(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		create(ctx, o)
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(w.admin.Delete(ctx, o))).To(Succeed(), "delete %T %s", o, o.GetName())
		})
	}
}

func chart(ctx context.Context, name, namespace string, values map[string]any) {
	GinkgoHelper()
	release(ctx, install.Release{Chart: name, Namespace: namespace, Values: values})
}

func release(ctx context.Context, r install.Release) {
	GinkgoHelper()
	Expect(w.helm.Install(ctx, r)).To(Succeed())
}

// until waits until a condition over a Scan holds.
func until(ctx context.Context, s *executionv1.Scan, what string, cond func(*executionv1.Scan) bool) *executionv1.Scan {
	GinkgoHelper()
	got, err := w.scans.Until(bounded(ctx), s.Namespace, s.Name, func(s *executionv1.Scan, there bool) bool { return there && cond(s) })
	if err != nil {
		Expect(got).NotTo(BeNil(), "waiting for Scan %s to %s: it does not exist: %v", s.Name, what, err)
		Fail(fmt.Sprintf("waiting for Scan %s to %s: %v\nstate %q, %s: %s", s.Name, what, err, got.Status.State, scans.Ready(got).Reason, scans.Ready(got).Message))
	}
	return got
}

// settled waits for the end of a Scan.
func settled(ctx context.Context, s *executionv1.Scan) *executionv1.Scan {
	GinkgoHelper()
	return until(ctx, s, "end", (*executionv1.Scan).Settled)
}

// done applies a Scan and waits for its good end.
func done(ctx context.Context, s *executionv1.Scan) *executionv1.Scan {
	GinkgoHelper()
	create(ctx, s)
	return wantDone(ctx, s)
}

// wantDone waits for the good end of a Scan.
func wantDone(ctx context.Context, s *executionv1.Scan) *executionv1.Scan {
	GinkgoHelper()
	got := settled(ctx, s)
	Expect(got.Status.State).To(Equal(executionv1.ScanStateDone), "Scan %s ended %s: %s", s.Name, got.Status.State, got.Status.ErrorDescription)
	return got
}

// errored applies a Scan and waits for its bad end, with a reason and words.
func errored(ctx context.Context, s *executionv1.Scan, reason string, says ...string) *executionv1.Scan {
	GinkgoHelper()
	create(ctx, s)
	got := settled(ctx, s)
	Expect(got.Status.State).To(Equal(executionv1.ScanStateErrored), "Scan %s ended %s, want Errored for %s", s.Name, got.Status.State, reason)
	wantTrouble(ctx, got, reason, says...)
	Expect(got.Status.ErrorDescription).NotTo(BeEmpty(), "an Errored Scan has no errorDescription")
	return got
}

// troubled applies a Scan and waits until its condition and an Event give a reason.
func troubled(ctx context.Context, s *executionv1.Scan, reason string, says ...string) *executionv1.Scan {
	GinkgoHelper()
	create(ctx, s)
	got := until(ctx, s, "say "+reason, func(s *executionv1.Scan) bool { return scans.Ready(s).Reason == reason || s.Settled() })
	wantTrouble(ctx, got, reason, says...)
	return got
}

func wantTrouble(ctx context.Context, s *executionv1.Scan, reason string, says ...string) {
	GinkgoHelper()
	ready := scans.Ready(s)
	Expect(ready.Reason).To(Equal(reason), "condition Ready has reason %s, want %s: %s", ready.Reason, reason, ready.Message)
	for _, part := range says {
		Expect(ready.Message).To(ContainSubstring(part), "condition Ready does not say %q: %s", part, ready.Message)
	}
	Expect(ready.Message).NotTo(ContainSubstring("X-Amz-"), "the condition shows a presigned URL: %s", ready.Message)
	wantEvent(ctx, s, reason)
}

// wantEvent waits for an Event on the Scan.
func wantEvent(ctx context.Context, s *executionv1.Scan, reason string) {
	GinkgoHelper()
	var seen []string
	eventually(ctx, "Event "+reason, func(ctx context.Context) (bool, error) {
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

// eventually polls what no watch shows; more is printed when it never comes. An error ends it.
func eventually(ctx context.Context, what string, f func(context.Context) (bool, error), more ...any) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (bool, error) {
		ok, err := f(ctx)
		if err != nil && ctx.Err() == nil {
			return false, StopTrying(what).Wrap(err)
		}
		return ok, nil
	}).WithTimeout(patience).WithPolling(100*time.Millisecond).Should(BeTrue(), func() string {
		return fmt.Sprint(append([]any{"waiting for " + what}, more...)...)
	})
}

// gone waits until an object does not exist.
func gone(ctx context.Context, o client.Object) {
	GinkgoHelper()
	eventually(ctx, o.GetName()+" to be gone", func(ctx context.Context) (bool, error) {
		have, ok := o.DeepCopyObject().(client.Object)
		Expect(ok).To(BeTrue(), "%T is not an object", o)
		err := w.admin.Get(ctx, client.ObjectKeyFromObject(o), have)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && have.GetUID() != o.GetUID(), err
	})
}

// findings downloads the findings of a Scan.
func findings(ctx context.Context, s *executionv1.Scan) []finding.Finding {
	GinkgoHelper()
	got, err := scans.Findings(ctx, s)
	Expect(err).NotTo(HaveOccurred())
	return got
}

// stored lists what object storage has for a Scan.
func stored(ctx context.Context, s *executionv1.Scan) []string {
	GinkgoHelper()
	var keys []string
	for o := range w.store.ListObjects(ctx, w.bucket, minio.ListObjectsOptions{Prefix: prefix(s), Recursive: true}) {
		Expect(o.Err).NotTo(HaveOccurred(), "list objects")
		keys = append(keys, strings.TrimPrefix(o.Key, prefix(s)))
	}
	slices.Sort(keys)
	return keys
}

// resultsOf lists the same without the end of the scanner's log, which is there however the scanner has ended.
func resultsOf(ctx context.Context, s *executionv1.Scan) []string {
	GinkgoHelper()
	return slices.DeleteFunc(stored(ctx, s), func(key string) bool { return key == executionv1.ScannerLogFile })
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

// podsOf lists the pods of a namespace, or those of them that options choose.
func podsOf(ctx context.Context, namespace string, which ...client.ListOption) []corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(w.admin.List(ctx, &pods, append(which, client.InNamespace(namespace))...)).To(Succeed())
	return pods.Items
}

// ofJob chooses the pods of a Job.
func ofJob(job *batchv1.Job) client.ListOption {
	return client.MatchingLabels{batchv1.JobNameLabel: job.Name}
}

// wantJobs holds the Jobs that a Scan has ever had against those it should have had,
// each once.
func wantJobs(s *executionv1.Scan, roles ...string) {
	GinkgoHelper()
	Expect(w.ran.Check(s, roles...)).To(Succeed())
}

// showNamespace prints what there is to know about a spec that has failed: the Scans of its
// namespace, their Events and Jobs, the logs of their pods, and what the operator logged of them.
func showNamespace(ctx context.Context, ns string) {
	in := client.InNamespace(ns)
	var all executionv1.ScanList
	if err := w.admin.List(ctx, &all, in); err != nil {
		GinkgoWriter.Println("list Scans:", err)
	}
	for i := range all.Items {
		s := &all.Items[i]
		GinkgoWriter.Printf("Scan %s/%s is %q, %s: %s %s\n", ns, s.Name, s.Status.State, scans.Ready(s).Reason, scans.Ready(s).Message, s.Status.ErrorDescription)
	}
	var events eventsv1.EventList
	if err := w.admin.List(ctx, &events, in); err != nil {
		GinkgoWriter.Println("list Events:", err)
	}
	for i := range events.Items {
		e := &events.Items[i]
		GinkgoWriter.Printf("Event of %s %s: %s: %s\n", e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note)
	}
	var pods corev1.PodList
	if err := w.admin.List(ctx, &pods, in); err != nil {
		GinkgoWriter.Println("list pods:", err)
	}
	const last = 20
	for i := range pods.Items {
		for _, c := range pods.Items[i].Spec.Containers {
			log, err := w.kube.CoreV1().Pods(ns).GetLogs(pods.Items[i].Name, &corev1.PodLogOptions{Container: c.Name, TailLines: new(int64(last))}).DoRaw(ctx)
			GinkgoWriter.Printf("log of %s, %s (%v):\n%s\n", pods.Items[i].Name, c.Name, err, log)
		}
	}
	logs, err := w.op.Logs(ctx)
	mine := slices.Collect(strings.Lines(linesWith(logs, ns)))
	GinkgoWriter.Printf("the operator logged (%v):\n%s\n", err, strings.Join(mine[max(0, len(mine)-last):], ""))
}

// delivered is what was posted to a path of the receiver that all specs share.
func delivered(ctx context.Context, path string) []webhook.Delivery {
	GinkgoHelper()
	got, err := w.hooks.At(ctx, path)
	Expect(err).NotTo(HaveOccurred())
	return got
}

// inOrder goes through cases by their names: all processes have to make the same specs.
func inOrder[C any](cases map[string]C) iter.Seq2[string, C] {
	return func(yield func(string, C) bool) {
		for _, name := range slices.Sorted(maps.Keys(cases)) {
			if !yield(name, cases[name]) {
				return
			}
		}
	}
}

// slow are specs that wait for more than a minute, mostly for the pauses between the tries of a
// Job. They start first, so that nothing waits for them at the end.
var slow = []any{Label("slow"), SpecPriority(1)}

// defect is the label of specs that hold against one of the numbered defects of
// secureCodeBox, which docs/defects.md lists.
func defect(numbers ...int) Labels {
	var all Labels
	for _, n := range numbers {
		all = append(all, fmt.Sprintf("defect-%d", n))
	}
	return all
}
