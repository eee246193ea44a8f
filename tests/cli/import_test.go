// SPDX-License-Identifier: Apache-2.0

package cli

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/apis/resultimport"
	"github.com/scanyard/scanyard/tests/install"
)

var _ = Describe("A result that was made elsewhere", Label("cli"), func() {
	It("becomes findings by the rights of role edit, and leaves nothing behind", Label("smoke"), func(ctx SpecContext) {
		const file = "testdata/import.sarif"
		forget("import-sarif", "later")
		wants(typed(ctx, w.alice, 1, "import", file, "--type", "sarif").ErrOut, "helm install import <charts>/import --namespace "+team)
		types := map[string]any{"resultTypes": []string{"sarif", "grype-json"}}
		for chart, values := range map[string]map[string]any{"import": types, "parse-definitions": {"resultTypes": []string{"sarif"}}} {
			Expect(w.helm.Install(ctx, install.Release{Chart: chart, Namespace: team, Values: values})).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(w.helm.Uninstall(ctx, chart, team)).To(Succeed()) })
		}
		wants(typed(ctx, w.alice, 1, "import", file, "--type", "saref").ErrOut, "did you mean sarif?")
		wants(typed(ctx, w.alice, 1, "import", file, "--type", "grype-json").ErrOut, `there is no ParseDefinition "grype-json"`)
		typed(ctx, w.alice, 0, "import", file, "--type", "sarif", "--dry-run")
		wants(typed(ctx, w.victor, 1, "import", file, "--type", "sarif").ErrOut, "edit")
		// The API server refuses the Scan after it has taken the ConfigMaps.
		typed(ctx, w.alice, 1, "import", file, "--type", "sarif", "--label", "not valid=x")
		Expect(partsOfImports(ctx)).To(BeEmpty(), "ConfigMaps of imports that were refused")

		r := typed(ctx, w.alice, 2, "import", file, "--type", "sarif", "--wait", "--fail-on", "high")
		wants(r.Out, "scan import-sarif is Done", "2 findings")
		wants(typed(ctx, w.alice, 0, "findings", "import-sarif").Out, "SQL query is built from user input", "src/login.go")
		Expect(partsOfImports(ctx)).To(BeEmpty(), "ConfigMaps of an import that is done")

		// Without --wait they go with the Scan.
		typed(ctx, w.alice, 0, "import", file, "--type", "sarif", "--name", "later")
		typed(ctx, w.alice, 0, "wait", "later", "--quiet")
		Expect(partsOfImports(ctx)).To(HaveLen(1))
		typed(ctx, w.alice, 0, "delete", "later")
		Eventually(partsOfImports).WithContext(ctx).Should(BeEmpty(), "ConfigMaps of a Scan that is deleted")
	})
})

func partsOfImports(ctx SpecContext) []corev1.ConfigMap {
	GinkgoHelper()
	all := &corev1.ConfigMapList{}
	Expect(w.admin.List(ctx, all, client.InNamespace(team), client.HasLabels{resultimport.LabelImport})).To(Succeed())
	return all.Items
}
