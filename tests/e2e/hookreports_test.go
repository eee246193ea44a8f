// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
)

// policyReportCRDs has the cluster keep PolicyReports as custom resources, as policy engines install them.
func policyReportCRDs(ctx context.Context) {
	GinkgoHelper()
	files, err := filepath.Glob("../../apis/testdata/reportcrds/wgpolicyk8s.io_*.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		b, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		crd := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(b, &crd.Object)).To(Succeed(), file)
		if err := w.admin.Create(ctx, crd); !apierrors.IsAlreadyExists(err) {
			Expect(err).NotTo(HaveOccurred(), file)
		}
	}
	eventually(ctx, "PolicyReports to be served", func(ctx context.Context) (bool, error) {
		list := policyReportList()
		return w.admin.List(ctx, list, client.Limit(1)) == nil, nil
	})
}

func policyReportList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(wgpolicyv1alpha2.SchemeGroupVersion.WithKind("PolicyReportList"))
	return list
}

func policyReports(ctx context.Context, ns string) []unstructured.Unstructured {
	GinkgoHelper()
	list := policyReportList()
	Expect(w.admin.List(ctx, list, client.InNamespace(ns))).To(Succeed())
	return list.Items
}

var _ = Describe("Findings as PolicyReports", Label("hooks", "reports"), func() {
	// The hook's own account writes them; who reads them needs rights on reports alone.
	It("appear in the team's namespace, are read at the terminal, and go with their Scan", func(ctx SpecContext) {
		policyReportCRDs(ctx)
		ns := namespace(ctx)
		reader := ns + "-reader"
		create(ctx,
			&rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reads-reports"},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"wgpolicyk8s.io"}, Resources: []string{"policyreports"}, Verbs: []string{"get", "list"}}},
			},
			&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reads-reports"},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: reader}},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reads-reports"},
			},
			shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"),
		)
		chart(ctx, "persistence-reports", ns, nil)
		s := done(ctx, shellScan(ns, "shop", "cat >"+resultPath+" <<'EOF'\n"+nmapXML("22", "443")+"\nEOF"))

		reports := policyReports(ctx, ns)
		Expect(reports).To(HaveLen(1))
		results, _, err := unstructured.NestedSlice(reports[0].Object, "results")
		Expect(err).NotTo(HaveOccurred())
		Expect(results).To(HaveLen(len(findings(ctx, s))), "a result for each finding")
		Expect(reports[0].GetOwnerReferences()).To(ContainElement(HaveField("UID", s.UID)), "the Scan owns its report")

		terminal := atTerminal(ns, reader)
		terminal.wants(ctx, 0, []string{"Policy reports in namespace: " + ns, reports[0].GetName()}, "reports", "get", "polr")
		terminal.wants(ctx, 0, []string{"Open Port: 443", "source: scanyard/sh"}, "reports", "get", "polr", reports[0].GetName(), "-o", "yaml")
		terminal.wants(ctx, 0, []string{"0 counts of summaries do not fit"}, "reports", "lint")
		terminal.wants(ctx, 1, []string{"may not delete policyreports"}, "reports", "delete", "polr", reports[0].GetName())

		Expect(w.admin.Delete(ctx, s)).To(Succeed())
		eventually(ctx, "the end of the Scan's reports", func(ctx context.Context) (bool, error) { return len(policyReports(ctx, ns)) == 0, nil })
	})
})
