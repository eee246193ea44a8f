// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanyard/scanyard/apis/finding"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/findings/vulnerability"
)

// TestAlike holds that exceptions are asked about the finding of a report as about the same one of a Scan.
func TestAlike(t *testing.T) {
	score, built := 9.8, metav1.NewTime(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	image := &reportsv1.VulnerabilityReport{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-1"}}
	image.Spec.Image = "web-1"
	image.Spec.ImageRef = reportsv1.ImageRef{
		Registry: &reportsv1.RegistryRef{Name: "hub", Host: "registry.example.com"}, Repository: "web", Tag: "1.2", Digest: "sha256:0a", Platform: "linux/amd64",
	}
	image.Spec.Provenance = &reportsv1.Provenance{
		Engine: &reportsv1.Engine{Name: "trivy", Version: "0.60"}, Database: &reportsv1.DatabaseUsed{DatabaseRef: reportsv1.DatabaseRef{Version: "v7", BuiltAt: &built}},
	}
	untagged := image.DeepCopy()
	untagged.Spec.Tag, untagged.Spec.Provenance = "", nil
	whole := reportsv1.VulnerabilityFinding{
		VulnerabilityID: "CVE-2021-23337", Aliases: []string{"GHSA-35jh-r3h4-6jhm", "DSA-1"}, CWEs: []string{"CWE-94"}, Severity: "CRITICAL", SeveritySource: "nvd",
		Package:       reportsv1.VulnerablePackage{Name: "lodash", Version: "4.17.20", Type: "node-pkg", PURL: "pkg:npm/lodash@4.17.20"},
		FixedVersions: []string{"4.17.21", "5"}, Target: "app/package.json", Score: &score, Title: "lodash: command injection", Description: "long",
		CVSS:       []reportsv1.CVSS{{Source: "ghsa", Vector: "CVSS:3.1/AV:L"}, {Source: "nvd", Vector: "CVSS:3.1/AV:N", Score: &score}},
		PrimaryURL: "https://example.com/1", References: []string{"https://example.com/2", "javascript:1"}, Layer: &reportsv1.FindingLayer{DiffID: "sha256:1b"},
		KEV: &reportsv1.KEV{DateAdded: "2021-12-10"}, EPSS: &reportsv1.EPSS{Score: &score, Date: "2026-11-22"},
	}
	for name, c := range map[string]struct {
		report  *reportsv1.VulnerabilityReport
		finding reportsv1.VulnerabilityFinding
	}{
		"whole": {image, whole},
		"bare":  {untagged, reportsv1.VulnerabilityFinding{VulnerabilityID: "GO-2024-1", Package: reportsv1.VulnerablePackage{Name: "a", Type: "gobinary"}, Severity: "UNKNOWN"}},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := vulnerability.Object(c.report, &c.finding, "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(plain(t, want), parsed(t, c.report, &c.finding)); diff != "" {
				t.Errorf("(-report +scan):\n%s", diff)
			}
		})
	}
}

// plain are the members that exceptions ask, without an order and without empty ones.
func plain(t *testing.T, value any) map[string]any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var all, asked map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	asked = map[string]any{}
	for _, key := range []string{"name", "category", "severity", "location", "references", "attributes"} {
		if all[key] != nil {
			asked[key] = all[key]
		}
	}
	return asked
}

// parsed is the finding of a Scan of the Registry.
func parsed(t *testing.T, from *reportsv1.VulnerabilityReport, f *reportsv1.VulnerabilityFinding) (got map[string]any) {
	t.Helper()
	decoded := func(value any) finding.Object {
		t.Helper()
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		v, err := finding.DecodeValue(text, 0)
		if err != nil {
			t.Fatal(err)
		}
		o, _ := v.(finding.Object)
		return o
	}
	ref := &from.Spec.ImageRef
	of := ref.Registry.Host + "/" + ref.Repository + ":" + ref.Tag
	if ref.Tag == "" {
		of = ref.Registry.Host + "/" + ref.Repository + "@" + ref.Digest
	}
	about := decoded(map[string]any{
		"name": from.Spec.Image, "reference": of, "repository": ref.Repository, "tag": ref.Tag, "digest": ref.Digest, "platform": ref.Platform,
		"provenance": from.Spec.Provenance,
	})
	r := &report{
		ctx: t.Context(), registry: decoded(map[string]any{"name": ref.Registry.Name, "namespace": from.Namespace}),
		emit: func(made *finding.Finding) error { got = plain(t, made); return nil },
	}
	if err := r.vulnerability(about, decoded(f)); err != nil {
		t.Fatal(err)
	}
	return got
}
