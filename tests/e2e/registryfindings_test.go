// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/scans"
)

// installOperator puts the operator beside the reports API.
func (r *reportsWorld) installOperator(ctx context.Context) {
	GinkgoHelper()
	op, err := r.helm.InstallOperator(ctx, r.config, install.OperatorOptions{Store: r.store})
	Expect(err).NotTo(HaveOccurred())
	Expect(op.Ready(ctx, 2*time.Minute)).To(Succeed())
}

// publish sets spec.findings of a Registry, waits for the good end of its one Scan, and downloads the findings of one vulnerability.
func (r *reportsWorld) publish(ctx context.Context, as dynamic.Interface, ns, registry, findings string) (*executionv1.Scan, []finding.Finding) {
	GinkgoHelper()
	_, err := as.Resource(registries).Namespace(ns).Patch(ctx, registry, types.MergePatchType, []byte(`{"spec":{"findings":`+findings+`}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	c, err := scans.Connect(r.config)
	Expect(err).NotTo(HaveOccurred())
	list := &executionv1.ScanList{}
	eventually(ctx, "the Scan of "+registry, func(ctx context.Context) (bool, error) {
		err := c.List(ctx, list, client.InNamespace(ns))
		return len(list.Items) > 0 && list.Items[0].Settled(), err
	}, list)
	Expect(list.Items).To(HaveLen(1))
	s := &list.Items[0]
	Expect(s.Status.State).To(Equal(executionv1.ScanStateDone), "%s: %s", scans.Ready(s).Reason, s.Status.ErrorDescription)
	Expect(s.Name).To(HavePrefix("registry-" + registry + "-"))
	Expect(s.Labels).To(HaveKeyWithValue(executionv1.LabelTarget, "registry-"+registry))
	all, err := scans.Findings(ctx, s)
	Expect(err).NotTo(HaveOccurred())
	var found []finding.Finding
	for i := range all {
		if all[i].Attributes.Text("vulnerabilityId") == finding.String(lodash) {
			found = append(found, all[i])
		}
	}
	return s, found
}

// wantLodash holds findings against those of one image with an old lodash.
func wantLodash(found []finding.Finding, location string) {
	GinkgoHelper()
	Expect(found).To(HaveLen(1))
	Expect(found[0].Location).To(Equal(finding.String(location)))
	Expect(found[0].Severity).To(Equal(finding.String("HIGH")))
	Expect(originOf(&found[0])).To(HavePrefix("VulnerabilityReport/"))
}

func originOf(f *finding.Finding) string { return f.Attributes.Text("origin").String() }

// origins are the places of which results of PolicyReports are a copy.
func (r *reportsWorld) origins(ctx context.Context, ns string) []string {
	GinkgoHelper()
	list, err := r.any.Resource(polr).Namespace(ns).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	var all []string
	for _, report := range list.Items {
		results, _, err := unstructured.NestedSlice(report.Object, "results")
		Expect(err).NotTo(HaveOccurred())
		for _, result := range results {
			origin, _, err := unstructured.NestedString(result.(map[string]any), "properties", "scanyard.io/origin")
			Expect(err).NotTo(HaveOccurred())
			all = append(all, origin)
		}
	}
	return all
}

// known counts the findings of a vulnerability that a member of a namespace is told of.
func known(ctx context.Context, as dynamic.Interface, ns string) int64 {
	GinkgoHelper()
	answer, err := as.Resource(queries).Namespace(ns).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "reports.scanyard.io/v1alpha1", "kind": "FindingQuery", "spec": map[string]any{"vulnerability": lodash},
	}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	total, _, err := unstructured.NestedInt64(answer.Object, "status", "total")
	Expect(err).NotTo(HaveOccurred())
	return total
}

// deliveredTo are the findings of the vulnerability that a webhook has got, by the name of their Scan.
func deliveredTo(ctx context.Context, ns string) map[string]int {
	GinkgoHelper()
	got := map[string]int{}
	for _, d := range delivered(ctx, "/"+ns) {
		for _, raw := range d.Findings {
			if strings.Contains(string(raw), lodash) {
				got[d.Scan.Name]++
			}
		}
	}
	return got
}
