// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/scan"
)

const sinkHub = "cluster/hub"

// forwardTo has the results of the world's Scans sent to one sink of the cluster. No forwarder runs.
func (w *world) forwardTo(change func(*settingsv1alpha2.Delivery)) {
	w.Helper()
	f := &settingsv1alpha2.ClusterResultForwarding{Sinks: []settingsv1alpha2.NamedClusterSink{{
		Name: "hub", ClusterSink: settingsv1alpha2.ClusterSink{
			Sink: settingsv1alpha2.Sink{Provider: settingsv1alpha2.ProviderGRPC, GRPC: &settingsv1alpha2.GRPCSink{Endpoint: "https://hub.example.com"}},
		},
	}}}
	change(&f.Delivery)
	w.clusterSettings(clusterSpec{ResultForwarding: f})
}

// settle creates a Scan and brings it to its end.
func (w *world) settle(name string, options ...func(*executionv1.Scan)) *executionv1.Scan {
	w.Helper()
	w.Create(w.scan(name, options...))
	w.Eventually(w.state(name)).Should(Equal(executionv1.ScanStateDone))
	return w.get(name)
}

// forwarded plays the forwarder: what a sink has, and what is said of all.
func (w *world) forwarded(name string, status metav1.ConditionStatus, reason string) {
	w.Helper()
	w.Eventually(func() error {
		s := w.get(name)
		before := s.DeepCopy()
		now := metav1.Now()
		s.Status.Forwarding = []executionv1.SinkProgress{{
			Sink: sinkHub, Revision: s.Revision(), Records: 1, CompletedAt: &now, Verdict: executionv1.VerdictComplete, Seal: "by the test",
		}}
		c := metav1.Condition{Type: executionv1.ConditionForwarded, Status: status, Reason: reason, Message: "by the test", LastTransitionTime: now}
		for i := range s.Status.Conditions {
			if s.Status.Conditions[i].Type == c.Type {
				s.Status.Conditions = append(s.Status.Conditions[:i], s.Status.Conditions[i+1:]...)
				break
			}
		}
		s.Status.Conditions = append(s.Status.Conditions, c)
		return w.Client.Status().Patch(w.Context(), s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}).Should(Succeed())
}

// said is the reason of the condition Forwarded.
func (w *world) said(name string) func() string {
	return func() string {
		for _, c := range w.get(name).Status.Conditions {
			if c.Type == executionv1.ConditionForwarded {
				return string(c.Status) + " " + c.Reason
			}
		}
		return ""
	}
}

func setHold(seconds int32) func(*settingsv1alpha2.Delivery) {
	return func(d *settingsv1alpha2.Delivery) { d.HoldSeconds = &seconds }
}

// TestDeletedScansWaitForTheirDelivery: by hand and by their TTL, until the forwarder has sent them. What they have stored
// stays for it.
func TestDeletedScansWaitForTheirDelivery(t *testing.T) {
	w := newWorld(t)
	w.forwardTo(setHold(3600))
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition())
	byHand, byTTL := w.settle("by-hand"), w.settle("by-ttl", func(s *executionv1.Scan) { s.Spec.TTLSecondsAfterFinished = new(int32(0)) })
	for _, s := range []*executionv1.Scan{byHand, byTTL} {
		w.Expect(s.Finalizers).To(ConsistOf(executionv1.FinalizerStorage, executionv1.FinalizerDelivery))
		w.put(s, executionv1.FindingsFile, "[]")
	}
	w.Expect(w.Client.Delete(t.Context(), byHand)).To(Succeed())
	for _, s := range []*executionv1.Scan{byHand, byTTL} {
		w.Eventually(w.said(s.Name)).Should(Equal("Unknown Held"))
		w.Eventually(func() string { return w.events(s.Name) }).Should(ContainSubstring(sinkHub))
		w.Expect(w.stored(s, executionv1.FindingsFile)).To(BeTrue())
	}
	w.Expect(w.get("by-ttl").DeletionTimestamp).To(BeNil())
	for _, s := range []*executionv1.Scan{byHand, byTTL} {
		w.forwarded(s.Name, metav1.ConditionTrue, "Complete")
		w.Eventually(w.gone(s.Name)).Should(BeTrue())
		w.Expect(w.stored(s, executionv1.FindingsFile)).To(BeFalse())
		w.Expect(w.events(s.Name)).NotTo(ContainSubstring("was deleted before"))
	}
}

// TestUndeliveredScansGoWhenTheHoldHasPassed: their deletion is reported and counted.
func TestUndeliveredScansGoWhenTheHoldHasPassed(t *testing.T) {
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(o *scan.Options) { o.Metrics = scan.NewMetrics(registry) })
	w.forwardTo(setHold(1))
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition())
	s := w.settle("s")
	w.put(s, executionv1.FindingsFile, "[]")
	w.forwarded("s", metav1.ConditionFalse, "RecordsRejected")
	w.Expect(w.Client.Delete(t.Context(), s)).To(Succeed())
	w.Eventually(w.gone("s")).Should(BeTrue())
	w.Expect(w.stored(s, executionv1.FindingsFile)).To(BeFalse())
	w.Eventually(func() string { return w.events("s") }).Should(ContainSubstring("Scan s (UID " + string(s.UID) + ") was deleted before its results were with: " + sinkHub))
	w.Expect(total(t, registry, "scanyard_forwarding_scans_lost_total")).To(Equal(1.0))
}

// TestNoExtraCallsWithoutSinks: where no sink takes the results of a namespace, its Scans make the kinds of calls to API server and storage that they
// make where nobody has thought of forwarding, and no further one.
func TestNoExtraCallsWithoutSinks(t *testing.T) {
	kinds := func(t *testing.T, settings clusterSpec) []string {
		t.Helper()
		w := newWorld(t)
		w.completeAll()
		w.clusterSettings(settings)
		w.Create(w.scanType(), w.parseDefinition())
		s := w.settle("s")
		w.Expect(s.Finalizers).To(Equal([]string{executionv1.FinalizerStorage}))
		w.Expect(w.said("s")()).To(BeEmpty())
		w.Expect(w.Client.Delete(t.Context(), s)).To(Succeed())
		w.Eventually(w.gone("s")).Should(BeTrue())
		w.faults.mu.Lock()
		defer w.faults.mu.Unlock()
		return slices.Compact(slices.Sorted(slices.Values(w.faults.calls)))
	}
	var want []string
	t.Run("no thought", func(t *testing.T) { // a test of its own: there is one setting for the cluster
		if want = kinds(t, clusterSpec{}); len(want) < 4 {
			t.Errorf("only these calls were seen: %v", want)
		}
	})
	t.Run("no sink", func(t *testing.T) {
		forwarding := &settingsv1alpha2.ClusterResultForwarding{Delivery: settingsv1alpha2.Delivery{HoldSeconds: new(int32(60))}}
		if got := kinds(t, clusterSpec{ResultForwarding: forwarding}); !slices.Equal(got, want) {
			t.Errorf("calls %v, want %v", got, want)
		}
	})
}

// TestWithoutSinksNothingIsHeld: neither a finalizer nor a word of forwarding is on the Scan.
func TestWithoutSinksNothingIsHeld(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition())
	s := w.settle("s")
	w.Expect(s.Finalizers).To(Equal([]string{executionv1.FinalizerStorage}))
	w.Expect(s.Status.Forwarding).To(BeEmpty())
	w.Expect(w.Client.Delete(t.Context(), s)).To(Succeed())
	w.Eventually(w.gone("s")).Should(BeTrue())
}

// TestScansThatMustBeForwardedWaitForIt, also when another operator takes over in between.
func TestScansThatMustBeForwardedWaitForIt(t *testing.T) {
	w := newWorld(t)
	w.forwardTo(func(d *settingsv1alpha2.Delivery) { d.FailurePolicy = settingsv1alpha2.FailurePolicyFail })
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonForwarding))
	w.Expect(w.get("s").Status.State).To(Equal(executionv1.ScanStateHookProcessing))
	w.stop()
	w.run(nil)
	w.touch("s")
	w.forwarded("s", metav1.ConditionFalse, "TokenRejected")
	w.Expect(w.get("s").Status.State).To(Equal(executionv1.ScanStateHookProcessing))
	w.forwarded("s", metav1.ConditionTrue, "Complete")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.Expect(w.said("s")()).To(Equal("True Complete"))
}
