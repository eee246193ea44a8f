// SPDX-License-Identifier: Apache-2.0

package consoletest

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// Image is an image of the registry prod that was scanned an hour ago.
func Image(namespace, name, tag string, critical, high int64) *reportsv1alpha1.Image {
	i := &reportsv1alpha1.Image{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	i.Spec = reportsv1alpha1.ImageSpec{
		Registry: reportsv1alpha1.RegistryRef{Name: "prod", UID: "uid-prod", Host: "registry.example"}, Repository: "shop/api", Tag: tag,
		Digest: "sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9", Platform: "linux/amd64", CompressedBytes: 48 << 20,
	}
	i.Status = reportsv1alpha1.ImageStatus{
		Presence: reportsv1alpha1.ImagePresent, State: reportsv1alpha1.ImageScanned, ScannedAt: new(metav1.NewTime(Noon.Add(-time.Hour))),
		Vulnerabilities: &reportsv1alpha1.VulnerabilitySummary{Critical: &critical, High: &high, Fixable: &high},
		SBOM:            &reportsv1alpha1.ImageSBOM{Packages: 2, Engine: &reportsv1alpha1.Engine{Name: "mini", Version: "1"}},
		Database:        &reportsv1alpha1.DatabaseRef{Name: "mini", Version: "sha256:feed"},
	}
	return i
}

// Registries are a registry with two tags of one image, a job that has ended, and a dry run.
func Registries() []client.Object {
	r := &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Namespace: "team-blue", Name: "prod", UID: "uid-prod"}}
	r.Spec.URL = "https://registry.example"
	r.Status.Images = &registryv1alpha1.ImageCounts{Present: 4, Scanned: 2, Waiting: 1, Failed: 1}
	r.Status.Vulnerabilities = &registryv1alpha1.VulnerabilityCounts{Critical: 3, High: 9}
	r.Status.LastDiscovery = &registryv1alpha1.LastJob{Job: "prod-1", Time: new(metav1.NewTime(Noon.Add(-2 * time.Hour)))}
	r.Status.Conditions = []metav1.Condition{
		condition(registryv1alpha1.ConditionReady, metav1.ConditionTrue, registryv1alpha1.ReasonAccepted, "", Noon),
		condition(registryv1alpha1.ConditionReachable, metav1.ConditionFalse, registryv1alpha1.ReasonUnauthorized, "The Secret pull is refused: 401.", Noon),
	}
	done := &registryv1alpha1.DiscoveryJob{ObjectMeta: metav1.ObjectMeta{Namespace: "team-blue", Name: "prod-1", CreationTimestamp: metav1.NewTime(Noon.Add(-2 * time.Hour))}}
	done.Spec.Registry = "prod"
	done.Status.Progress = &registryv1alpha1.Progress{Done: 4, Total: 4}
	done.Status.Conditions = []metav1.Condition{
		condition(registryv1alpha1.ConditionCompleted, metav1.ConditionTrue, registryv1alpha1.ReasonSucceeded, "4 images.", Noon),
	}
	dry := done.DeepCopy()
	dry.Name, dry.Spec.DryRun, dry.CreationTimestamp = "prod-dry", true, metav1.NewTime(Noon.Add(-time.Minute))
	dry.Status.Preview = &registryv1alpha1.Preview{Selected: []string{"shop/api:1.2"}, Skipped: []registryv1alpha1.SkippedTag{{Tag: "shop/api:nightly", Reason: "Excluded"}}}
	repository := &reportsv1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Namespace: "team-blue", Name: "repository-1"}}
	repository.Spec = reportsv1alpha1.RepositorySpec{Registry: reportsv1alpha1.RegistryRef{Name: "prod", UID: "uid-prod"}, Repository: "shop/api"}
	repository.Status.State, repository.Status.Tags = reportsv1alpha1.RepositoryDone, &reportsv1alpha1.TagCounts{Listed: 7, Selected: 2, Skipped: 5}
	failed := Image("team-blue", "api-broken", "0.9", 0, 0)
	failed.Status.State, failed.Status.Message, failed.Status.Vulnerabilities = reportsv1alpha1.ImageFailed, "a layer is not an archive", nil
	return []client.Object{r, done, dry, repository, Image("team-blue", "api-11", "1.1", 2, 5), Image("team-blue", "api-12", "1.2", 1, 4), failed}
}

// SBOM is an SPDX document with packages as pairs of name and version.
func SBOM(packages ...string) string {
	type ref struct {
		Type    string `json:"referenceType"`
		Locator string `json:"referenceLocator"`
	}
	type entry struct {
		Name    string `json:"name"`
		Version string `json:"versionInfo"`
		Purpose string `json:"primaryPackagePurpose,omitempty"`
		Refs    []ref  `json:"externalRefs,omitempty"`
	}
	list := []entry{{Name: "shop/api", Purpose: "CONTAINER"}}
	for i := 0; i+1 < len(packages); i += 2 {
		list = append(list, entry{packages[i], packages[i+1], "", []ref{{"purl", "pkg:deb/debian/" + packages[i] + "@" + packages[i+1]}}})
	}
	return text(map[string]any{"spdxVersion": "SPDX-2.3", "creationInfo": map[string]any{"creators": []string{"Tool: mini"}}, "packages": list, "relationships": []any{}})
}

// Vulnerabilities is a page of findings of an image: identifiers in openssl, that are fixed in 3.0.2.
func Vulnerabilities(identifiers ...string) string {
	list := []reportsv1alpha1.VulnerabilityFinding{}
	for _, id := range identifiers {
		list = append(list, reportsv1alpha1.VulnerabilityFinding{
			VulnerabilityID: id, Severity: "HIGH", Package: reportsv1alpha1.VulnerablePackage{Name: "openssl", Version: "3.0.1"}, FixedVersions: []string{"3.0.2"},
			Title: "A hole in openssl", PrimaryURL: "https://nvd.nist.gov/vuln/detail/" + id, Score: new(8.1),
		})
	}
	return text(map[string]any{"findings": list})
}

func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // what tests make can be written
	}
	return string(raw)
}

// Known puts the SBOM and the vulnerabilities of an image into the reports API.
func (w *World) Known(namespace, image, sbom, vulnerabilities string) {
	const base = "/apis/reports.scanyard.io/v1alpha1/namespaces/"
	w.Documents[base+namespace+"/sboms/"+image+"/document"] = sbom
	w.Documents[base+namespace+"/vulnerabilityreports/"+image+"/findings"] = vulnerabilities
}

// WithRegistries is the world of two teams with a registry, of whose images two are known.
func WithRegistries(t testing.TB) *World {
	t.Helper()
	w := New(t, append(Teams(), Registries()...)...)
	w.Known("team-blue", "api-11", SBOM("openssl", "3.0.0", "curl", "7.88"), Vulnerabilities("CVE-2024-3000", "CVE-2024-3001"))
	w.Known("team-blue", "api-12", SBOM("openssl", "3.0.1", "zlib", "1.3"), Vulnerabilities("CVE-2024-3001", "CVE-2024-3002"))
	w.Rows = Rows(60)
	return w
}
