// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// runAgain plays that a part of a Scan that has ended is run again.
func (w *world) runAgain(s *executionv1.Scan, state executionv1.ScanState) {
	w.Helper()
	patch := fmt.Sprintf(`{"status":{"state":%q,"finishedAt":null,"findings":null}}`, state)
	w.Expect(w.Client.Status().Patch(w.Context(), s, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// TestFindingsOfARerun: a Scan that was run again shows what it has found this time.
func TestFindingsOfARerun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("s"))
	s := w.running(1)
	w.recorded("s")
	count := func() int64 {
		if c := w.get("s").Status.Findings.Count; c != nil {
			return *c
		}
		return -1
	}
	w.finish(&s[0], executionv1.ScanStateDone, 7)
	w.Eventually(count).Should(Equal(int64(7)))
	w.runAgain(&s[0], executionv1.ScanStateParsing)
	w.Eventually(func() string { return w.get("s").Status.FindingsFrom }).Should(BeEmpty())
	w.Expect(count()).To(Equal(int64(7)), "they stay until there are others")
	w.finish(&s[0], executionv1.ScanStateDone, 3)
	w.Eventually(count).Should(Equal(int64(3)))
	w.Expect(w.names()).To(HaveLen(1), "a re-run is not a run of the ScheduledScan")
}

// TestForbidWaitsForARerun, and not for a Scan that was cancelled.
func TestForbidWaitsForARerun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("s", policy(executionv1.ForbidConcurrent)))
	s := w.running(1)
	w.recorded("s")
	w.finish(&s[0], executionv1.ScanStateDone, 1)
	w.runAgain(&s[0], executionv1.ScanStateNew) // of its scanner: it waits in the queue
	w.atNext("s")
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonConcurrencyPolicyBlocks))
	w.Expect(w.names()).To(HaveLen(1))
	w.finish(&s[0], executionv1.ScanStateErrored, 0) // as a Scan that is cancelled
	w.Eventually(w.names).Should(HaveLen(2))
}

// TestReplaceAndARerun: what runs is replaced, whichever time it runs; what was cancelled is kept.
func TestReplaceAndARerun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("s", policy(executionv1.ReplaceConcurrent)))
	first := w.running(1)
	w.recorded("s")
	w.finish(&first[0], executionv1.ScanStateErrored, 0)
	w.atNext("s")
	second := w.running(1)
	w.finish(&second[0], executionv1.ScanStateDone, 1)
	w.runAgain(&second[0], executionv1.ScanStateHookProcessing)
	w.atNext("s")
	w.Eventually(w.names).Should(And(HaveLen(2), ContainElement(first[0].Name), Not(ContainElement(second[0].Name))))
}

// TestHistoryKeepsWhatRunsAgain: a Scan that is run again is not an ended one that could be too many.
func TestHistoryKeepsWhatRunsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("s", history(1, 1), policy(executionv1.AllowConcurrent)))
	first := w.running(1)
	w.recorded("s")
	w.finish(&first[0], executionv1.ScanStateDone, 1)
	w.settled()
	w.runAgain(&first[0], executionv1.ScanStateParsing)
	w.atNext("s")
	both := w.running(2)
	for i := range both {
		if both[i].UID != first[0].UID {
			w.finish(&both[i], executionv1.ScanStateDone, 2)
		}
	}
	w.settled()
	w.Expect(w.names()).To(HaveLen(2))
	w.finish(&first[0], executionv1.ScanStateDone, 1)
	w.Eventually(w.names).Should(And(HaveLen(1), Not(ContainElement(first[0].Name))))
}
