// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// resultsStored is the condition of a Scan.
func resultsStored(s *executionv1.Scan) metav1.Condition {
	for i := range s.Status.Conditions {
		if s.Status.Conditions[i].Type == executionv1.ConditionResultsStored {
			return s.Status.Conditions[i]
		}
	}
	return metav1.Condition{}
}

var _ = Describe("The storage switch", Label("forwarding"), Ordered, func() {
	var f *forwardingWorld

	BeforeAll(func(ctx SpecContext) {
		f = newForwardingWorld(ctx, func(forwarder map[string]any) { forwarder["storageSwitch"] = map[string]any{"enabled": true} })
	})

	remove := map[string]any{"inClusterStorage": map[string]any{"afterForwarding": "Remove"}}

	It("leaves nothing of a Scan's results in the cluster (TestStorageSwitchLeavesNothing)", func(ctx SpecContext) {
		f.forward(ctx, f.sinkTo(f.near, remove))
		for _, s := range f.scans(ctx, "goes", 3, 20) {
			done := until(ctx, s, "lose its results", func(s *executionv1.Scan) bool {
				return resultsStored(s).Reason == executionv1.ReasonRemovedAfterForwarding
			})
			Expect(resultsOf(ctx, done)).To(BeEmpty(), "stored")
			Expect(done.Status.State).To(Equal(executionv1.ScanStateDone))
			Expect(done.Status.FindingDownloadLink + done.Status.RawResultDownloadLink).To(BeEmpty())
			Expect(resultsStored(done).Message).To(ContainSubstring("cluster/default"))
			f.wantComplete(ctx, f.near, done)
			wantEvent(ctx, done, "ResultsRemoved")
		}
	})

	It("keeps results while the receiver is away, and removes them when it is back (TestStorageSwitchFaults)", func(ctx SpecContext) {
		f.forward(ctx, f.sinkTo(f.near, map[string]any{}))
		kept := f.wantForwarded(ctx, f.scans(ctx, "kept", 1, 5)...)[0]
		f.scale(ctx, receiverDeployment, 0)
		eventually(ctx, "the receiver to be gone", func(ctx context.Context) (bool, error) {
			_, err := fetch(ctx, "http://"+f.near.http+"/healthz")
			return err != nil, nil
		})
		f.forward(ctx, f.sinkTo(f.near, remove))
		Expect(resultsOf(ctx, kept)).NotTo(BeEmpty(), "stored")
		f.kill(ctx)
		until(ctx, kept, "say why it is kept", func(s *executionv1.Scan) bool {
			return resultsStored(s).Reason == executionv1.ReasonForwardingUnhealthy
		})
		Expect(resultsOf(ctx, kept)).NotTo(BeEmpty(), "stored")
		f.scale(ctx, receiverDeployment, 1)
		gone := until(ctx, kept, "lose its results", func(s *executionv1.Scan) bool {
			return resultsStored(s).Reason == executionv1.ReasonRemovedAfterForwarding
		})
		Expect(resultsOf(ctx, gone)).To(BeEmpty(), "stored")
		Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(gone), gone)).To(Succeed())
	})

	// Nobody takes the results: no forwarder runs, and nothing listens where the sink is. In a cluster of its own, Kubernetes removes the
	// namespace at once; beside hundreds of namespaces that other specs delete, that takes minutes.
	It("holds what is deleted for as long as the settings say, and no namespace for ever (TestForwardingDeletion)", func(ctx SpecContext) {
		f.scale(ctx, "forwarding-forwarder", 0)
		eventually(ctx, "the forwarder to be gone", func(ctx context.Context) (bool, error) {
			_, err := fetch(ctx, "http://"+f.metrics+"/healthz")
			return err != nil, nil
		})
		nowhere := receiver{address: "127.0.0.1:1"}
		f.forward(ctx, f.sinkTo(nowhere, map[string]any{"holdSeconds": 3600}))
		ns, doomed := namespace(ctx), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
		create(ctx, doomed)
		for _, n := range []string{ns, doomed.Name} {
			create(ctx, shellType(n, "test-txt"), parser(n, "test-txt"))
		}
		byHand, byTTL, withNamespace := shellScan(ns, "by-hand", quick), shellScan(ns, "by-ttl", quick), shellScan(doomed.Name, "with-namespace", quick)
		byTTL.Spec.TTLSecondsAfterFinished = new(int32(0))
		create(ctx, byHand, byTTL, withNamespace)
		for _, s := range []*executionv1.Scan{wantDone(ctx, byHand), wantDone(ctx, withNamespace)} {
			Expect(s.Finalizers).To(ContainElement(executionv1.FinalizerDelivery))
		}
		Expect(w.admin.Delete(ctx, byHand)).To(Succeed())
		Expect(w.admin.Delete(ctx, doomed)).To(Succeed())
		for _, s := range []*executionv1.Scan{byHand, byTTL, withNamespace} {
			until(ctx, s, "be held", func(s *executionv1.Scan) bool { return forwarded(s).Reason == executionv1.ReasonHeld })
		}
		wantEvent(ctx, byHand, executionv1.ReasonHeld)
		wantEvent(ctx, byTTL, executionv1.ReasonHeld)

		By("holding nothing any longer")
		f.forward(ctx, f.sinkTo(nowhere, map[string]any{"holdSeconds": 1}))
		for _, s := range []*executionv1.Scan{byHand, byTTL} {
			gone(ctx, s)
			wantEvent(ctx, s, executionv1.ReasonDeletedUnforwarded)
			Expect(resultsOf(ctx, s)).To(BeEmpty(), "stored")
		}
		gone(ctx, withNamespace)
		gone(ctx, doomed)
	})
})
