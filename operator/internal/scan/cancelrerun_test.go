// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/scan"
)

// cancel sets spec.cancel as a user with kubectl does.
func (w *world) cancel(name string) {
	w.Helper()
	w.Expect(w.Client.Patch(w.Context(), w.get(name), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":true}}`)),
		client.FieldOwner("kubectl-patch"))).To(Succeed())
}

// ask sets the annotation that asks for a re-run.
func (w *world) ask(name, what string) {
	w.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, executionv1.AnnotationRerun, what)
	w.Expect(w.Client.Patch(w.Context(), w.get(name), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// wipe replaces the whole status by another, as old clients do.
func (w *world) wipe(name string, with executionv1.ScanStatus) {
	w.Helper()
	content, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/status", "value": with}})
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(w.Client.Status().Patch(w.Context(), w.get(name), client.RawPatch(types.JSONPatchType, content))).To(Succeed())
}

// condition polls "Status/Reason" of a condition.
func (w *world) condition(name, kind string) func() string {
	return func() string {
		if c := meta.FindStatusCondition(w.get(name).Status.Conditions, kind); c != nil {
			return string(c.Status) + "/" + c.Reason
		}
		return ""
	}
}

// numbers polls the numbers of the Jobs of a type, as "1,2".
func (w *world) numbers(jobType string) func() []string {
	return func() []string {
		numbers := []string{}
		for _, j := range w.jobs(jobType) {
			n := j.Labels[executionv1.LabelAttempt]
			if n == "" {
				n = "1"
			}
			numbers = append(numbers, n)
		}
		return numbers
	}
}

// collect plays the garbage collector: Jobs that are deleted with their pods go when
// these have gone. There are none here.
func (w *world) collect() {
	w.Helper()
	for _, j := range w.jobs("") {
		if j.DeletionTimestamp == nil || len(j.Finalizers) == 0 {
			continue
		}
		w.Expect(j.Finalizers).To(ConsistOf(metav1.FinalizerDeleteDependents), "its pods have to end first")
		w.Expect(client.IgnoreNotFound(w.Client.Patch(w.Context(), &j, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
	}
}

// wantCancelled waits until a Scan is cancelled and nothing of it runs.
func (w *world) wantCancelled(name string) {
	w.Helper()
	w.Eventually(w.condition(name, executionv1.ConditionCancelled)).Should(Equal("True/CancelledByUser"))
	w.Expect(w.state(name)()).To(Equal(executionv1.ScanStateErrored))
	w.Expect(w.get(name).Status.ErrorDescription).To(ContainSubstring(`"kubectl-patch"`))
	w.Eventually(func(g Gomega) {
		for _, j := range w.jobs("") {
			g.Expect(j.DeletionTimestamp != nil || len(j.Status.Conditions) > 0).To(BeTrue(), "Job %s runs on", j.Name)
		}
	}).Should(Succeed())
	w.collect()
}

// TestCancelInEveryPhase cancels a Scan whose scanner, parser or hook runs, that waits for
// its ScanType, and that is suspended.
func TestCancelInEveryPhase(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.hook("reader", executionv1.ReadOnly, 0))
	until := map[string]struct {
		phase string
		live  func(name string)
	}{
		"waits":     {executionv1.ConditionScanned, func(name string) { w.Eventually(w.ready(name)).Should(Equal(executionv1.ReasonScanTypeNotFound)) }},
		"suspended": {executionv1.ConditionScanned, func(name string) { w.Eventually(w.ready(name)).Should(Equal(executionv1.ReasonSuspended)) }},
		"scanner":   {executionv1.ConditionScanned, func(name string) { w.jobOf(name, executionv1.JobTypeScanner) }},
		"parser": {executionv1.ConditionParsed, func(name string) {
			w.finish(w.jobOf(name, executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
			w.jobOf(name, executionv1.JobTypeParser)
		}},
		"hook": {executionv1.ConditionHooksCompleted, func(name string) {
			w.finish(w.jobOf(name, executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
			w.finish(w.jobOf(name, executionv1.JobTypeParser), batchv1.JobComplete, "CompletionsReached")
			w.jobOf(name, executionv1.JobTypeReadOnlyHook)
		}},
	}
	for name, tc := range until {
		t.Run(name, func(t *testing.T) {
			s := w.scan(name)
			switch name {
			case "waits":
				s.Spec.ScanType = "no-such"
			case "suspended":
				s.Spec.Suspend = new(true)
			}
			w.Create(s)
			tc.live(name)
			w.cancel(name)
			w.wantCancelled(name)
			w.Expect(w.condition(name, tc.phase)()).To(Equal("False/CancelledByUser"))
			w.Eventually(func() string { return w.events(name) }).Should(ContainSubstring(`spec.cancel was set by "kubectl-patch"`))
			// Its result arrives after all, and another client changes it.
			w.put(w.get(name), "nmap-results.xml", "<late/>")
			before := len(w.jobs(""))
			version := w.get(name).Status
			w.touch(name)
			w.Consistently(func() executionv1.ScanStatus { return w.get(name).Status }, "500ms").Should(Equal(version))
			w.Expect(len(w.jobs(""))).To(BeNumerically("<=", before))
			w.Expect(w.Client.Delete(w.Context(), w.get(name))).To(Succeed())
			w.Eventually(func() bool { w.collect(); return w.gone(name)() }).Should(BeTrue())
		})
	}
}

// jobOf waits for the Job of a type of one Scan.
func (w *world) jobOf(name, jobType string) *batchv1.Job {
	w.Helper()
	var found *batchv1.Job
	w.Eventually(func() *batchv1.Job {
		found = nil
		for _, j := range w.jobs(jobType) {
			if c := metav1.GetControllerOf(&j); c != nil && c.Name == name && j.DeletionTimestamp == nil && len(j.Status.Conditions) == 0 {
				found = &j
			}
		}
		return found
	}).ShouldNot(BeNil())
	return found
}

// TestCancelWhileAJobIsMade: the operator fails after it has made the scanner Job and
// before it has written the status; then the Scan is cancelled.
func TestCancelWhileAJobIsMade(t *testing.T) {
	for _, lost := range []string{"BeforeTheStatus", "StatusConflicts"} {
		t.Run(lost, func(t *testing.T) {
			w := newWorld(t)
			started := make(chan struct{})
			w.faults.match = func(call string) bool { return call == "create Job" }
			w.faults.at, w.faults.after = 1, lost == "BeforeTheStatus"
			if lost == "StatusConflicts" {
				w.faults.match = func(call string) bool {
					if call != "patch status of v1.Scan" {
						return false
					}
					select {
					case <-started:
					default:
						close(started)
						w.cancel("s") // in the middle of the pass
					}
					return false
				}
			}
			w.Create(w.scanType(), w.scan("s"))
			if lost == "BeforeTheStatus" {
				w.jobOf("s", executionv1.JobTypeScanner)
				w.cancel("s")
			}
			w.wantCancelled("s")
			w.Eventually(func() int { w.collect(); return len(w.jobs("")) }).Should(BeZero())
		})
	}
}

// TestCancelThroughEveryFault fails each write of a cancellation in turn, as when the
// operator is ended in the midst of it.
func TestCancelThroughEveryFault(t *testing.T) {
	for at := 1; at <= 3; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/after=%t", at, after), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.Create(w.scanType(), w.scan("s"))
				w.jobOf("s", executionv1.JobTypeScanner)
				w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
				w.faults.mu.Lock()
				w.faults.calls, w.faults.at, w.faults.after = nil, at, after
				w.faults.mu.Unlock()
				w.cancel("s")
				w.wantCancelled("s")
				w.Eventually(func() int { w.collect(); return len(w.jobs("")) }).Should(BeZero())
			})
		}
	}
}

// TestCancelOfAnEndedScan: the Scan does not change, and an Event says so.
func TestCancelOfAnEndedScan(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	before := w.get("s").Status
	w.cancel("s")
	w.Eventually(w.condition("s", executionv1.ConditionCancelled)).Should(Equal("False/AlreadyEnded"))
	w.Eventually(func() string { return w.events("s") }).Should(ContainSubstring("nothing was changed"))
	after := w.get("s").Status
	meta.RemoveStatusCondition(&after.Conditions, executionv1.ConditionCancelled)
	after.ObservedGeneration = before.ObservedGeneration
	w.Expect(after).To(Equal(before))
	w.ask("s", "scanner")
	w.Eventually(w.condition("s", executionv1.ConditionRerun)).Should(Equal("False/RerunRefused"))
	w.Eventually(func() string { return w.events("s") }).Should(ContainSubstring("spec.cancel is true"))
}

// count plays a parser that writes its counts.
func (w *world) count(name string, findings int64) {
	w.Helper()
	patch := fmt.Sprintf(`{"status":{"findings":{"count":%d,"severities":{"high":%d},"categories":{"Open Port":%d}}}}`, findings, findings, findings)
	w.Expect(w.Client.Status().Patch(w.Context(), w.get(name), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// TestRerunPhases runs the parser and then the scanner of a Scan again, through status that
// another client wipes in the midst of it.
func TestRerunPhases(t *testing.T) {
	for _, wiped := range []bool{false, true} {
		t.Run(fmt.Sprintf("wiped=%t", wiped), func(t *testing.T) {
			w := newWorld(t)
			w.Create(w.scanType(), w.parseDefinition(), w.hook("reader", executionv1.ReadOnly, 0), w.scan("s"))
			end := func(jobType string) {
				w.finish(w.jobOf("s", jobType), batchv1.JobComplete, "CompletionsReached")
			}
			maybeWipe := func(jobType string) {
				w.jobOf("s", jobType)
				if wiped {
					w.wipe("s", executionv1.ScanStatus{})
				}
			}
			end(executionv1.JobTypeScanner)
			end(executionv1.JobTypeParser)
			end(executionv1.JobTypeReadOnlyHook)
			w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
			w.count("s", 3)
			w.put(w.get("s"), "nmap-results.xml", "<nmaprun/>")

			w.ask("s", "parser")
			parser := w.jobOf("s", executionv1.JobTypeParser)
			w.Expect(parser.Annotations).To(HaveKeyWithValue(executionv1.AnnotationRerun, "parser"))
			w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateParsing))
			w.Expect(w.get("s").Status.Findings.Count).To(BeNil())
			w.Expect(w.get("s").Status.FinishedAt).To(BeNil())
			maybeWipe(executionv1.JobTypeParser)
			end(executionv1.JobTypeParser)
			maybeWipe(executionv1.JobTypeReadOnlyHook)
			end(executionv1.JobTypeReadOnlyHook)
			w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
			w.Expect(w.numbers(executionv1.JobTypeScanner)()).To(ConsistOf("1"))
			w.Expect(w.numbers(executionv1.JobTypeParser)()).To(ConsistOf("1", "2"))
			w.Expect(w.numbers(executionv1.JobTypeReadOnlyHook)()).To(ConsistOf("1", "2"))

			w.ask("s", "scanner")
			maybeWipe(executionv1.JobTypeScanner)
			w.Expect(w.stored(w.get("s"), "nmap-results.xml")).To(BeTrue(), "the old result can still be read")
			end(executionv1.JobTypeScanner)
			maybeWipe(executionv1.JobTypeParser)
			end(executionv1.JobTypeParser)
			end(executionv1.JobTypeReadOnlyHook)
			w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
			s := w.get("s")
			w.Expect(s.Status.LastRerun).To(Equal("scanner"))
			w.Expect(s.Status.Attempts).To(Equal(&executionv1.PhaseAttempts{Scanner: 3, Parser: 3}))
			w.Expect(w.numbers(executionv1.JobTypeScanner)()).To(ConsistOf("1", "3"))
			w.Expect(w.numbers(executionv1.JobTypeReadOnlyHook)()).To(ConsistOf("1", "2", "3"))
			w.touch("s")
			w.Consistently(func() int { return len(w.jobs("")) }, "500ms").Should(Equal(8))
		})
	}
}

// TestRerunThroughEveryFault fails each write of a re-run of the scanner in turn.
func TestRerunThroughEveryFault(t *testing.T) {
	live := func(t *testing.T, at int, after bool) int {
		w := newWorld(t)
		w.completeAll()
		w.Create(w.scanType(), w.parseDefinition(), w.hook("reader", executionv1.ReadOnly, 0), w.scan("s"))
		w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
		w.faults.mu.Lock()
		w.faults.calls, w.faults.at, w.faults.after = nil, at, after
		w.faults.mu.Unlock()
		w.ask("s", "scanner@again")
		w.Eventually(func() bool {
			s := w.get("s")
			return s.Status.LastRerun == "scanner@again" && s.Status.State == executionv1.ScanStateDone
		}).Should(BeTrue())
		for _, kind := range []string{executionv1.JobTypeScanner, executionv1.JobTypeParser, executionv1.JobTypeReadOnlyHook} {
			w.Expect(w.numbers(kind)()).To(ConsistOf("1", "2"), kind)
		}
		return w.faults.count()
	}
	var writes int
	if !t.Run("None", func(t *testing.T) { writes = live(t, 0, false) }) {
		return
	}
	for at := 1; at <= writes; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%02d/after=%t", at, after), func(t *testing.T) {
				t.Parallel()
				live(t, at, after)
			})
		}
	}
}

// TestRerunRefusedSaysWhy: nothing is stored, links are off, the Scan still runs.
func TestRerunRefusedSaysWhy(t *testing.T) {
	w := newWorld(t, func(o *scan.Options) { o.Settings.StatusLinks = false })
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	refused := func(what, why string) {
		w.Helper()
		w.ask("s", what)
		w.Eventually(func() string { return w.get("s").Status.LastRerun }).Should(Equal(what))
		w.Expect(w.condition("s", executionv1.ConditionRerun)()).To(Equal("False/RerunRefused"))
		w.Eventually(func() string { return w.events("s") }).Should(ContainSubstring(why))
	}
	scanner := w.jobOf("s", executionv1.JobTypeScanner)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
	refused("scanner", "the Scan has not ended (Scanning)")
	w.finish(scanner, batchv1.JobFailed, "BackoffLimitExceeded")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	refused("parser", "storage has no raw result of this Scan (nmap-results.xml)")
	refused("links", "--status-links")
	w.Expect(w.state("s")()).To(Equal(executionv1.ScanStateErrored))
	w.Expect(w.jobs("")).To(HaveLen(1))
}

// TestFreshLinks: a Scan that has ended gets new links, and nothing else changes.
func TestFreshLinks(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.put(w.get("s"), executionv1.FindingsFile, "[]")
	old := w.get("s").Status
	expired := old
	expired.FindingDownloadLink = "https://s3.example.com/expired"
	w.wipe("s", expired)
	w.ask("s", "links")
	w.Eventually(w.condition("s", executionv1.ConditionRerun)).Should(Equal("True/LinksWritten"))
	s := w.get("s").Status
	w.Expect(s.FindingDownloadLink).To(ContainSubstring("X-Amz-Expires=604800"))
	w.Expect(s.RawResultHeadLink).NotTo(BeEmpty())
	w.Expect(s.State).To(Equal(executionv1.ScanStateDone))
	w.Expect(s.FinishedAt).To(Equal(old.FinishedAt))
	w.Expect(s.OrderedHookStatuses).To(Equal(old.OrderedHookStatuses))
	w.Expect(w.jobs("")).To(HaveLen(2))
}

// TestRerunAfterCancel: a Scan that was cancelled by mistake is scanned again; the pod of
// the cancelled scanner has to be gone first.
func TestRerunAfterCancel(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	first := w.jobOf("s", executionv1.JobTypeScanner)
	w.podOf(first, corev1.ContainerStateWaiting{Reason: "ContainerCreating"})
	w.cancel("s")
	w.Eventually(w.condition("s", executionv1.ConditionCancelled)).Should(Equal("True/CancelledByUser"))
	w.Expect(w.Client.Patch(t.Context(), w.get("s"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"cancel":false}}`)))).To(Succeed())
	w.ask("s", "scanner")
	w.Eventually(w.condition("s", executionv1.ConditionRerun)).Should(Equal("Unknown/RerunWaits"))
	w.Expect(w.jobs("")).To(HaveLen(1))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: first.Name + "-pod"}}
	w.Expect(w.Client.Delete(context.Background(), pod, &client.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})).To(Succeed())
	w.collect()
	second := w.jobOf("s", executionv1.JobTypeScanner)
	w.Expect(second.Name).NotTo(Equal(first.Name))
	w.Expect(second.Labels).To(HaveKeyWithValue(executionv1.LabelAttempt, "2"))
	w.Eventually(w.condition("s", executionv1.ConditionCancelled)).Should(BeEmpty())
}
