// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// giveUp plays the results endpoint: it writes the annotation, and is killed then.
func (w *world) giveUp(name string) {
	w.Helper()
	s := w.get(name)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, executionv1.AnnotationReleased, s.Revision())
	w.Expect(w.Client.Patch(w.Context(), s, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// filled settles a Scan whose results are stored and forwarded.
func (w *world) filled(name string, options ...func(*executionv1.Scan)) *executionv1.Scan {
	w.Helper()
	s := w.settle(name, options...)
	for _, file := range []string{"nmap-results.xml", "extra.txt", executionv1.FindingsFile} {
		w.put(s, file, "[]")
	}
	w.forwarded(name, metav1.ConditionTrue, "Complete")
	return s
}

// wantRemoved waits until nothing of the results is left.
func (w *world) wantRemoved(s *executionv1.Scan) {
	w.Helper()
	w.Eventually(w.condition(s.Name, executionv1.ConditionResultsStored)).Should(Equal("False/" + executionv1.ReasonRemovedAfterForwarding))
	for _, file := range []string{"nmap-results.xml", "extra.txt", executionv1.FindingsFile} {
		w.Expect(w.stored(s, file)).To(BeFalse(), file)
	}
	is := w.get(s.Name).Status
	w.Expect(is.FindingDownloadLink + is.FindingHeadLink + is.RawResultDownloadLink + is.RawResultHeadLink + is.ScannerLogDownloadLink).To(BeEmpty())
	w.Expect(is.State).To(Equal(executionv1.ScanStateDone))
}

// TestReleasedResultsGo, and nobody takes what is missing then for lost: neither an operator that comes later and finds no Job
// either, nor who asks for a part of the Scan again.
func TestReleasedResultsGo(t *testing.T) {
	w := newWorld(t)
	w.forwardTo(setHold(0))
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition())
	s := w.filled("s")
	w.giveUp("s")
	w.wantRemoved(s)
	w.stop()
	for _, j := range w.jobs("") {
		w.Expect(w.Client.Delete(t.Context(), &j, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	}
	w.run(nil)
	w.ask("s", "parser")
	w.Eventually(w.condition("s", executionv1.ConditionRerun)).Should(Equal("False/" + executionv1.ReasonRerunRefused))
	w.Expect(w.get("s").Status.State).To(Equal(executionv1.ScanStateDone))
	w.Expect(w.jobs("")).To(BeEmpty())
	w.ask("s", "scanner")
	w.Eventually(func() int32 { return w.get("s").Revision() }).Should(Equal(int32(2)))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	again := w.get("s")
	w.Expect(again.Annotations).NotTo(HaveKey(executionv1.AnnotationReleased))
	w.Expect(w.condition("s", executionv1.ConditionResultsStored)()).To(BeEmpty())
}

// TestReleaseSurvivesFaults: whatever call fails, before or after it has had its effect, nothing is left in the end.
func TestReleaseSurvivesFaults(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := 1; at <= 3; at++ { // says that it removes, removes, says that it has
			t.Run(fmt.Sprintf("call %d, after %t", at, after), func(t *testing.T) {
				w := newWorld(t)
				w.forwardTo(setHold(0))
				w.completeAll()
				w.Create(w.scanType(), w.parseDefinition())
				s := w.filled("s")
				w.faults.mu.Lock()
				w.faults.at, w.faults.after, w.faults.calls = at, after, nil
				w.faults.match = func(call string) bool { return call == "remove stored" || call == "patch status of v1.Scan" }
				w.faults.mu.Unlock()
				w.giveUp("s")
				w.wantRemoved(s)
				w.Expect(w.faults.count()).To(BeNumerically(">=", 3))
			})
		}
	}
}

// TestCopiedScansAreNotReleased: annotations are copied with a Scan.
func TestCopiedScansAreNotReleased(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition())
	copied := func(s *executionv1.Scan) {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, executionv1.AnnotationReleased, "1")
	}
	w.Create(w.scan("taken-up", copied))
	w.Create(w.scan("with-finalizer", copied, func(s *executionv1.Scan) { s.Finalizers = []string{executionv1.FinalizerStorage} }))
	for _, name := range []string{"taken-up", "with-finalizer"} {
		w.Eventually(w.state(name)).Should(Equal(executionv1.ScanStateDone))
		w.Expect(w.get(name).Annotations).NotTo(HaveKey(executionv1.AnnotationReleased))
		w.Expect(w.condition(name, executionv1.ConditionResultsStored)()).To(BeEmpty())
	}
}

// TestReleasedRunsAreNotCompared: hooks get the last run whose findings are there.
func TestReleasedRunsAreNotCompared(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.hook("reader", executionv1.ReadOnly, 0), w.scan("first"))
	w.Expect(w.previousOf("first")).To(BeEmpty())
	w.nextSecond("first")
	w.Create(w.scan("second"))
	w.Expect(w.previousOf("second")).To(ContainSubstring(string(w.get("first").UID)))
	w.giveUp("second")
	w.Eventually(w.condition("second", executionv1.ConditionResultsStored)).Should(Equal("False/" + executionv1.ReasonRemovedAfterForwarding))
	w.nextSecond("second")
	w.Create(w.scan("third"))
	w.Expect(w.previousOf("third")).To(ContainSubstring(string(w.get("first").UID)))
}
