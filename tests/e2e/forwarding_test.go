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
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// forwardedLabel is on namespaces whose results go to a sink.
const forwardedLabel = "e2e-forwarded"

var _ = Describe("Forwarding", Label("forwarding"), func() {
	// Nobody takes the results: no forwarder is installed, and nothing listens where the sink is.
	It("holds what is deleted for as long as the settings say, and no namespace for ever (TestForwardingDeletion)", func(ctx SpecContext) {
		ns := namespace(ctx, forwardedLabel+"=true")
		doomed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: map[string]string{forwardedLabel: "true"}}}
		create(ctx, doomed)
		setting := &settingsv1alpha2.ClusterScanSetting{
			ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name},
			Spec: settingsv1alpha2.ClusterScanSettingSpec{ResultForwarding: &settingsv1alpha2.ClusterResultForwarding{
				Sinks: []settingsv1alpha2.NamedClusterSink{{Name: "hub", ClusterSink: settingsv1alpha2.ClusterSink{
					Sink: settingsv1alpha2.Sink{
						Provider: settingsv1alpha2.ProviderGRPC, GRPC: &settingsv1alpha2.GRPCSink{Endpoint: "https://127.0.0.1:1"},
					},
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{forwardedLabel: "true"}},
				}}},
				Delivery: settingsv1alpha2.Delivery{HoldSeconds: new(int32(10))},
			}},
		}
		createGlobal(ctx, setting)
		eventually(ctx, "the operator to see the settings", func(ctx context.Context) (bool, error) {
			err := w.admin.Get(ctx, client.ObjectKeyFromObject(setting), setting)
			return len(setting.Status.Conditions) > 0, err
		})
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
		for _, s := range []*executionv1.Scan{byHand, byTTL} {
			wantEvent(ctx, s, executionv1.ReasonHeld)
			gone(ctx, s)
			wantEvent(ctx, s, executionv1.ReasonDeletedUnforwarded)
			Expect(resultsOf(ctx, s)).To(BeEmpty(), "stored")
		}
		gone(ctx, withNamespace)
		gone(ctx, doomed)
	})
})
