// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
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
})
