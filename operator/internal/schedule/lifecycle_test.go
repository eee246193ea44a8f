// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// TestScanOfRun has what the contract says, and lists that mean something by being
// empty stay.
func TestScanOfRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": executionv1.SchemeGroupVersion.String(), "kind": "ScheduledScan",
		"metadata": map[string]any{
			"name": "s", "labels": map[string]any{"team": "blue", "app.kubernetes.io/managed-by": "someone"},
			"annotations": map[string]any{"defectdojo.securecodebox.io/product-name": "shop", "example.com/x": "1"},
		},
		"spec": map[string]any{
			"interval": "1h",
			"scanSpec": map[string]any{"scanType": "nmap", "parameters": []any{"-p", "22"}, "tolerations": []any{}},
		},
	}})
	s := w.recorded("s")
	name := fmt.Sprintf("s-%d", s.CreationTimestamp.Unix())
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("Scan"))
	w.Expect(w.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, u)).To(Succeed())
	w.Expect(u.GetLabels()).To(Equal(map[string]string{"team": "blue", "app.kubernetes.io/managed-by": "someone"}))
	w.Expect(u.GetAnnotations()).To(HaveLen(2))
	w.Expect(u.GetAnnotations()).To(HaveKeyWithValue("defectdojo.securecodebox.io/product-name", "shop"))
	w.Expect(u.GetAnnotations()).To(HaveKeyWithValue(executionv1.AnnotationScheduledFor, s.CreationTimestamp.UTC().Format(time.RFC3339)))
	owner := u.GetOwnerReferences()[0]
	w.Expect([]any{owner.Kind, owner.Name, owner.UID, *owner.Controller, *owner.BlockOwnerDeletion}).To(Equal([]any{"ScheduledScan", "s", s.UID, true, true}))
	spec := u.Object["spec"].(map[string]any)
	w.Expect(spec["scanType"]).To(Equal("nmap"))
	w.Expect(spec["parameters"]).To(Equal([]any{"-p", "22"}))
	w.Expect(spec).To(HaveKeyWithValue("tolerations", []any{}))
}

// TestStatusFields: findings are there from the first write on.
func TestStatusFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("s", cronOf("0 3 * * *")))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonScheduled))
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("ScheduledScan"))
	w.Expect(w.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: "s"}, u)).To(Succeed())
	status := u.Object["status"].(map[string]any)
	w.Expect(status).To(HaveKeyWithValue("findings", map[string]any{"severities": map[string]any{}}))
	w.Expect(status).To(HaveKey("nextScheduleTime"))
	w.Expect(status).NotTo(HaveKey("lastScheduleTime"))
}

// TestFindingsAndHistory: findings of the newest Done Scan stay when it is deleted at once.
func TestFindingsAndHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("s", history(0, 1)))
	s := w.running(1)
	w.recorded("s")
	w.finish(&s[0], executionv1.ScanStateDone, 7)
	w.Eventually(w.names).Should(BeEmpty())
	want := executionv1.FindingStats{Count: ptr.To[int64](7), FindingSeverities: executionv1.FindingSeverities{High: ptr.To[int64](7)}}
	if diff := cmp.Diff(want, w.get("s").Status.Findings); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	w.Expect(w.get("s").Status.FindingsFrom).To(Equal(s[0].Name))
	for range 2 {
		w.atNext("s")
		s = w.running(1)
		w.finish(&s[0], executionv1.ScanStateErrored, 0)
	}
	w.Eventually(w.names).Should(ConsistOf(s[0].Name))
	w.Expect(*w.get("s").Status.Findings.Count).To(Equal(int64(7)))
}

// TestSuspendAndResume: what came due meanwhile starts at once, and once.
func TestSuspendAndResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("s"))
	w.recorded("s")
	w.patch("s", `{"spec":{"suspend":true}}`)
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonSuspended))
	w.Expect(w.get("s").Status.NextScheduleTime).To(BeNil())
	w.clock.shift(100 * time.Hour)
	w.touch("s")
	w.settled()
	w.Expect(w.names()).To(HaveLen(1))
	w.patch("s", `{"spec":{"suspend":false}}`)
	w.Eventually(w.names).Should(HaveLen(2))
	w.settled()
	w.Expect(w.names()).To(HaveLen(2))
}

// TestDowntimeIsMadeUpForOnce: an operator that was away for many runs starts one.
func TestDowntimeIsMadeUpForOnce(t *testing.T) {
	t.Parallel()
	w := newQuietWorld(t)
	stop := w.startOperator()
	w.Create(w.scanType(), w.scheduled("often", every("1m")), w.scheduled("strict", every("1m"), func(s *executionv1.ScheduledScan) {
		s.Spec.StartingDeadlineSeconds = ptr.To[int64](10)
	}))
	w.recorded("often")
	w.recorded("strict")
	w.settled()
	stop()
	w.clock.shift(30*24*time.Hour + 30*time.Second)
	w.Cleanup(w.startOperator())
	w.Eventually(w.names).Should(HaveLen(3))
	w.settled()
	w.Expect(w.names()).To(HaveLen(3))
	w.Expect(w.names()).To(ContainElement(HavePrefix("often-")))
}

// TestScanTypeChangeStartsARun: once, and only if the spec enables it.
func TestScanTypeChangeStartsARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.scanType()
	w.Create(st, w.scheduled("yes", retrigger), w.scheduled("no"))
	w.recorded("yes")
	w.recorded("no")
	w.settled()
	w.Expect(w.Client.Patch(t.Context(), st, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"helm.sh/chart":"nmap-2"}}}`)))).To(Succeed())
	w.settled()
	w.Expect(w.names()).To(HaveLen(2))
	w.Expect(w.Client.Patch(t.Context(), st, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"jobTemplate":{"spec":{"backoffLimit":1}}}}`)))).To(Succeed())
	w.Eventually(w.names).Should(HaveLen(3))
	w.settled()
	w.Expect(w.names()).To(HaveLen(3))
}

// TestSpecChangesLeaveOtherClientsTime: auto-discovery writes the spec, then the status
// with the version it was given, and does not try again.
func TestSpecChangesLeaveOtherClientsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("s"))
	w.recorded("s")
	w.settled()
	s := w.get("s")
	s.Spec.ScanSpec.Parameters = []string{"new"}
	w.Expect(w.Client.Update(t.Context(), s)).To(Succeed())
	s.Status.LastScheduleTime.Time = time.Now().Add(-36 * time.Hour)
	w.Expect(w.Client.Status().Update(t.Context(), s)).To(Succeed())
	w.Eventually(w.names).Should(HaveLen(2))
	var latest []string
	for _, s := range w.scans() {
		latest = append(latest, s.Spec.Parameters...)
	}
	w.Expect(latest).To(ConsistOf("new"))
	w.Eventually(func() int64 { return w.get("s").Status.ObservedGeneration }).Should(Equal(s.Generation))
}

// TestRefusedScanIsReported, and tried again.
func TestRefusedScanIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults.set(func(call string, _ int) error {
		if !strings.HasPrefix(call, "create ") {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "scans"}, "s", errors.New("exceeded quota: count/scans"))
	}, nil)
	w.Create(w.scanType(), w.scheduled("s"))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonScanRejected))
	w.Expect(w.message("s")).To(ContainSubstring("exceeded quota"))
	w.Expect(w.get("s").Status.LastScheduleTime).To(BeNil())
	w.faults.set(nil, nil)
	w.touch("s")
	w.recorded("s")
	w.Expect(w.names()).To(HaveLen(1))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonScheduled))
}

// TestTakenName: a Scan of another client has the name of the run, so the run gets another one.
func TestTakenName(t *testing.T) {
	t.Parallel()
	w := newQuietWorld(t)
	s := w.scheduled("s")
	w.Create(w.scanType(), s)
	taken := &executionv1.Scan{Spec: *s.Spec.ScanSpec}
	taken.Name = fmt.Sprintf("s-%d", s.CreationTimestamp.Unix())
	w.Create(taken)
	w.Cleanup(w.startOperator())
	w.recorded("s")
	w.settled()
	w.Expect(w.names()).To(ConsistOf(taken.Name, HavePrefix(taken.Name+"-")))
}

// TestReusedNameIsAnotherScheduledScan: children are known by the UID of their owner.
func TestReusedNameIsAnotherScheduledScan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("s", history(0, 0)))
	first := w.running(1)
	s := w.recorded("s")
	w.Expect(w.Client.Delete(t.Context(), s, client.PropagationPolicy("Orphan"))).To(Succeed())
	// Nobody plays the garbage collector: the finalizer of orphaning is removed by hand.
	w.Expect(client.IgnoreNotFound(w.Client.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
	w.Create(w.scheduled("s", history(0, 0), cronOf("0 3 * * *"), policy(executionv1.ForbidConcurrent)))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonScheduled))
	w.finish(&first[0], executionv1.ScanStateDone, 1)
	w.settled()
	w.Expect(w.names()).To(ConsistOf(first[0].Name))
	w.Expect(w.get("s").Status.Findings.Count).To(BeNil())
}

// TestEveryFault fails one call after the other, before and after it has had its effect:
// each time the same Scans are there in the end.
func TestEveryFault(t *testing.T) {
	for _, effect := range []string{"Before", "After"} {
		for _, at := range []int{1, 2, 3, 4, 5} {
			t.Run(fmt.Sprintf("%s%d", effect, at), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				fail := func(_ string, n int) error {
					if n == at {
						return errors.New("a fault of the test")
					}
					return nil
				}
				if effect == "Before" {
					w.faults.set(fail, nil)
				} else {
					w.faults.set(nil, fail)
				}
				w.Create(w.scanType(), w.scheduled("s", history(1, 0)))
				for i := range 2 {
					s := w.running(1)
					w.recorded("s")
					w.finish(&s[0], executionv1.ScanStateDone, int64(i+1))
					w.Eventually(func() int64 { return ptr.Deref(w.get("s").Status.Findings.Count, 0) }).Should(Equal(int64(i + 1)))
					w.settled()
					w.trigger("s", 24*time.Hour)
				}
				w.running(1)
				w.settled()
				w.Eventually(w.names).Should(HaveLen(2)) // the last Done one, and the new one
			})
		}
	}
}

// TestStoredMistakesShow: what a CRD of before it knew better has let in.
func TestStoredMistakesShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(),
		w.scheduled("zone", func(s *executionv1.ScheduledScan) { s.Spec.TimeZone = "Europe/Berlinn" }),
		w.scheduled("typo", cronOf("0 3 * * MOON")),
		w.scheduled("never", cronOf("0 0 31 2 *")),
		w.scheduled("closed", func(s *executionv1.ScheduledScan) {
			s.Spec.Windows = []executionv1.BlackoutWindow{{Schedule: "@daily", Duration: "24h"}}
		}))
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": executionv1.SchemeGroupVersion.String(), "kind": "ScheduledScan", "metadata": map[string]any{"name": "empty", "namespace": w.Namespace},
	}}
	w.Create(u)
	for name, reason := range map[string]string{
		"zone": executionv1.ReasonUnknownTimeZone, "typo": executionv1.ReasonScheduleParseError, "never": executionv1.ReasonScheduleNeverFires,
		"closed": executionv1.ReasonScheduleNeverFires, "empty": executionv1.ReasonInvalidSpec,
	} {
		w.Eventually(w.ready(name)).Should(Equal(reason))
		w.Expect(w.message(name)).To(ContainSubstring("spec."))
	}
	w.settled()
	w.Expect(w.names()).To(BeEmpty())
	w.patch("typo", `{"spec":{"schedule":"","interval":"1h"}}`)
	w.Eventually(w.ready("typo")).Should(Equal(executionv1.ReasonScheduled))
	w.running(1)
}
