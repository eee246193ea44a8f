// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

var _ = Describe("Exceptions", Label("isolation"), func() {
	// A team excepts one of the two findings of a Scan. The operator hands that to the parser, and to the hook that changes findings and counts
	// them anew; the stored findings stay, and the exception says how many it matches, and who has made it.
	It("reach parser and hooks, count what is open, and leave the findings as they are", func(ctx SpecContext) {
		ns := namespace(ctx)
		p := parser(ns, "test-txt")
		p.Spec.ScanAccess = executionv1.ScanAccessHandover
		e := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ports"}}
		e.Spec.Status, e.Spec.Reason = settingsv1alpha2.ExceptionFalsePositive, "The port is that of the test itself."
		e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Categories: []string{"Open*"}}}
		create(ctx, shellType(ns, "test-txt"), p, e)
		chart(ctx, "update-field", ns, map[string]any{"attribute": map[string]any{"name": "severity", "value": "HIGH"}})
		got := done(ctx, shellScan(ns, "excepted", quick))
		list := findings(ctx, got)
		wantStats(got, list)
		stats := got.Status.Findings
		if len(list) != 2 || stats.Excepted == nil || *stats.Excepted != 1 || stats.Open == nil || stats.Open.High == nil || *stats.Open.High != 1 {
			Fail(fmt.Sprintf("of %d findings, which are counted as %+v", len(list), stats))
		}
		Expect(meta.IsStatusConditionTrue(got.Status.Conditions, executionv1.ConditionExceptionsApplied)).To(BeTrue(), "the parser does not say that exceptions were applied")
		eventually(ctx, "the exception to say what it matches", func(ctx context.Context) (bool, error) {
			err := w.admin.Get(ctx, client.ObjectKeyFromObject(e), e)
			return e.Status.Matched != nil && *e.Status.Matched == 1 && e.Status.LastMatched != nil && e.Status.CreatedBy != "", err
		})
	})
})
