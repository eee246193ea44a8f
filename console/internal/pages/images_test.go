// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/consoletest"
)

func TestImages(t *testing.T) {
	w := consoletest.WithRegistries(t).Enter()
	has(t, w.Get("/images"), "prod", "https://registry.example", "Unauthorized", "The Secret pull is refused", "2 of 4, 1 failed", "shop/api", "1 repository of 1 registry")
	has(t, w.Get("/images?text=nothing"), "No repositories match.")
	list := w.Get("/images?repository=shop%2fapi&registry=prod&ns=team-blue")
	has(t, list, "3 images", "1.1", "1.2", "a layer is not an archive", "linux/amd64")
	if strings.Index(list.Body, "api-11") > strings.Index(list.Body, "api-12") {
		t.Error("the worst image does not come first")
	}
	lacks(t, w.Get("/images?repository=shop%2fapi&text=1.1"), "api-12")
	has(t, w.Get("/images?ns=platform"), "No Registry in platform.")
	w.Denied = []string{"list registries"}
	has(t, w.Get("/images"), "You may not list registries.registry.scanyard.io in all namespaces.")
}

func TestOneImage(t *testing.T) {
	w := consoletest.WithRegistries(t).Enter()
	const page = "/images/team-blue/api-12"
	has(t, w.Get(page), "shop/api:1.2", "CVE-2024-3001", "openssl", "3.0.2", ">8.1<", "48.0 MiB", "/images/who?vulnerability=CVE-2024-3001", "https://nvd.nist.gov/vuln/detail/CVE-2024-3002")
	w.Get(page + "?severity=high&package=openssl&fixable=true&after=token")
	if asked := w.Asked[len(w.Asked)-1]; !strings.Contains(asked, "continue=token&fixable=true&format=json&limit=50&package=openssl&severity=HIGH") {
		t.Errorf("the question is %s", asked)
	}
	packages := w.Get(page + "?show=packages")
	has(t, packages, "2 packages in all", "zlib", "pkg:deb/debian/openssl@3.0.1")
	lacks(t, w.Get(page+"?show=packages&text=ZLIB"), "pkg:deb/debian/openssl")
	has(t, w.Get("/images/team-blue/api-broken"), "Nothing is known of it yet: it is Failed.", "a layer is not an archive")
	if a := w.Get("/images/team-blue/none"); a.Code != http.StatusNotFound {
		t.Errorf("an image that is not there answers %d", a.Code)
	}
	w.Known("team-blue", "api-12", `{"packages":{}}`, `[]`)
	for _, path := range []string{page, page + "?show=packages"} {
		if a := w.Get(path); a.Code != http.StatusBadGateway {
			t.Errorf("%s: a document that is none answers %d", path, a.Code)
		}
	}
}

func TestTwoImagesAreCompared(t *testing.T) {
	w := consoletest.WithRegistries(t).Enter()
	a := w.Get("/images/team-blue/api-12/compare?with=api-11")
	has(t, a, "1 vulnerability new", "CVE-2024-3002", "1 vulnerability gone", "CVE-2024-3000", "1 vulnerability in both", "curl", "zlib", "not there", "3.0.0", "3.0.1")
	lacks(t, a, ">CVE-2024-3001<")
	has(t, w.Get("/images/team-blue/api-12/compare?with=api-broken"), "shop/api:0.9 has no report yet.", "shop/api:0.9 has no SBOM yet: packages are not compared.")
	if a := w.Get("/images/team-blue/api-12/compare?with=none"); a.Code != http.StatusNotFound {
		t.Errorf("comparing with nothing answers %d", a.Code)
	}
}

func TestImagesByVulnerability(t *testing.T) {
	w := consoletest.WithRegistries(t).Enter()
	r := &w.Rows[0]
	r.Kind, r.Policy, r.Rule, r.Image, r.Namespace, r.Index = "VulnerabilityReport", "CVE-2024-9999", "openssl", "api-12", "team-blue", nil
	has(t, w.Get("/images/who?vulnerability=cve-2024-9999"), "Who has CVE-2024-9999", "shop/api:1.2", "/images/team-blue/api-12", "openssl")
	has(t, w.Get("/findings?policy=CVE-2024-9999"), "/images/team-blue/api-12")
	has(t, w.Get("/images/who?vulnerability=CVE-1999-1"), "No image has it.")
	has(t, w.Get("/images/who"), "Which vulnerability?")
	w.Rows = nil
	has(t, w.Get("/images/who?vulnerability=CVE-1999-1"), "The reports API is not installed.")
}

func TestRegistries(t *testing.T) {
	w := consoletest.WithRegistries(t).Enter()
	const page = "/registries/team-blue/prod"
	has(t, w.Get(page), "The Secret pull is refused: 401.", "prod-1", "4 of 4", "Dry run", "shop/api:nightly", "Excluded", "The filter would take 1 of the tags shown")
	w.Post(page, page+"/discover", "dryRun", "true")
	if a := w.Post(page, page+"/scan"); a.Path != page {
		t.Errorf("scanning leads to %s", a.Path)
	}
	scans := &registryv1alpha1.ScanJobList{}
	if err := w.Client.List(t.Context(), scans, client.InNamespace("team-blue")); err != nil || len(scans.Items) != 1 || scans.Items[0].Spec.Registry != "prod" {
		t.Errorf("the jobs are %+v: %v", scans.Items, err)
	}
	jobs := &registryv1alpha1.DiscoveryJobList{}
	if err := w.Client.List(t.Context(), jobs, client.InNamespace("team-blue")); err != nil || len(jobs.Items) != 3 {
		t.Errorf("there are %d discovery jobs: %v", len(jobs.Items), err)
	}
	for i := range jobs.Items {
		if j := &jobs.Items[i]; j.Name == "prod-made" && (!j.Spec.DryRun || j.Spec.Registry != "prod") {
			t.Errorf("the job is %+v", j.Spec)
		}
	}
	w.Post(page, page+"/suspend", "suspend", "true")
	has(t, w.Get(page), "Suspended", "Resume")
	other := consoletest.WithRegistries(t).Enter()
	other.Denied = []string{"create scanjobs", "create discoveryjobs", "patch registries"}
	has(t, other.Get(page), "You may not create scanjobs.registry.scanyard.io in team-blue.", "disabled")
	if a := other.Post(page, page+"/scan"); a.Code != http.StatusForbidden {
		t.Errorf("scanning without the right answers %d", a.Code)
	}
}
