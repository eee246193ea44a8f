// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/cli/clitest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) { clitest.Main(m, &cluster) }

// TestNotInstalled says what to install where the cluster knows neither Registries nor the reports API.
func TestNotInstalled(t *testing.T) {
	w := clitest.New(t, cluster)
	bare := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/api" && q.URL.Path != "/apis" {
			http.NotFound(out, q)
			return
		}
		kind := map[string]string{"/api": "APIVersions", "/apis": "APIGroupList"}[q.URL.Path]
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(out, `{"kind":%q,"apiVersion":"v1","versions":[],"groups":[]}`, kind)
	}))
	t.Cleanup(bare.Close)
	if err := clitest.WriteKubeconfig(w.Kubeconfig, &rest.Config{Host: bare.URL}, w.Namespace); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{
		"list", "list -o yaml", "describe prod", "add https://x.example", "grant prod", "discover prod", "scan prod", "preview prod", "images prod", "retry prod", "cancel x",
		"suspend prod", "resume prod", "doctor",
	} {
		clitest.Ends(t, w.Run(append([]string{"registry"}, strings.Fields(call)...)...), 1, "install the charts reports and registry")
	}
	for _, call := range []string{"images", "image a:1", "sbom a:1", "vulns a:1", "diff a:1 a:2", "who-has CVE-2024-1", "db", "purge prod", "scan a:1"} {
		clitest.Ends(t, w.Run(append([]string{"registry"}, strings.Fields(call)...)...), 1, "install the chart reports")
	}
}

// TestRegistryCommands lists Registries, starts jobs by hand, and holds them.
func TestRegistryCommands(t *testing.T) {
	w := clitest.New(t, cluster)
	if err := cluster.InstallRegistryCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	clitest.Ends(t, w.Run("registry", "list"), 0, "There are no Registries")
	r := &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: w.Namespace}}
	r.Spec.URL = "https://registry.example.com"
	if err := registryv1alpha1.AddToScheme(cluster.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	clitest.Ends(t, w.Run("registry", "list"), 0, "prod", "https://registry.example.com")
	clitest.Ends(t, w.Run("registry", "discover", "prid"), 1, `there is no Registry "prid"`, "prod")
	clitest.Ends(t, w.Run("registry", "discover", "prod", "--dry-run"), 0, "discoveryjob/prod-", " created")
	clitest.Ends(t, w.Run("registry", "scan", "prod", "--full"), 0, "scanjob/prod-", " created")
	found, scans := &registryv1alpha1.DiscoveryJobList{}, &registryv1alpha1.ScanJobList{}
	for _, list := range []client.ObjectList{found, scans} {
		if err := cluster.Client.List(t.Context(), list, client.InNamespace(w.Namespace)); err != nil {
			t.Fatal(err)
		}
	}
	if len(found.Items) != 1 || !found.Items[0].Spec.DryRun || len(scans.Items) != 1 || scans.Items[0].Spec.Mode != registryv1alpha1.ModeFull {
		t.Errorf("the jobs: %+v, %+v", found.Items, scans.Items)
	}
	for _, want := range []bool{true, false} {
		verb := map[bool]string{true: "suspend", false: "resume"}[want]
		clitest.Ends(t, w.Run("registry", verb, "prod"), 0, "registry/prod "+verb)
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil || r.Spec.Suspend != want {
			t.Errorf("%s: %v, %v", verb, r.Spec.Suspend, err)
		}
	}
}
