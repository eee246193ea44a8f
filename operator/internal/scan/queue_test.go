// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/queue"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
	"github.com/scanyard/scanyard/operator/internal/scan"
	"github.com/scanyard/scanyard/operator/internal/testworld"
)

// queued has Scans wait in a queue with limits, which it hands over.
func queued(limits fair.Limits, hand ...func(*queue.Queue)) worldOption {
	return func(o *scan.Options) {
		o.Queue = queue.New(queue.Options{Clock: o.Clock, AwaitLimits: true})
		o.Queue.SetLimits(limits)
		for _, h := range hand {
			h(o.Queue)
		}
	}
}

func atMost(n int32) fair.Limits { return fair.Limits{Cluster: fair.Bounds{MaxRunning: new(n)}} }

// started returns the names of the Scans that have a scanner Job, sorted.
func (w *world) started() []string {
	var names []string
	for _, j := range w.jobs(executionv1.JobTypeScanner) {
		names = append(names, metav1.GetControllerOf(&j).Name)
	}
	slices.Sort(names)
	return names
}

// finishScan ends all Jobs of a Scan, as they come, until it is Done.
func (w *world) finishScan(name string) {
	w.Helper()
	w.Eventually(func() executionv1.ScanState {
		for _, j := range w.jobs("") {
			if metav1.GetControllerOf(&j).Name == name && len(j.Status.Conditions) == 0 {
				w.finish(&j, batchv1.JobComplete, "CompletionsReached")
			}
		}
		return w.state(name)()
	}).Should(Equal(executionv1.ScanStateDone))
}

// admitted polls status and reason of the condition Admitted.
func (w *world) admitted(name string) func() string {
	return func() string {
		for _, c := range w.get(name).Status.Conditions {
			if c.Type == executionv1.ConditionAdmitted {
				return string(c.Status) + " " + c.Reason
			}
		}
		return ""
	}
}

func (w *world) message(name, kind string) string {
	for _, c := range w.get(name).Status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

// A Scan that may not start shows the reason and its position; when a slot becomes free the
// next one starts, and its condition says so without a write of its own.
func TestScansWaitForTheirTurn(t *testing.T) {
	w := newWorld(t, queued(atMost(2)))
	w.Create(w.scanType(), w.parseDefinition())
	for i := range 4 {
		w.Create(w.scan(fmt.Sprintf("s-%d", i)))
	}
	w.Eventually(w.started).Should(Equal([]string{"s-0", "s-1"}))
	w.Eventually(w.admitted("s-2")).Should(Equal("False " + executionv1.ReasonClusterLimit))
	w.Eventually(w.admitted("s-3")).Should(Equal("False " + executionv1.ReasonClusterLimit))
	w.Expect(w.ready("s-2")()).To(Equal(executionv1.ReasonQueued))
	w.Expect(w.message("s-3", executionv1.ConditionAdmitted)).To(Equal("Position 2 of 2, 2 of 2 in its namespace: at most 2 run at a time in the cluster."))
	w.Eventually(func() string { return w.events("s-2") }).Should(Equal("Position 1 of 2, 1 of 2 in its namespace: at most 2 run at a time in the cluster."))
	w.Expect(w.admitted("s-0")()).To(BeEmpty())

	w.finishScan("s-1")
	w.Eventually(w.started).Should(Equal([]string{"s-0", "s-1", "s-2"}))
	w.Eventually(w.admitted("s-2")).Should(Equal("True " + executionv1.ReasonAdmitted))
	w.Expect(w.message("s-2", executionv1.ConditionScanned)).To(Equal("The scanner is running."))
	// The one that waits leaves at once, whichever way it goes.
	w.Create(w.scan("s-4"))
	w.Expect(w.Client.Delete(t.Context(), w.get("s-3"))).To(Succeed())
	w.finishScan("s-0")
	w.Eventually(w.started).Should(ContainElement("s-4"))
}

// A limit that is not reached costs no write: a Scan is written as often as without any, and
// has no condition of the queue.
func TestLimitsCostNoWrite(t *testing.T) {
	var want []string
	for _, options := range [][]worldOption{nil, {queued(atMost(5))}} {
		w := newWorld(t, options...)
		w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
		for _, kind := range []string{executionv1.JobTypeScanner, executionv1.JobTypeParser} {
			j := w.job(kind)
			w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonRunning))
			w.finish(j, batchv1.JobComplete, "CompletionsReached")
		}
		w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
		w.Expect(w.admitted("s")()).To(BeEmpty())
		w.faults.mu.Lock()
		calls := slices.Clone(w.faults.calls)
		w.faults.mu.Unlock()
		calls = slices.DeleteFunc(calls, func(c string) bool { return !strings.Contains(c, "Scan") && !strings.Contains(c, "Job") })
		if want == nil {
			want = calls
		}
		w.Expect(calls).To(Equal(want))
	}
}

// Nothing starts beside what an operator before has started, seen or not, and nothing is lost.
func TestQueueOverRestart(t *testing.T) {
	var waiting *queue.Queue
	w := newWorld(t, queued(atMost(2), func(q *queue.Queue) { waiting = q }))
	w.Create(w.scanType(), w.parseDefinition())
	for i := range 5 {
		w.Create(w.scan(fmt.Sprintf("s-%d", i)))
	}
	w.Eventually(w.started).Should(Equal([]string{"s-0", "s-1"}))
	w.Eventually(w.state("s-1")).Should(Equal(executionv1.ScanStateScanning))
	w.stop()
	// The operator was killed before it could write the status of one of the two.
	s := w.get("s-1")
	s.Status = executionv1.ScanStatus{}
	w.Expect(w.Client.Status().Update(t.Context(), s)).To(Succeed())
	w.run(nil, queued(atMost(2), func(q *queue.Queue) { waiting = q }))
	w.Eventually(w.state("s-1")).Should(Equal(executionv1.ScanStateScanning))
	w.Eventually(w.admitted("s-4")).Should(Equal("False " + executionv1.ReasonClusterLimit)) // decided and reported
	w.Expect(w.started()).To(Equal([]string{"s-0", "s-1"}))
	w.finishScan("s-0")
	w.Eventually(w.started).Should(Equal([]string{"s-0", "s-1", "s-2"}))
	waiting.SetLimits(fair.Limits{})
	w.Eventually(w.started).Should(Equal([]string{"s-0", "s-1", "s-2", "s-3", "s-4"}))
}

// A parent gives its slot to the children that its hook has created when it has ended: with
// one slot in all, a cascade continues.
func TestCascadeWithOneSlot(t *testing.T) {
	w := newWorld(t, queued(atMost(1)))
	w.Create(w.scanType(), w.parseDefinition(), w.hook("cascading-scans", executionv1.ReadOnly, 0))
	w.Create(w.scan("parent"))
	for _, kind := range []string{executionv1.JobTypeScanner, executionv1.JobTypeParser} {
		w.finish(w.job(kind), batchv1.JobComplete, "CompletionsReached")
	}
	hook := w.job(executionv1.JobTypeReadOnlyHook)
	parent := w.get("parent")
	for _, n := range []string{"child-1", "child-2"} {
		w.Create(w.scan(n, func(s *executionv1.Scan) {
			s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(parent, executionv1.SchemeGroupVersion.WithKind("Scan"))}
		}))
	}
	w.Eventually(w.admitted("child-1")).Should(Equal("False " + executionv1.ReasonClusterLimit))
	w.Expect(w.started()).To(Equal([]string{"parent"}))
	w.finish(hook, batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.started).Should(Equal([]string{"child-1", "parent"}))
	w.finishScan("child-1")
	w.Eventually(w.started).Should(Equal([]string{"child-1", "child-2", "parent"}))
	w.finishScan("child-2")
}

// A Scan without its ScanType takes no other Scan's turn, and gets its own when that comes.
func TestMissingScanTypeTakesNoTurn(t *testing.T) {
	w := newWorld(t, queued(atMost(1)))
	w.Create(w.scanType(), w.parseDefinition())
	w.Create(w.scan("a-missing", func(s *executionv1.Scan) { s.Spec.ScanType = "other" }))
	w.Eventually(w.ready("a-missing")).Should(Equal(executionv1.ReasonScanTypeNotFound))
	w.Create(w.scan("b"))
	w.Eventually(w.started).Should(Equal([]string{"b"}))
	other := w.scanType()
	other.Name = "other"
	w.Create(other)
	w.Eventually(w.admitted("a-missing")).Should(Equal("False " + executionv1.ReasonClusterLimit))
	w.finishScan("b")
	w.Eventually(w.started).Should(Equal([]string{"a-missing", "b"}))
}

// A write that fails anywhere costs no Scan a slot and starts nothing twice.
func TestQueueSurvivesFaults(t *testing.T) {
	for at := range 9 {
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			w := newWorld(t, queued(atMost(1)))
			w.faults.mu.Lock()
			w.faults.at, w.faults.after = at+1, at%2 == 0
			w.faults.mu.Unlock()
			w.Create(w.scanType(), w.parseDefinition(), w.scan("s-0"), w.scan("s-1"))
			w.Eventually(func() int { return len(w.started()) }).Should(Equal(1))
			first := w.started()[0]
			w.finishScan(first)
			w.Eventually(func() int { return len(w.started()) }).Should(Equal(2))
			w.finishScan(map[string]string{"s-0": "s-1", "s-1": "s-0"}[first])
		})
	}
}

// Where Kueue is installed, its label reaches the Jobs, our queue steps aside, and a Job
// that Kueue holds back waits: no deadline runs.
func TestKueueDecides(t *testing.T) {
	installKueue(t)
	discover, err := discovery.NewDiscoveryClientForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	now := clocktesting.NewFakePassiveClock(time.Now())
	w := newWorld(t, func(o *scan.Options) {
		o.Clock = now
		o.Queue = queue.New(queue.Options{Clock: now, Kueue: func(ctx context.Context) (bool, error) {
			groups, err := discover.ServerGroupsWithContext(ctx)
			return err == nil && slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "kueue.x-k8s.io" }), err
		}})
		o.Queue.SetLimits(atMost(1))
	})
	w.Create(w.scanType(), w.parseDefinition())
	w.Create(w.scan("ours-1"))
	w.Eventually(w.started).Should(Equal([]string{"ours-1"}))
	w.Create(w.scan("ours-2"), w.scan("theirs", func(s *executionv1.Scan) {
		s.Labels = map[string]string{executionv1.LabelKueueQueue: "team-queue"}
	}))
	w.Eventually(w.started).Should(Equal([]string{"ours-1", "theirs"}))
	w.Consistently(w.started, time.Second).Should(HaveLen(2))
	for _, phase := range []string{executionv1.JobTypeScanner, executionv1.JobTypeParser} {
		job := w.jobOf("theirs", phase)
		w.Expect(job.Labels).To(HaveKeyWithValue(executionv1.LabelKueueQueue, "team-queue"))
		w.Expect(job.Spec.Template.Labels).NotTo(HaveKey(executionv1.LabelKueueQueue))
		w.suspend(job, true) // as Kueue does before there is room
		w.Eventually(w.ready("theirs")).Should(Equal(executionv1.ReasonJobSuspended))
		now.SetTime(now.Now().Add(30 * 24 * time.Hour))
		w.touch("theirs")
		w.Consistently(w.ready("theirs"), time.Second).Should(Equal(executionv1.ReasonJobSuspended))
		w.suspend(job, false)
		w.Consistently(w.ready("theirs"), time.Second).ShouldNot(Equal(executionv1.ReasonDeadlineExceeded))
		now.SetTime(time.Now())
		w.startJob(job, now.Now())
		w.Eventually(w.ready("theirs")).Should(Equal(executionv1.ReasonRunning))
		w.finish(w.jobOf("theirs", phase), batchv1.JobComplete, "CompletionsReached")
	}
	w.Eventually(w.state("theirs")).Should(Equal(executionv1.ScanStateDone))
}

// startJob plays the Job controller when a Job is resumed.
func (w *world) startJob(j *batchv1.Job, at time.Time) {
	w.Helper()
	before := j.DeepCopy()
	j.Status.StartTime = &metav1.Time{Time: at}
	w.Expect(w.Client.Status().Patch(w.Context(), j, client.MergeFrom(before))).To(Succeed())
	w.touch("theirs")
	w.Eventually(w.ready("theirs")).Should(Equal(executionv1.ReasonRunning))
}

// suspend plays Kueue.
func (w *world) suspend(j *batchv1.Job, value bool) {
	w.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"suspend":%v}}`, value))
	w.Expect(w.Client.Patch(w.Context(), j, patch)).To(Succeed())
}

// installKueue has the API server serve a kind of Kueue's group.
func installKueue(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	preserve := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "localqueues.kueue.x-k8s.io",
			Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "kueue.x-k8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "localqueues", Singular: "localqueue", Kind: "LocalQueue", ListKind: "LocalQueueList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1beta1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: preserve},
			}},
		},
	}
	g.Expect(cluster.Client.Create(t.Context(), crd)).To(Succeed())
	t.Cleanup(func() {
		if err := cluster.Client.Delete(context.Background(), crd); err != nil {
			t.Errorf("delete the CRD: %v", err)
		}
	})
	discover, err := discovery.NewDiscoveryClientForConfig(cluster.Config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error {
		_, err := discover.ServerResourcesForGroupVersionWithContext(t.Context(), "kueue.x-k8s.io/v1beta1")
		return err
	}).WithTimeout(testworld.Patience).Should(Succeed())
}
