// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
func wantStats(t *testing.T, s *executionv1.Scan, findings []finding.Finding) {
	t.Helper()
	if got := scans.Count(s); got != int64(len(findings)) {
		t.Errorf("status counts %d findings, storage has %d", got, len(findings))
	}
	if diff := cmp.Diff(categories(findings), s.Status.Findings.FindingCategories); diff != "" {
		t.Errorf("status.findings.categories (-stored +status):\n%s", diff)
	}
}

// TestTestScanUploadsAnEmptyFile also holds the shape of the counters: a severity
// without findings is absent (trap T5).
func TestTestScanUploadsAnEmptyFile(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	chart(t, "test-scan", ns, scanner(t, "scanner-test-scan"))
	got := done(t, scans.New(ns, "empty", "test-scan"))
	wantStats(t, got, findings(t, got))
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("Scan"))
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(got), u); err != nil {
		t.Fatal(err)
	}
	severities, _, err := unstructured.NestedMap(u.Object, "status", "findings", "severities")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(severities)
	if err != nil || string(b) != `{"informational":2}` {
		t.Errorf("severities %s, want informational alone (%v)", b, err)
	}
}

// TestDefect64UpdateFieldLeavesNoStaleCategories changes the category of every
// finding: neither storage nor the counters may know the old ones afterwards.
func TestDefect64UpdateFieldLeavesNoStaleCategories(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	chart(t, "test-scan", ns, nil)
	chart(t, "update-field", ns, map[string]any{"attribute": map[string]any{"name": "category", "value": "renamed"}})
	chart(t, "generic-webhook", ns, map[string]any{"webhookUrl": w.hooks.URL("/" + ns)})
	got := done(t, scans.New(ns, "renamed", "test-scan"))
	all := findings(t, got)
	wantStats(t, got, all)
	if diff := cmp.Diff(map[string]int64{"renamed": 2}, categories(all)); diff != "" {
		t.Errorf("categories (-want +got):\n%s", diff)
	}
	// The reading hook ran after the writing one and has seen what it wrote.
	posts := w.hooks.At("/" + ns)
	if len(posts) != 1 {
		t.Fatalf("the webhook was called %d times", len(posts))
	}
	for _, raw := range posts[0].Findings {
		var f struct{ Category string }
		if err := json.Unmarshal(raw, &f); err != nil || f.Category != "renamed" {
			t.Errorf("the webhook got %s", raw)
		}
	}
}

// TestDefect64StableIDs parses the same result in two Scans: a finding keeps its id.
func TestDefect64StableIDs(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
	script := "printf '%s' '" + nmapXML("80", "443") + "' >" + resultPath
	ids := func(name string) []string {
		out := map[string]bool{}
		for _, f := range findings(t, done(t, shellScan(ns, name, script))) {
			out[f.ID.String()] = true
		}
		return slices.Sorted(maps.Keys(out))
	}
	one, two := ids("one"), ids("two")
	if diff := cmp.Diff(one, two); diff != "" || len(one) != 3 {
		t.Errorf("ids of two runs differ, or are not 3 (-one +two):\n%s", diff)
	}
}
