// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

var _ = Describe("Handing over", Label("isolation"), func() {
	// Runs a Scan with our parser and a hook of ours that changes findings, by its chart: what both have done
	// is told by their last words, no account is made for the Scan, and there is no token in their pods.
	It("leaves our parser and hooks without account and token", Label("smoke"), func(ctx SpecContext) {
		ns := namespace(ctx)
		p := parser(ns, "test-txt")
		p.Spec.ScanAccess = executionv1.ScanAccessHandover
		create(ctx, shellType(ns, "test-txt"), p)
		chart(ctx, "update-field", ns, map[string]any{"attribute": map[string]any{"name": "severity", "value": "HIGH"}})
		got := done(ctx, shellScan(ns, "handed", quick))
		list := findings(ctx, got)
		wantStats(got, list)
		if high := got.Status.Findings.FindingSeverities.High; high == nil || *high != int64(len(list)) {
			Fail(fmt.Sprintf("the hook's counts are not told: %+v", got.Status.Findings))
		}
		Expect(got.Status.StoredFindings).NotTo(BeNil(), "it is not told which bytes the findings are")
		// Of a hundred namespaces and types each is named; this suite has more.
		counted := regexp.MustCompile(`(?m)^scanyard_findings\{namespace="(` + ns + `|other)",scan_type="(sh|other)",severity="high"\} [1-9]`)
		eventually(ctx, "the findings to be counted", func(ctx context.Context) (bool, error) {
			text, err := fetch(ctx, "http://"+w.op.Metrics+"/metrics")
			return counted.Match(text), err
		})
		for name, job := range jobsOf(got) {
			pod := job.Spec.Template.Spec
			if name != "scanner" && (pod.ServiceAccountName != "" || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken) {
				Fail(fmt.Sprintf("%s runs as %q with a token", name, pod.ServiceAccountName))
			}
		}
		var accounts corev1.ServiceAccountList
		Expect(w.admin.List(ctx, &accounts, client.InNamespace(ns))).To(Succeed())
		for i := range accounts.Items {
			if n := accounts.Items[i].Name; n != "default" && n != executionv1.ServiceAccountLurker {
				Fail(fmt.Sprintf("there is an account %s", n))
			}
		}
	})
})
