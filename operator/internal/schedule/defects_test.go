// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

var resource = schema.GroupResource{Group: executionv1.SchemeGroupVersion.Group, Resource: "scheduledscans"}

// conflicts lets the first status writes fail as if another client had written.
func conflicts(first int) func(string, int) error {
	failed := 0
	return func(call string, _ int) error {
		if !strings.HasPrefix(call, "status ") || failed >= first {
			return nil
		}
		failed++
		return apierrors.NewConflict(resource, "x", errors.New("a conflict of the test"))
	}
}

// TestDefect10ConflictsStartNoDuplicates: an interval whose status cannot be written for
// a while has one Scan.
func TestDefect10ConflictsStartNoDuplicates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.faults.set(conflicts(5), nil)
	w.Create(w.scanType(), w.scheduled("often"))
	s := w.recorded("often")
	w.settled()
	w.Expect(w.names()).To(HaveLen(1))
	w.Expect(w.scans()[0].Name).To(Equal(fmt.Sprintf("often-%d", s.CreationTimestamp.Unix())))
}

// TestDefect11AConflictDoesNotStopACronSchedule: the Scan that is there already is taken
// for what it is, and the next run comes.
func TestDefect11AConflictDoesNotStopACronSchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("nightly", cronOf("0 3 * * *")))
	w.Eventually(w.ready("nightly")).Should(Equal(executionv1.ReasonScheduled))
	w.faults.set(conflicts(3), nil)
	w.atNext("nightly")
	w.recorded("nightly")
	w.settled()
	w.Expect(w.names()).To(HaveLen(1))
	w.atNext("nightly")
	w.Eventually(w.names).Should(HaveLen(2))
}

// TestDefect12AMissingScanTypeIsReported: the run is started nevertheless and says in its
// own words, and is made up for when the ScanType comes.
func TestDefect12AMissingScanTypeIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scheduled("early", retrigger))
	w.Eventually(w.ready("early")).Should(Equal(executionv1.ReasonScanTypeNotFound))
	w.Expect(w.message("early")).To(And(ContainSubstring("spec.scanSpec.scanType"), ContainSubstring("helm install")))
	w.Eventually(func() string { return w.events("early") }).Should(ContainSubstring("ScanTypeNotFound"))
	first := w.running(1)
	w.finish(&first[0], executionv1.ScanStateErrored, 0)
	w.settled()
	w.Expect(w.names()).To(HaveLen(1))
	w.Create(w.scanType())
	w.running(1)
	w.Expect(w.names()).To(HaveLen(2))
	w.Eventually(w.ready("early")).Should(Equal(executionv1.ReasonScheduled))
}

// TestDefect12And43ClusterScanTypesRetrigger the ScheduledScans that use them, and those
// of the other family do not.
func TestDefect12And43ClusterScanTypesRetrigger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kind := &executionv1.ClusterScanType{ObjectMeta: metav1.ObjectMeta{Name: "nmap-" + w.Namespace}, Spec: *testobjects.ScanTypeSpec()}
	w.Expect(w.Client.Create(t.Context(), kind)).To(Succeed())
	w.Cleanup(func() { w.Expect(w.Client.Delete(context.Background(), kind)).To(Succeed()) })
	w.Create(w.scanType(), w.scheduled("local", retrigger), w.scheduled("cluster", retrigger, func(s *executionv1.ScheduledScan) {
		s.Spec.ScanSpec.ScanType, s.Spec.ScanSpec.ResourceMode = kind.Name, ptr.To(executionv1.ClusterWide)
	}))
	w.recorded("local")
	w.recorded("cluster")
	w.Expect(w.names()).To(HaveLen(2))
	w.Expect(w.Client.Patch(t.Context(), kind, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"extractResults":{"type":"other"}}}`)))).To(Succeed())
	w.Eventually(w.names).Should(HaveLen(3))
	w.settled()
	names := map[string]int{}
	for _, s := range w.scans() {
		names[s.Name[:strings.LastIndex(s.Name, "-")]]++
	}
	w.Expect(names).To(Equal(map[string]int{"local": 1, "cluster": 2}))
	w.Eventually(func() string { return w.events("cluster") }).Should(ContainSubstring("Retriggered: A run was started since ClusterScanType"))
}

// TestDefect36ForbidWaitsByWatch: the due run starts when the earlier one ends, one Event
// tells of it, and nothing polls.
func TestDefect36ForbidWaitsByWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("f", policy(executionv1.ForbidConcurrent)))
	first := w.running(1)
	w.recorded("f")
	w.atNext("f")
	w.Eventually(w.ready("f")).Should(Equal(executionv1.ReasonConcurrencyPolicyBlocks))
	w.Expect(w.message("f")).To(ContainSubstring(first[0].Name))
	w.settled()
	passes := w.faults.reads.Load()
	w.Consistently(w.faults.reads.Load, "2s").Should(Equal(passes))
	w.Expect(w.names()).To(HaveLen(1))
	w.finish(&first[0], executionv1.ScanStateDone, 2)
	w.Eventually(w.names).Should(HaveLen(2))
	w.Eventually(w.ready("f")).Should(Equal(executionv1.ReasonScheduled))
	w.Eventually(func() int { return strings.Count(w.events("f"), "ConcurrencyPolicyBlocks") }).Should(Equal(1))
}

// TestDefect36ReplaceWaitsForTheDeletion: the new run starts when the old one is gone.
func TestDefect36ReplaceWaitsForTheDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("r", policy(executionv1.ReplaceConcurrent)))
	first := w.running(1)
	held := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/held"]}}`))
	w.Expect(w.Client.Patch(t.Context(), &first[0], held)).To(Succeed())
	w.recorded("r")
	w.settled()
	w.trigger("r", 25*time.Hour)
	w.Eventually(w.ready("r")).Should(Equal(executionv1.ReasonReplacingScans))
	w.Eventually(func() bool { s := w.scans(); return len(s) == 1 && s[0].DeletionTimestamp != nil }).Should(BeTrue())
	w.settled()
	w.Expect(w.names()).To(HaveLen(1))
	w.Expect(w.Client.Patch(t.Context(), &first[0], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	w.Eventually(func() bool { s := w.scans(); return len(s) == 1 && s[0].Name != first[0].Name }).Should(BeTrue())
	w.Eventually(func() string { return w.events("r") }).Should(ContainSubstring("JobReplaced: Scan " + first[0].Name))
}

// TestDefect37PruningSkipsWhatIsGone: another client has deleted one, the operator deletes the others.
func TestDefect37PruningSkipsWhatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("h", history(1, 0)))
	w.faults.set(func(call string, n int) error {
		if !strings.HasPrefix(call, "delete ") {
			return nil
		}
		gone := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: strings.TrimPrefix(call, "delete ")}}
		return client.IgnoreNotFound(w.Client.Delete(context.Background(), gone))
	}, nil)
	for i := range 4 {
		s := w.running(1)
		w.recorded("h")
		state := executionv1.ScanStateDone
		if i == 1 {
			state = executionv1.ScanStateErrored
		}
		w.finish(&s[0], state, int64(i))
		w.atNext("h")
	}
	w.running(1)
	w.Eventually(w.names).Should(HaveLen(2))
}

// TestDefect40NothingIsLookedAtWithoutACause: an idle cluster is left in peace.
func TestDefect40NothingIsLookedAtWithoutACause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("a", retrigger), w.scheduled("b", retrigger, cronOf("0 3 * * *")), w.scheduled("c", func(s *executionv1.ScheduledScan) {
		s.Spec.Suspend = new(true)
	}))
	w.recorded("a")
	w.Eventually(w.ready("c")).Should(Equal(executionv1.ReasonSuspended))
	w.settled()
	passes := w.faults.reads.Load()
	w.Consistently(w.faults.reads.Load, "4s").Should(Equal(passes))
}

// TestDefect42ClientsAskForARun as scbctl and auto-discovery do: with types that know
// three fields of the status, and by 24 hours only.
func TestDefect42ClientsAskForARun(t *testing.T) {
	for name, how := range map[string]option{"Interval": every("12h"), "Weekly": cronOf("0 3 * * 1"), "Yearly": cronOf("@yearly")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Create(w.scanType(), w.scheduled("s", how))
			w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonScheduled))
			if name == "Interval" {
				w.recorded("s")
			} else {
				w.atNext("s")
				w.recorded("s")
			}
			w.Eventually(w.names).Should(HaveLen(1))
			w.settled()
			w.oldClientTriggers("s")
			w.Eventually(w.names).Should(HaveLen(2))
			w.settled()
			w.Expect(w.names()).To(HaveLen(2))
			w.trigger("s", time.Hour)
			w.Eventually(w.names).Should(HaveLen(3))
			w.settled()
			w.Expect(w.names()).To(HaveLen(3))
		})
	}
}

// TestDefect42ClientsAskForTheFirstRun of a schedule that would run for the first time in days.
func TestDefect42ClientsAskForTheFirstRun(t *testing.T) {
	for name, how := range map[string]option{"Weekly": cronOf("0 3 * * 1"), "Yearly": cronOf("@yearly")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Create(w.scanType(), w.scheduled("s", how))
			w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonScheduled))
			w.settled()
			w.oldClientTriggers("s")
			w.Eventually(w.names).Should(HaveLen(1))
			w.settled()
			w.Expect(w.names()).To(HaveLen(1))
			w.oldClientTriggers("s")
			w.Eventually(w.names).Should(HaveLen(2))
		})
	}
}

// oldClientTriggers replaces the status by what secureCodeBox's types keep of it.
func (w *world) oldClientTriggers(name string) {
	w.Helper()
	s := w.get(name)
	interval, err := time.ParseDuration("0" + s.Spec.Interval)
	w.Expect(err).NotTo(HaveOccurred())
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("ScheduledScan"))
	w.Expect(w.Client.Get(w.Context(), client.ObjectKeyFromObject(s), u)).To(Succeed())
	u.Object["status"] = map[string]any{
		"lastScheduleTime": w.clock.Now().Add(-interval - 24*time.Hour).UTC().Format(time.RFC3339),
		"findings":         map[string]any{"severities": map[string]any{}},
		"scanTypeHash":     s.Status.ScanTypeHash,
	}
	w.Expect(w.Client.Status().Update(w.Context(), u)).To(Succeed())
}

// TestDefect43OneBadScheduledScanStopsNoOther: each is a pass of its own.
func TestDefect43OneBadScheduledScanStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(w.scanType(), w.scheduled("a", retrigger), w.scheduled("b", retrigger), w.scheduled("c", retrigger))
	for _, name := range []string{"a", "b", "c"} {
		w.recorded(name)
	}
	w.faults.set(func(call string, _ int) error {
		if strings.HasPrefix(call, "create a-") {
			return errors.New("a failure of the test")
		}
		return nil
	}, nil)
	st := w.scanType()
	st.Namespace = w.Namespace
	w.Expect(w.Client.Patch(t.Context(), st, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"scan.securecodebox.io/x":"1"}}}`)))).To(Succeed())
	w.Eventually(w.names).Should(HaveLen(5))
	w.faults.set(nil, nil)
	w.Eventually(w.names).Should(HaveLen(6))
}

// TestDefect43AForeignHashStartsNothing: ScheduledScans that secureCodeBox has kept go on.
func TestDefect43AForeignHashStartsNothing(t *testing.T) {
	t.Parallel()
	w := newQuietWorld(t)
	s := w.scheduled("migrated", retrigger)
	w.Create(w.scanType(), s)
	last := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	patch := fmt.Sprintf(`{"status":{"lastScheduleTime":%q,"scanTypeHash":"12345678901234567890","findings":{"count":4,"severities":{"low":4}}}}`, last.Format(time.RFC3339))
	w.Expect(w.Client.Status().Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	w.Cleanup(w.startOperator())
	w.Eventually(func() string { return w.get("migrated").Status.ScanTypeHash }).Should(HavePrefix("v1-"))
	w.settled()
	got := w.get("migrated")
	w.Expect(w.scans()).To(BeEmpty())
	w.Expect(got.Status.LastScheduleTime.UTC()).To(Equal(last))
	w.Expect(got.Status.NextScheduleTime.UTC()).To(Equal(last.Add(12 * time.Hour)))
	w.Expect(*got.Status.Findings.Count).To(Equal(int64(4)))
}

// TestIntervalsThatAreRefused: names of Scans have seconds, so nothing can run more often, and the API server says so.
func TestIntervalsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newQuietWorld(t)
	for _, interval := range []string{"1ns", "1us", "1\u00b5s", "999ms", "0h0m0.5s", "0s1ns"} {
		s := w.scheduled("s", every(interval))
		s.Namespace = w.Namespace
		err := w.Client.Create(t.Context(), s)
		w.Expect(err).To(MatchError(ContainSubstring("must be at least 1s; the cluster's settings may ask for more")), interval)
	}
	for i, interval := range []string{"1s", "1h30m", "1.5s", "1000ms", "2000000us"} {
		w.Create(w.scheduled(fmt.Sprintf("s%d", i), every(interval)))
	}
}
