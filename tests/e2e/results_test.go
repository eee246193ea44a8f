// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/tests/scans"
)

func categories(findings []finding.Finding) map[string]int64 {
	out := map[string]int64{}
	for i := range findings {
		out[findings[i].Category.String()]++
	}
	return out
}

// wantStats holds the counters of the status against the stored findings.
func wantStats(s *executionv1.Scan, findings []finding.Finding) {
	GinkgoHelper()
	if got := scans.Count(s); got != int64(len(findings)) {
		Fail(fmt.Sprintf("status counts %d findings, storage has %d", got, len(findings)))
	}
	Expect(s.Status.Findings.FindingCategories).To(BeComparableTo(categories(findings)), "status.findings.categories (-stored +status)")
}

var _ = Describe("Results", Label("results"), func() {
	// Also holds the shape of the counters: a severity
	// without findings is absent (trap T5).
	It("may be empty, and severities without findings are absent (trap T5)", Label("smoke"), func(ctx SpecContext) {
		ns := namespace(ctx)
		chart(ctx, "test-scan", ns, scanner(ctx, "scanner-test-scan"))
		got := done(ctx, scans.New(ns, "empty", "test-scan"))
		wantStats(got, findings(ctx, got))
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("Scan"))
		Expect(w.admin.Get(ctx, client.ObjectKeyFromObject(got), u)).To(Succeed())
		severities, _, err := unstructured.NestedMap(u.Object, "status", "findings", "severities")
		Expect(err).NotTo(HaveOccurred())
		b, err := json.Marshal(severities)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(b)).To(Equal(`{"informational":2}`), "severities %s, want informational alone (%v)", b, err)
	})

	// Changes the category of every
	// finding: neither storage nor the counters may know the old ones afterwards.
	It("have no category left that a hook has changed, neither in storage nor in the counters", defect(64), func(ctx SpecContext) {
		ns := namespace(ctx)
		chart(ctx, "test-scan", ns, nil)
		chart(ctx, "update-field", ns, map[string]any{"attribute": map[string]any{"name": "category", "value": "renamed"}})
		chart(ctx, "generic-webhook", ns, map[string]any{"webhookUrl": w.hooks.URL("/" + ns)})
		got := done(ctx, scans.New(ns, "renamed", "test-scan"))
		all := findings(ctx, got)
		wantStats(got, all)
		Expect(categories(all)).To(BeComparableTo(map[string]int64{"renamed": 2}), "categories")
		// The reading hook ran after the writing one and has seen what it wrote.
		posts := delivered(ctx, "/"+ns)
		Expect(posts).To(HaveLen(1), "the webhook was called %d times", len(posts))
		for _, raw := range posts[0].Findings {
			var f struct{ Category string }
			if err := json.Unmarshal(raw, &f); err != nil || f.Category != "renamed" {
				Fail(fmt.Sprintf("the webhook got %s", raw))
			}
		}
	})

	It("keep the id of a finding from one Scan to the next", defect(64), func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
		script := "printf '%s' '" + nmapXML("80", "443") + "' >" + resultPath
		ids := func(name string) []string {
			out := map[string]bool{}
			for _, f := range findings(ctx, done(ctx, shellScan(ns, name, script))) {
				out[f.ID.String()] = true
			}
			return slices.Sorted(maps.Keys(out))
		}
		one, two := ids("one"), ids("two")
		if diff := cmp.Diff(one, two); diff != "" || len(one) != 3 {
			Fail(fmt.Sprintf("ids of two runs differ, or are not 3 (-one +two):\n%s", diff))
		}
	})
})
