// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// previousOf waits for a Scan's end and returns what its hook was given to compare with.
func (w *world) previousOf(name string) string {
	w.Helper()
	w.Eventually(w.state(name)).Should(Equal(executionv1.ScanStateDone))
	return previousIn(w.hookJob(name))
}

func (w *world) hookJob(name string) *batchv1.Job {
	w.Helper()
	for _, j := range w.jobs(executionv1.JobTypeReadOnlyHook) {
		if c := metav1.GetControllerOf(&j); c != nil && c.Name == name {
			return &j
		}
	}
	w.Fatalf("Scan %s has no hook Job", name)
	return nil
}

func previousIn(j *batchv1.Job) string {
	for _, e := range j.Spec.Template.Spec.Containers[0].Env {
		if e.Name == "PREVIOUS_FINDINGS_URL" {
			return e.Value
		}
	}
	return ""
}

// nextSecond waits until Scans that are created now are later than one.
func (w *world) nextSecond(name string) {
	w.Helper()
	created := w.get(name).CreationTimestamp
	w.Eventually(time.Now).Should(BeTemporally(">", created.Add(time.Second)))
}

// TestHooksCompareWithTheSameTarget: Scans of one target are compared, whoever has started
// them, also by an operator that comes later.
func TestHooksCompareWithTheSameTarget(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.hook("reader", executionv1.ReadOnly, 0), w.scan("first"))
	w.Expect(w.previousOf("first")).To(BeEmpty())
	first := string(w.get("first").UID)
	w.nextSecond("first")

	w.Create(w.scan("second"), w.scan("elsewhere", func(s *executionv1.Scan) { s.Spec.Parameters = []string{"example.org"} }))
	w.Expect(w.previousOf("elsewhere")).To(BeEmpty())
	w.Expect(w.previousOf("second")).To(And(ContainSubstring("scan-"+first+"/findings.json"), ContainSubstring("X-Amz-Expires=3600")))
	second := w.get("second")
	w.nextSecond("second")

	// A child of a cascade, as another Scan starts it.
	w.Create(w.scan("child", func(s *executionv1.Scan) {
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(second, executionv1.SchemeGroupVersion.WithKind("Scan"))}
	}))
	w.Expect(w.previousOf("child")).To(ContainSubstring("scan-" + string(second.UID) + "/"))

	w.Create(w.scan("labelled", func(s *executionv1.Scan) { s.Labels = map[string]string{executionv1.LabelTarget: "shop"} }))
	w.Expect(w.previousOf("labelled")).To(BeEmpty())
	w.nextSecond("labelled")
	w.Create(w.scan("relabelled", func(s *executionv1.Scan) {
		s.Labels, s.Spec.Parameters = map[string]string{executionv1.LabelTarget: "shop"}, []string{"-A", "example.net"}
	}))
	w.Expect(w.previousOf("relabelled")).To(ContainSubstring("scan-" + string(w.get("labelled").UID) + "/"))

	// What is gone is nothing to compare with.
	w.Expect(w.Client.Delete(t.Context(), w.get("child"))).To(Succeed())
	w.Expect(w.Client.Delete(t.Context(), w.get("second"))).To(Succeed())
	w.Eventually(w.gone("second")).Should(BeTrue())
	w.Eventually(w.gone("child")).Should(BeTrue())
	w.Create(w.scan("third"))
	w.Expect(w.previousOf("third")).To(ContainSubstring("scan-" + first + "/"))
}

// TestComparisonAfterOperatorRestart: Scans that had ended before the operator came count as well.
func TestComparisonAfterOperatorRestart(t *testing.T) {
	w := newQuietWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.hook("reader", executionv1.ReadOnly, 0), w.scan("old"))
	old := w.get("old")
	old.Status = executionv1.ScanStatus{State: executionv1.ScanStateDone, FinishedAt: &metav1.Time{Time: time.Now()}, RawResultFile: "x", RawResultType: "nmap-xml"}
	w.Expect(w.Client.Status().Update(t.Context(), old)).To(Succeed())
	w.nextSecond("old")
	w.Create(w.scan("new"))
	w.completeAll()
	w.run(nil)
	w.Expect(w.previousOf("new")).To(ContainSubstring("scan-" + string(old.UID) + "/"))
}
