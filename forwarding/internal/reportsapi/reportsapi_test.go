// SPDX-License-Identifier: Apache-2.0

package reportsapi_test

import (
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/forwarding/internal/reportsapi"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

func report(kind, namespace, name, scan string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "wgpolicyk8s.io", Version: "v1alpha2", Kind: kind})
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(map[string]string{executionv1.LabelScanUID: scan})
	return o
}

func exists(t *testing.T, o *unstructured.Unstructured) bool {
	t.Helper()
	err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopy())
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// TestDelete goes through what a cluster may have of reports: nothing, CRDs, and a server that does not answer.
func TestDelete(t *testing.T) {
	c, err := reportsapi.New(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), "default", "scan-1"); err != nil {
		t.Errorf("no group is installed: %v", err)
	}
	if err := cluster.InstallReportCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours := []*unstructured.Unstructured{
		report("PolicyReport", "default", "a", "scan-1"), report("PolicyReport", "default", "b", "scan-1"), report("ClusterPolicyReport", "", "a", "scan-1"),
	}
	others := []*unstructured.Unstructured{
		report("PolicyReport", "default", "c", "scan-2"), report("PolicyReport", "kube-public", "a", "scan-1"), report("ClusterPolicyReport", "", "c", "scan-2"),
	}
	for _, o := range append(append([]*unstructured.Unstructured{}, ours...), others...) {
		if err := cluster.Client.Create(t.Context(), o.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time there are none
		if err := c.Delete(t.Context(), "default", "scan-1"); err != nil {
			t.Error(err)
		}
	}
	for _, o := range ours {
		if exists(t, o) {
			t.Errorf("%s %s is still there", o.GetKind(), o.GetName())
		}
	}
	for _, o := range others {
		if !exists(t, o) {
			t.Errorf("%s %s/%s is gone, and is of another Scan or namespace", o.GetKind(), o.GetNamespace(), o.GetName())
		}
	}

	held := report("PolicyReport", "default", "held", "scan-3")
	held.SetFinalizers([]string{"example.com/held"})
	if err := cluster.Client.Create(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), "default", "scan-3"); err == nil || !strings.Contains(err.Error(), "do they have finalizers?") {
		t.Errorf("a report that does not go: %v", err)
	}

	away := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "reports.scanyard.io", "version": "v1alpha1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10), "insecureSkipTLSVerify": true,
		"service": map[string]any{"namespace": metav1.NamespaceDefault, "name": "absent"},
	}}}
	away.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	away.SetName("v1alpha1.reports.scanyard.io")
	if err := cluster.Client.Create(t.Context(), away); err != nil {
		t.Fatal(err)
	}
	for { // the aggregator learns of it by a watch
		err := c.Delete(t.Context(), "default", "scan-1")
		if err != nil {
			if !strings.Contains(err.Error(), "reports.scanyard.io") {
				t.Errorf("a group whose server is away: %v", err)
			}
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("a group whose server is away is taken for one that is not installed")
		}
	}
}
