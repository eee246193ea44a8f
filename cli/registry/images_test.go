// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/clitest"
)

const (
	host    = "registry.example.com"
	lodash  = "pkg:npm/lodash@4.17.15"
	zlib    = "pkg:deb/debian/zlib1g@1.2.11"
	digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	digestB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	layer   = "sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
)

// now is the user's clock; reports are of the day before.
var now = time.Date(2030, 3, 2, 12, 0, 0, 0, time.UTC)

// world is a namespace with the Registry prod, and the reports API.
func world(t *testing.T) (*clitest.World, *clitest.Reports) {
	t.Helper()
	if err := cluster.InstallRegistryCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := clitest.New(t, cluster)
	create(t, w, "prod", func(*registryv1alpha1.Registry) {})
	return w, w.ServeReports()
}

// create makes a Registry.
func create(t *testing.T, w *clitest.World, name string, edit func(*registryv1alpha1.Registry)) *registryv1alpha1.Registry {
	t.Helper()
	r := &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.Namespace}}
	r.Spec.URL = "https://" + host
	edit(r)
	if err := cluster.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func imageOf(name, repository, tag, digest string) *reportsv1.Image {
	created := metav1.NewTime(now.Add(-48 * time.Hour))
	image := &reportsv1.Image{ObjectMeta: metav1.ObjectMeta{Name: name}}
	image.Spec = reportsv1.ImageSpec{
		Registry: reportsv1.RegistryRef{Name: "prod", UID: "uid-1", Host: host}, Repository: repository, Tag: tag, Digest: digest, Platform: "linux/amd64",
		Created: &created, CompressedBytes: 5 << 20,
		Layers: []reportsv1.ImageLayer{{Digest: layer, DiffID: layer, Bytes: 5 << 20, Command: "COPY package-lock.json /app/"}},
	}
	image.Status = reportsv1.ImageStatus{Presence: reportsv1.ImagePresent, State: reportsv1.ImagePending, FirstSeenTime: &created}
	return image
}

func finding(id, severity, purl, name, version string, fixed ...string) reportsv1.VulnerabilityFinding {
	score := map[string]float64{"CRITICAL": 9.8, "HIGH": 7.2, "LOW": 3.1}[severity]
	return reportsv1.VulnerabilityFinding{
		VulnerabilityID: id, Severity: severity, Score: &score, FixedVersions: fixed, Target: "app/package-lock.json", Class: "lang-pkgs", Title: "=cmd() in " + name,
		Package: reportsv1.VulnerablePackage{Name: name, Version: version, Type: "npm", PURL: purl}, Layer: &reportsv1.FindingLayer{Digest: layer, DiffID: layer},
	}
}

// scanned stores an Image with its SBOM and its report.
func scanned(t *testing.T, w *clitest.World, r *clitest.Reports, image *reportsv1.Image, findings ...reportsv1.VulnerabilityFinding) {
	t.Helper()
	r.Image(w.Namespace, image)
	sum := r.SBOM(w.Namespace, image.Name, lodash, zlib)
	r.Findings(w.Namespace, image.Name, sum, metav1.NewTime(now.Add(-24*time.Hour)), findings...)
}

var (
	bad  = finding("CVE-2021-23337", "HIGH", lodash, "lodash", "4.17.15", "4.17.21")
	mild = finding("CVE-2023-45853", "LOW", zlib, "zlib1g", "1.2.11")
)

// TestImages lists images, shows one, and its documents.
func TestImages(t *testing.T) {
	w, r := world(t)
	clitest.Ends(t, w.Run("registry", "images"), 0, "There are no such images", "scanyard registry discover NAME")
	scanned(t, w, r, imageOf("api-1", "shop/api", "1.0", digestA), bad, mild)
	scanned(t, w, r, imageOf("api-2", "shop/api", "1.1", digestB), mild)
	stuck := imageOf("odd-1", "shop/odd", "2", digestB)
	stuck.Status.State, stuck.Status.Reason, stuck.Status.Message = reportsv1.ImageQuarantined, "AdapterCrashed", "signal: killed"
	stuck.Status.Work = &reportsv1.Work{Attempt: 3, Crashes: 2}
	r.Image(w.Namespace, stuck)
	gone := imageOf("old-1", "shop/api", "0.9", digestB)
	gone.Status.Presence = reportsv1.ImageGone
	r.Image(w.Namespace, gone)

	list := w.Run("registry", "images", "prod")
	clitest.Ends(t, list, 0, "REFERENCE", "registry.example.com/shop/api:1.0", "linux/amd64", "Scanned", "shop/odd:2")
	if strings.Contains(list.Out, "0.9") || strings.Contains(list.Out, "DIGEST") {
		t.Errorf("lists too much:\n%s", list.Out)
	}
	clitest.Ends(t, w.Run("registry", "images", "--gone", "-o", "wide"), 0, "shop/api:0.9", "Gone", "AdapterCrashed", "5.0 MiB", "aaaaaaaaaaaa")
	for _, call := range [][]string{{"--failed", "shop/odd:2"}, {"--severity=high", "shop/api:1.0"}} {
		got := w.Run("registry", "images", call[0])
		if clitest.Ends(t, got, 0, call[1]); strings.Count(got.Out, "\n") != 2 {
			t.Errorf("%s lists more:\n%s", call[0], got.Out)
		}
	}
	clitest.Ends(t, w.Run("registry", "images", "prod", "-o", "name"), 0, "image.reports.scanyard.io/api-1")
	clitest.Ends(t, w.Run("registry", "images", "-A"), 0, w.Namespace, "shop/api:1.0")
	clitest.Ends(t, w.Run("registry", "images", "--severity", "awful"), 1, `--severity: severity "awful" is none of critical`)
	clitest.Ends(t, w.Run("registry", "images", "prid"), 1, `there is no Registry "prid"`)

	for _, ref := range []string{"shop/api:1.0", host + "/shop/api:1.0", "api-1", "shop/api@" + digestA, host + "/shop/api:1.0@" + digestA} {
		clitest.Ends(t, w.Run("registry", "image", ref), 0, "registry.example.com/shop/api:1.0", "Layer 1", "COPY package-lock.json /app/", "1 high, 1 low", "2 packages by mini 1")
	}
	clitest.Ends(t, w.Run("registry", "image", "shop/odd:2"), 0, "Quarantined, AdapterCrashed: signal: killed", "3, 2 ended the adapter")
	clitest.Ends(t, w.Run("registry", "image", "shop/apy:1.0"), 1, `there is no image "shop/apy:1.0"`, "did you mean")
	clitest.Ends(t, w.Run("registry", "image", "shop/api"), 1, `"shop/api" means 2 images: write one of them whole`)
	arm := imageOf("api-3", "shop/api", "1.0", digestB)
	arm.Spec.Platform = "linux/arm64"
	r.Image(w.Namespace, arm)
	clitest.Ends(t, w.Run("registry", "image", "shop/api:1.0"), 1, "choose one with --platform: linux/amd64, linux/arm64")
	clitest.Ends(t, w.Run("registry", "image", "shop/api:1.0", "--platform", "linux/arm64"), 0, "Pending")
	clitest.Ends(t, w.Run("registry", "vulns", "shop/api:1.0", "--platform", "linux/arm64"), 1, "has no report yet: it is Pending")
	clitest.Ends(t, w.Run("registry", "sbom", "shop/api:1.0", "--platform", "linux/arm64"), 1, "has no SBOM yet: it is Pending")
}

// TestDocuments prints SBOMs and vulnerabilities in every form.
func TestDocuments(t *testing.T) {
	w, r := world(t)
	scanned(t, w, r, imageOf("api-1", "shop/api", "1.0", digestA), bad, mild)
	scanned(t, w, r, imageOf("api-2", "shop/api", "1.1", digestB), mild, finding("CVE-2099-1", "CRITICAL", lodash, "lodash", "4.17.15"))

	clitest.Ends(t, w.Run("registry", "sbom", "shop/api:1.0"), 0, "PACKAGE", "lodash   4.17.15  npm", "zlib1g   1.2.11   deb")
	clitest.Ends(t, w.Run("registry", "sbom", "shop/api:1.0", "-o", "spdx"), 0, `"spdxVersion":"SPDX-2.3"`)
	file := filepath.Join(t.TempDir(), "api.cdx.json")
	clitest.Ends(t, w.Run("registry", "sbom", "shop/api:1.0", "-o", "cyclonedx", "-O", file), 0)
	if written, err := os.ReadFile(file); err != nil || !strings.Contains(string(written), `"bomFormat":"CycloneDX"`) {
		t.Errorf("the file: %v %.200s", err, written)
	}
	clitest.Ends(t, w.Run("registry", "sbom", "shop/api:1.0", "-o", "xml"), 1, `-o "xml": there are the formats table, spdx, cyclonedx`)

	table := w.Run("registry", "vulns", "shop/api:1.0")
	clitest.Ends(t, table, 0, "SEVERITY", "CVE-2021-23337", "4.17.21", "app/package-lock.json", "1 high, 1 low")
	if strings.Index(table.Out, "CVE-2021-23337") > strings.Index(table.Out, "CVE-2023-45853") {
		t.Errorf("the worst is not the first:\n%s", table.Out)
	}
	clitest.Ends(t, w.Run("registry", "vulns", "shop/api:1.0", "-o", "wide"), 0, "COPY package-lock.json /app/", "cccccccccccc")
	for _, flag := range []string{"--fixable", "--min-severity=high"} {
		if got := w.Run("registry", "vulns", "shop/api:1.0", flag); strings.Contains(got.Out, "CVE-2023-45853") || !strings.Contains(got.Out, "CVE-2021-23337") {
			t.Errorf("%s:\n%s", flag, got.Out)
		}
	}
	var all []reportsv1.VulnerabilityFinding
	if got := w.Run("registry", "vulns", "shop/api:1.0", "-o", "json"); json.Unmarshal([]byte(got.Out), &all) != nil || len(all) != 2 || all[0].Fingerprint == "" {
		t.Errorf("JSON: %+v", got)
	}
	clitest.Ends(t, w.Run("registry", "vulns", "shop/api:1.0", "-o", "sarif"), 0, `"version":"2.1.0"`, `"CVE-2021-23337"`)
	clitest.Ends(t, w.Run("registry", "vulns", "shop/api:1.0", "-o", "csv"), 0, "HIGH,7.2,CVE-2021-23337,lodash,4.17.15,4.17.21", "'=cmd() in lodash")
	clitest.Ends(t, w.Run("registry", "vulns", "shop/api:1.0", "-o", "html"), 0, "<!DOCTYPE html>", "oci://registry.example.com/shop/api:1.0")
	clitest.Ends(t, w.Run("registry", "vulns", "shop/api:1.0", "--fail-on", "high"), 2, "has 1 vulnerability of severity HIGH or above (--fail-on)")
	clitest.Ends(t, w.Run("registry", "vulns", "shop/api:1.0", "--fail-on", "critical"), 0)
	clitest.Ends(t, w.Run("registry", "vulns", "shop/api:1.0", "-o", "sarif", "--fail-on", "high"), 2)
	clitest.Ends(t, w.Run("registry", "vulns", "shop/api:1.0", "-o", "sarif", "--fixable"), 1, "leave out --fixable")

	clitest.Ends(t, w.Run("registry", "diff", "shop/api:1.0", "shop/api:1.1", "--fail-on", "high"), 2, "new     CRITICAL", "CVE-2099-1", "fixed   HIGH", "CVE-2021-23337",
		"1 new, 1 fixed, 1 unchanged", "what is new in shop/api:1.1 has 1 vulnerability")
	clitest.Ends(t, w.Run("registry", "diff", "shop/api:1.1", "shop/api:1.0", "--fail-on", "critical", "--all"), 0, "unchanged")
	w.Now = time.Now // the server says when a finding was first seen
	clitest.Ends(t, w.Run("registry", "diff", "shop/api:1.1", "--since", "1d"), 0, "2 new, 0 fixed, 0 unchanged")
	r.Findings(w.Namespace, "api-2", r.SBOM(w.Namespace, "api-2", lodash, zlib), metav1.NewTime(now), mild)
	clitest.Ends(t, w.Run("registry", "diff", "shop/api:1.1", "--since", "1d"), 0, "fixed   CRITICAL", "CVE-2099-1", "1 new, 1 fixed, 0 unchanged")
	w.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	clitest.Ends(t, w.Run("registry", "diff", "shop/api:1.1", "--since", "1d"), 0, "0 new, 0 fixed, 1 unchanged")
	clitest.Ends(t, w.Run("registry", "diff", "shop/api:1.1"), 1, "name a second image, or give --since")
	clitest.Ends(t, w.Run("registry", "diff", "shop/api:1.1", "--since", "soon"), 1, `--since "soon" must be a time such as 7d`)
}

// TestWhoHas asks by vulnerability and by package, over one namespace and all.
func TestWhoHas(t *testing.T) {
	w, r := world(t)
	scanned(t, w, r, imageOf("api-1", "shop/api", "1.0", digestA), bad, mild)
	moved := imageOf("api-0", "shop/api", "0.9", digestB)
	scanned(t, w, r, moved, bad)
	r.Send("PATCH", "/namespaces/"+w.Namespace+"/images/api-0/status", map[string]any{"status": map[string]any{"presence": "Superseded"}},
		map[string]string{"Content-Type": "application/merge-patch+json"})
	got := w.Run("registry", "who-has", "cve-2021-23337")
	if clitest.Ends(t, got, 0, "registry.example.com/shop/api:1.0", "4.17.15", "4.17.21", "cccccccccccc", "1 image has it in namespace "+w.Namespace); strings.Contains(got.Out, "0.9") {
		t.Errorf("has an image whose tag has moved:\n%s", got.Out)
	}
	clitest.Ends(t, w.Run("registry", "who-has", "CVE-2021-23337", "--gone"), 0, "shop/api:0.9", "2 images have it")
	clitest.Ends(t, w.Run("registry", "who-has", "CVE-2021-23337", "-A"), 0, "NAMESPACE", w.Namespace, "1 image has it.")
	clitest.Ends(t, w.Run("registry", "who-has", "CVE-1999-1"), 0, "No image in namespace "+w.Namespace+" has CVE-1999-1")
	clitest.Ends(t, w.Run("registry", "who-has", "lodash"), 0, "CVE-2021-23337")
	clitest.Ends(t, w.Run("registry", "who-has", "lodash@<4.17.21"), 0, "CVE-2021-23337")
	clitest.Ends(t, w.Run("registry", "who-has", "lodash@>=4.17.21"), 0, "No image")
	clitest.Ends(t, w.Run("registry", "who-has", "lodash@>=4.0.0,<4.17.21"), 0, "CVE-2021-23337")
	for _, versions := range []string{"<x y>", "<", "latest", "<1:2-3"} {
		clitest.Ends(t, w.Run("registry", "who-has", "lodash@"+versions), 1, `RANGE of lodash: Invalid value: "`+versions+`": `)
	}
	clitest.Ends(t, w.Run("registry", "who-has", "left-pad@<1:2-3"), 0, "No image")
	clitest.Ends(t, w.Run("registry", "who-has", "lodash@"), 1, "has no version behind @")
	clitest.Ends(t, w.Run("registry", "who-has", "lodash", "-o", "csv"), 0, "IMAGE,PLATFORM", "COPY package-lock.json /app/")
}

// TestImport brings an SBOM along, and removes all that is stored.
func TestImport(t *testing.T) {
	w, r := world(t)
	file := filepath.Join(t.TempDir(), "api.spdx.json")
	if err := os.WriteFile(file, clitest.SPDX(t, lodash), 0o600); err != nil {
		t.Fatal(err)
	}
	call := []string{"registry", "sbom", "import", file, "--image"}
	clitest.Ends(t, w.Run(append(call, "shop/api:1.0")...), 1, "must be HOST/REPOSITORY[:TAG]@sha256:")
	clitest.Ends(t, w.Run(append(call, host+"/shop/api:1.0@"+digestA)...), 0, "sbom/imported-", "created: 1 package of registry.example.com/shop/api:1.0")
	clitest.Ends(t, w.Run(append(call, host+"/shop/api:1.0@"+digestA)...), 1, "already exists")
	clitest.Ends(t, w.Run("registry", "sbom", "shop/api:1.0", "-o", "spdx"), 0, "SPDX-2.3")
	clitest.Ends(t, w.Run("registry", "scan", "shop/api:1.0@"+digestA), 1, "is in no Registry")
	if err := os.WriteFile(file, []byte(`{"bomFormat":"CycloneDX"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	clitest.Ends(t, w.Run(append(call, host+"/shop/api:1.0@"+digestB)...), 1, `is not an SPDX 2 document: its spdxVersion is ""`)

	scanned(t, w, r, imageOf("api-1", "shop/web", "1.0", digestB), bad)
	clitest.Ends(t, w.Run("registry", "purge", "prod"), 0, "1 Image of namespace "+w.Namespace+" would be deleted", "--yes deletes it")
	clitest.Ends(t, w.Run("registry", "images"), 0, "shop/web:1.0")
	clitest.Ends(t, w.Run("registry", "purge", "prod", "--yes"), 0, "1 SBOM of namespace "+w.Namespace+" deleted", "1 VulnerabilityReport of namespace")
	clitest.Ends(t, w.Run("registry", "images"), 0, "There are no such images")
	clitest.Ends(t, w.Run("registry", "sbom", "shop/api:1.0"), 0, "lodash")
	clitest.Ends(t, w.Run("registry", "purge", "--all-namespaces", "--yes"), 0, "1 Image of namespace "+w.Namespace+" deleted")
	clitest.Ends(t, w.Run("registry", "purge"), 0, "There is nothing to delete")
	clitest.Ends(t, w.Run("registry", "purge", "prod", "-A"), 1, "leave out its NAME or --all-namespaces")
}
