// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/cli/clitest"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	if clitest.IsCommand() {
		os.Exit(clitest.Command())
	}
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

func result(t *testing.T, got clitest.Result, code int, texts ...string) {
	t.Helper()
	all := got.Out + got.Err
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("does not say %q:\n%s", text, all)
		}
	}
	if got.Code != code {
		t.Errorf("exit code %d, want %d:\n%s", got.Code, code, all)
	}
}

// TestRegistryCommands goes from a cluster without Registries to jobs by hand.
func TestRegistryCommands(t *testing.T) {
	w := clitest.New(t, cluster)
	for _, call := range []string{"list", "list -o yaml", "discover prod", "scan prod", "suspend prod"} {
		result(t, w.Run(append([]string{"registry"}, strings.Fields(call)...)...), 1, "install the charts reports and registry")
	}
	if err := cluster.InstallRegistryCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	result(t, w.Run("registry", "list"), 0, "There are no Registries")
	r := &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: w.Namespace}}
	r.Spec.URL = "https://registry.example.com"
	if err := registryv1alpha1.AddToScheme(cluster.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	result(t, w.Run("registry", "list"), 0, "prod", "https://registry.example.com")
	result(t, w.Run("registry", "discover", "prid"), 1, `there is no Registry "prid"`, "prod")
	result(t, w.Run("registry", "discover", "prod", "--dry-run"), 0, "discoveryjob/prod-", " created")
	result(t, w.Run("registry", "scan", "prod", "--full"), 0, "scanjob/prod-", " created")
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
		result(t, w.Run("registry", verb, "prod"), 0, "registry/prod "+verb)
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(r), r); err != nil || r.Spec.Suspend != want {
			t.Errorf("%s: %v, %v", verb, r.Spec.Suspend, err)
		}
	}
}
