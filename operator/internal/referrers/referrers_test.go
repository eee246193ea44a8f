// SPDX-License-Identifier: Apache-2.0

package referrers_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/referrers"
)

func TestEnqueue(t *testing.T) {
	t.Parallel()
	const index = "uses"
	scheme := runtime.NewScheme()
	if err := executionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scan := func(namespace, name, scanType string) client.Object {
		return &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: executionv1.ScanSpec{ScanType: scanType}}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&executionv1.Scan{}, index, func(o client.Object) []string {
			s, ok := o.(*executionv1.Scan)
			if !ok || s.Spec.ScanType == "" {
				return referrers.Values("")
			}
			return referrers.Values(referrers.Key("ScanType", s.Spec.ScanType))
		}).
		WithObjects(scan("red", "a", "nmap"), scan("red", "b", "zap"), scan("blue", "a", "nmap"), scan("blue", "none", "")).Build()
	for name, tt := range map[string]struct {
		reason  string
		changed client.Object
		want    []string
	}{
		"OfANamespace": {
			reason:  "what is in a namespace is used in it alone",
			changed: &executionv1.ScanType{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "nmap"}}, want: []string{"red/a"},
		},
		"OfTheCluster": {
			reason:  "what has no namespace is used in all",
			changed: &executionv1.ClusterScanType{ObjectMeta: metav1.ObjectMeta{Name: "nmap"}}, want: []string{"blue/a", "red/a"},
		},
		"OfNobody": {
			reason:  "an object that nobody uses wakes nobody",
			changed: &executionv1.ScanType{ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "nikto"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			h := referrers.Enqueue(c, index, "ScanType", func() client.ObjectList { return &executionv1.ScanList{} })
			h.Create(t.Context(), event.CreateEvent{Object: tt.changed}, queue)
			var got []string
			for queue.Len() > 0 {
				r, _ := queue.Get()
				got = append(got, r.String())
				queue.Done(r)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}
