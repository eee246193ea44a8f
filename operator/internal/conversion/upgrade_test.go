// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/conversion"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var oldClusterKind = oldKind.GroupVersion().WithKind("ClusterScanSetting")

// older puts the CRDs of settings as they were before v1alpha2 in the place of those of now.
func older(t *testing.T) {
	t.Helper()
	for _, name := range conversion.CRDs() {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		must(t, cluster.Client.Delete(t.Context(), crd))
		eventually(t, name+" is gone", func() bool {
			return apierrors.IsNotFound(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
		})
	}
	for _, crd := range olderCRDs(t) {
		must(t, cluster.Client.Create(t.Context(), crd))
	}
}

// olderCRDs are those of settings as they were before v1alpha2.
func olderCRDs(t *testing.T) (crds []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	files, err := filepath.Glob("testdata/released/*.yaml")
	must(t, err)
	if len(files) != len(conversion.CRDs()) {
		t.Fatalf("the older CRDs are %v", files)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		must(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		must(t, yaml.UnmarshalStrict(raw, crd))
		crds = append(crds, crd)
	}
	return crds
}

// newer puts the CRDs of the chart in the place of the older ones, as the documentation says: applied by the server's side.
func newer(ctx context.Context, t *testing.T) {
	t.Helper()
	all, err := testcluster.CRDs()
	must(t, err)
	for _, crd := range all {
		if !slices.Contains(conversion.CRDs(), crd.Name) {
			continue
		}
		content, err := yaml.Marshal(crd)
		must(t, err)
		manifest := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal(content, &manifest.Object))
		manifest.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		unstructured.RemoveNestedField(manifest.Object, "status")
		must(t, cluster.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(manifest), client.FieldOwner("helm"), client.ForceOwnership))
	}
}

// TestUpgradeOfStoredSettings: settings that were stored before there was v1alpha2 are the same after the CRDs and the operator were upgraded, in both
// versions; they are stored in the newer one, and manifests of before go on to work.
func TestUpgradeOfStoredSettings(t *testing.T) {
	older(t)
	t.Cleanup(func() { newer(context.WithoutCancel(t.Context()), t) }) // the tests behind this one
	raw, err := os.ReadFile("testdata/old/scansetting.yaml")
	must(t, err)
	manifest := func(space string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		must(t, yaml.UnmarshalStrict(raw, &o.Object))
		o.SetNamespace(space)
		return o
	}
	apply := func(o *unstructured.Unstructured) error {
		return cluster.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("team"))
	}
	spec := func(o *unstructured.Unstructured) string {
		found, _, err := unstructured.NestedMap(o.Object, "spec")
		must(t, err)
		return fmt.Sprint(found)
	}
	const some = 5
	before := map[string]*unstructured.Unstructured{}
	for range some {
		o := manifest(namespace(t))
		eventually(t, "the older CRD takes objects", func() bool { return apply(o.DeepCopy()) == nil })
		stored := as(oldKind, o.GetNamespace())
		must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(stored), stored))
		before[o.GetNamespace()] = stored
	}
	storedWhole := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(`{"spec": {"limits": {"maxRunning": 40}}}`), &storedWhole.Object))
	storedWhole.SetGroupVersionKind(oldClusterKind)
	storedWhole.SetName(settingsv1alpha2.Name)
	eventually(t, "the older CRD of the cluster's setting takes it", func() bool { return cluster.Client.Create(t.Context(), storedWhole) == nil })
	if got := storedVersions(t); !slices.Equal(got, []string{"v1alpha1"}) {
		t.Fatalf("the older CRD stores %v", got)
	}

	newer(t.Context(), t)
	eventually(t, "the newer version is served", func() bool {
		for space := range before {
			o := as(newKind, space)
			return cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o) == nil
		}
		return false
	})
	o := start(t)
	live, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
	must(t, err)
	m := conversion.NewMigration(live, events.NewFakeRecorder(10), prometheus.NewRegistry())
	m.PerSecond, m.ClusterPatience = 1000, 0
	must(t, m.Start(t.Context()))
	versions := map[string]string{}
	for space, o := range before {
		versions[space] = o.GetResourceVersion()
	}
	allAnew(t, versions)

	for space, stored := range before {
		now, old := as(newKind, space), as(oldKind, space)
		must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(now), now))
		must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(old), old))
		for _, o := range []*unstructured.Unstructured{now, old} {
			if spec(o) != spec(stored) || o.GetUID() != stored.GetUID() || len(o.GetAnnotations()) > 0 || o.GetCreationTimestamp() != stored.GetCreationTimestamp() {
				t.Errorf("%s was %v, and is %v", o.GetAPIVersion(), stored.Object, o.Object)
			}
		}
		// What is added in the newer version stays when the manifest of before is applied again.
		added := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"resultForwarding": {"provider": "grpc", "grpc": {"endpoint": "h:1"}}}}`))
		must(t, cluster.Client.Patch(t.Context(), as(newKind, space), added, client.FieldOwner("admin")))
		must(t, apply(manifest(space)))
		typed := &settingsv1alpha2.ScanSetting{}
		must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(now), typed))
		if typed.Spec.ResultForwarding == nil || typed.Spec.ResultForwarding.GRPC.Endpoint != "h:1" || *typed.Spec.Limits.MaxRunning != 5 {
			t.Errorf("got %+v", typed.Spec)
		}
		// So does what was added when an old field is edited in the older version.
		edit := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"limits": {"maxRunning": 6}}}`))
		must(t, cluster.Client.Patch(t.Context(), as(oldKind, space), edit))
		must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(now), typed))
		if typed.Spec.ResultForwarding == nil || *typed.Spec.Limits.MaxRunning != 6 {
			t.Errorf("got %+v", typed.Spec)
		}
	}
	whole := &unstructured.Unstructured{}
	whole.SetGroupVersionKind(oldClusterKind)
	must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(storedWhole), whole))
	if spec(whole) != spec(storedWhole) || whole.GetUID() != storedWhole.GetUID() || whole.GetResourceVersion() == storedWhole.GetResourceVersion() {
		t.Errorf("that of the cluster was %v, and is %v", storedWhole.Object, whole.Object)
	}

	// Nothing is stored in the older version any more, so that the newer one needs no operator.
	o.kill(t)
	must(t, cluster.Client.Delete(t.Context(), &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name}}))
	for space := range before {
		typed := &settingsv1alpha2.ScanSetting{}
		must(t, cluster.Client.Get(t.Context(), types.NamespacedName{Namespace: space, Name: settingsv1alpha2.Name}, typed))
		if typed.Spec.ResultForwarding == nil || *typed.Spec.Limits.MaxRunning != 6 {
			t.Errorf("without the operator: %+v", typed.Spec)
		}
	}
}
