// SPDX-License-Identifier: Apache-2.0

package clusterid

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

func namespace(t *testing.T) string {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "release-"}}
	if err := cluster.Client.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return n.Name
}

// TestClusterIDConcurrent starts ten at once, with two values: one object and one ID come out, for all.
func TestClusterIDConcurrent(t *testing.T) {
	release := namespace(t)
	values := []string{"", "0c9a7d3e-3f0e-4a54-9a55-8d1f3f5f7a10"}
	ids, errs := make([]ID, 10), make([]error, 10)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i], errs[i] = Ensure(t.Context(), cluster.Client, release, values[i%2]) })
	}
	all.Wait()
	foreign := 0
	for i := range ids {
		if errs[i] != nil || ids[i].Value != ids[0].Value || ids[i].Source != ids[0].Source {
			t.Errorf("%+v differs from %+v: %v", ids[i], ids[0], errs[i])
		}
		if ids[i].Foreign != "" {
			foreign++
		}
	}
	if foreign != 5 {
		t.Errorf("five wanted another ID than the stored one, %d were told", foreign)
	}
	stored := &corev1.ConfigMap{}
	if err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: release, Name: ConfigMap}, stored); err != nil {
		t.Fatal(err)
	}
	if stored.Immutable == nil || !*stored.Immutable || stored.Data["clusterID"] != ids[0].Value {
		t.Errorf("got %+v", stored)
	}
	if got, err := Get(t.Context(), cluster.Client, release); err != nil || got.Value != ids[0].Value {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestClusterIDForeignIsReportedOnce(t *testing.T) {
	release := namespace(t)
	const restored = "11111111-3f0e-4a54-9a55-8d1f3f5f7a10"
	if _, err := Ensure(t.Context(), cluster.Client, release, restored); err != nil {
		t.Fatal(err)
	}
	id, err := Ensure(t.Context(), cluster.Client, release, "")
	if err != nil || id.Value != restored || id.Source != SourceValue || id.Foreign == "" {
		t.Fatalf("the stored ID counts: %+v, %v", id, err)
	}
	for range 2 {
		if err := id.Report(t.Context(), cluster.Client, release, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	events := &eventsv1.EventList{}
	if err := cluster.Client.List(t.Context(), events, client.InNamespace(release)); err != nil {
		t.Fatal(err)
	}
	if len(events.Items) != 1 || events.Items[0].Reason != ReasonForeign || !strings.Contains(events.Items[0].Note, restored) {
		t.Errorf("got %+v", events.Items)
	}
}

func TestClusterIDMissingOrBad(t *testing.T) {
	release := namespace(t)
	if _, err := Get(t.Context(), cluster.Client, release); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	if _, err := Ensure(t.Context(), cluster.Client, release, "prod"); err == nil || !strings.Contains(err.Error(), `"prod" must be a UUID`) {
		t.Errorf("got %v", err)
	}
	bad := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: release, Name: ConfigMap}, Data: map[string]string{"clusterID": "x"}}
	if err := cluster.Client.Create(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(t.Context(), cluster.Client, release, ""); err == nil || !strings.Contains(err.Error(), "delete the ConfigMap") {
		t.Errorf("got %v", err)
	}
}
