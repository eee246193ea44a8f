// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// newCatalog returns a catalog of the objects.
func newCatalog(t *testing.T, objects ...client.Object) *catalog.Catalog {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := executionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return catalog.New(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build())
}

func local(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: testobjects.Namespace, Name: name}
}

func clusterWide(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// TestScanType: a Scan finds the ScanType of its mode, and is told where the other mode has one of that name.
func TestScanType(t *testing.T) {
	own := &executionv1.ScanType{ObjectMeta: local("nmap"), Spec: *testobjects.ScanTypeSpec()}
	shared := &executionv1.ClusterScanType{ObjectMeta: clusterWide("nmap"), Spec: *testobjects.ScanTypeSpec()}
	cases := map[string]struct {
		reason  string
		mode    []func(*executionv1.Scan)
		objects []client.Object
		// missing is what the error says; "" means that the ScanType is found.
		missing string
	}{
		"Local":        {"the one of the namespace", nil, []client.Object{own}, ""},
		"Cluster":      {"the one of the cluster", []func(*executionv1.Scan){testobjects.ClusterWide}, []client.Object{shared}, ""},
		"OnlyCluster":  {"the mode is the remedy", nil, []client.Object{shared}, `ScanType "nmap" not found in namespace "team-a", but there is a ClusterScanType of that name; set spec.resourceMode to clusterWide to use it`},
		"OnlyLocal":    {"the mode is the remedy", []func(*executionv1.Scan){testobjects.ClusterWide}, []client.Object{own}, `ClusterScanType "nmap" not found, but the namespace has a ScanType of that name; set spec.resourceMode to namespaceLocal to use it`},
		"NoneLocal":    {"it can be installed", nil, nil, `ScanType "nmap" not found in namespace "team-a"; install it there, for example with: helm install nmap <charts>/nmap --namespace team-a (none is installed)`},
		"NoneOfTheTwo": {"a cluster admin can install it", []func(*executionv1.Scan){testobjects.ClusterWide}, nil, `ClusterScanType "nmap" not found; a cluster admin can install it, for example with: helm install nmap <charts>/nmap --set clusterWide=true (none is installed)`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec, err := newCatalog(t, tc.objects...).ScanType(t.Context(), testobjects.Scan("s", tc.mode...))
			if tc.missing == "" {
				if err != nil || spec == nil || spec.ExtractResults.Type != "nmap-xml" {
					t.Errorf("%s: %+v, %v", tc.reason, spec, err)
				}
				return
			}
			if _, ok := errors.AsType[*catalog.NotFoundError](err); !ok || err.Error() != tc.missing {
				t.Errorf("%s: error %v, want %s", tc.reason, err, tc.missing)
			}
		})
	}
}

// TestParseDefinition: what the operator mirrors for clusterWide Scans is not there for those of the namespace.
func TestParseDefinition(t *testing.T) {
	mirror := &executionv1.ParseDefinition{ObjectMeta: local("nmap-xml")}
	mirror.Labels = map[string]string{executionv1.LabelMirrorOf: "ClusterParseDefinition"}
	cases := map[string]struct {
		reason string
		mode   []func(*executionv1.Scan)
		object client.Object
		want   bool
	}{
		"Local":        {"the one of the namespace", nil, &executionv1.ParseDefinition{ObjectMeta: local("nmap-xml")}, true},
		"Mirror":       {"a mirror is not the namespace's", nil, mirror, false},
		"Cluster":      {"the one of the cluster", []func(*executionv1.Scan){testobjects.ClusterWide}, &executionv1.ClusterParseDefinition{ObjectMeta: clusterWide("nmap-xml")}, true},
		"ClusterNone":  {"a local one does not serve a clusterWide Scan", []func(*executionv1.Scan){testobjects.ClusterWide}, mirror, false},
		"LocalMissing": {"one of the cluster does not serve a local Scan", nil, &executionv1.ClusterParseDefinition{ObjectMeta: clusterWide("nmap-xml")}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec, err := newCatalog(t, tc.object).ParseDefinition(t.Context(), testobjects.Scan("s", tc.mode...), "nmap-xml")
			_, missing := errors.AsType[*catalog.NotFoundError](err)
			if found := spec != nil && err == nil; found != tc.want || missing == tc.want {
				t.Errorf("%s: %v, %v", tc.reason, spec, err)
			}
		})
	}
}

// TestHooks: hooks come by priority, then by name, and one of the cluster may run elsewhere.
func TestHooks(t *testing.T) {
	hook := func(name string, priority int) *executionv1.ScanCompletionHook {
		return &executionv1.ScanCompletionHook{ObjectMeta: local(name), Spec: *testobjects.HookSpec(executionv1.ReadOnly, priority)}
	}
	shared := func(name, namespace string) *executionv1.ClusterScanCompletionHook {
		return &executionv1.ClusterScanCompletionHook{ObjectMeta: clusterWide(name), Spec: executionv1.ClusterScanCompletionHookSpec{
			ScanCompletionHookSpec: *testobjects.HookSpec(executionv1.ReadOnly, 0), ExecutionNamespace: namespace,
		}}
	}
	c := newCatalog(t, hook("b", 0), hook("a", 0), hook("last", -1), hook("first", 1), shared("away", "hooks"), shared("here", testobjects.Namespace))
	for name, tc := range map[string]struct {
		mode []func(*executionv1.Scan)
		want []string
	}{
		"Local":   {nil, []string{"first ", "a ", "b ", "last "}},
		"Cluster": {[]func(*executionv1.Scan){testobjects.ClusterWide}, []string{"away hooks", "here "}},
	} {
		t.Run(name, func(t *testing.T) {
			hooks, err := c.Hooks(t.Context(), testobjects.Scan("s", tc.mode...))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, h := range hooks {
				got = append(got, h.Name+" "+h.ExecutionNamespace)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("hooks (-want +got):\n%s", diff)
			}
		})
	}
}
