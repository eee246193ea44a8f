// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/tests/gitrepo"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/target"
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

func TestNmapFindsServices(t *testing.T) {
	t.Parallel()
	aim, err := target.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = aim.Close() })
	ns := namespace(t)
	chart(t, "nmap", ns, nil)
	got := done(t, scans.New(ns, "services", "nmap", "-sV", "-p", aim.Ports(), aim.Host))
	all := findings(t, got)
	wantStats(t, got, all)
	var services []string
	for i := range all {
		if port, ok := all[i].Attributes.Get("port"); ok {
			services = append(services, fmt.Sprintf("%v/%s", port, all[i].Attributes.Text("service")))
		}
	}
	want := []string{fmt.Sprintf("%d/http", aim.HTTP), fmt.Sprintf("%d/ssh", aim.SSH)}
	slices.Sort(services)
	slices.Sort(want)
	if diff := cmp.Diff(want, services); diff != "" {
		t.Errorf("open ports (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"findings.json", "nmap-results.xml"}, stored(t, got)); diff != "" {
		t.Errorf("stored objects (-want +got):\n%s", diff)
	}
}

func TestGitleaksFindsCredential(t *testing.T) {
	t.Parallel()
	repo, err := gitrepo.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(repo.Close)
	ns := namespace(t)
	chart(t, "gitleaks", ns, nil)
	s := scans.New(ns, "leaks", "gitleaks", "--source", "/repo")
	mount := corev1.VolumeMount{Name: "repo", MountPath: "/repo"}
	s.Spec.Volumes = []corev1.Volume{{Name: "repo"}}
	s.Spec.VolumeMounts = []corev1.VolumeMount{mount}
	s.Spec.InitContainers = []corev1.Container{{
		Name: "clone", Image: "docker.io/alpine/git", Command: []string{"git", "clone", "--quiet", repo.URL, "/repo"}, VolumeMounts: []corev1.VolumeMount{mount},
	}}
	got := done(t, s)
	all := findings(t, got)
	wantStats(t, got, all)
	if len(all) != 1 || all[0].Attributes.Text("offender").String() != repo.Secret || all[0].Attributes.Text("file").String() != repo.File {
		t.Errorf("findings %v, want the one credential in %s", all, repo.File)
	}
}

// TestTestScanUploadsAnEmptyFile also holds the shape of the counters: a severity
// without findings is absent (trap T5).
func TestTestScanUploadsAnEmptyFile(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	chart(t, "test-scan", ns, nil)
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
