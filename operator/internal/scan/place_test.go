// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// TestForgedPlaceDoesNotBlockDeletion: an annotation that means nothing keeps neither the Scan nor its
// namespace, though the clean-up has time left.
func TestForgedPlaceDoesNotBlockDeletion(t *testing.T) {
	for name, place := range map[string]string{"NoJSON": "not json", "Up": `{"prefix":"a/../b"}`, "Unknown": `{"endpoint":"http://elsewhere"}`} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := executionv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			s := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateDone), testobjects.Deleted)
			s.Annotations = map[string]string{executionv1.AnnotationStoragePlace: place}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(s).Build()
			storage, err := store.New(store.Config{Endpoint: "s3.example", Bucket: "own", AccessKey: "k", SecretKey: "s", Region: "r"})
			if err != nil {
				t.Fatal(err)
			}
			recorder := events.NewFakeRecorder(1)
			r := &Reconciler{client: c, store: storage, events: recorder, metrics: NewMetrics(prometheus.NewRegistry())}
			o := &life.Observation{Scan: &executionv1.Scan{}}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(s), o.Scan); err != nil {
				t.Fatal(err)
			}
			o.Settings.CleanupDeadline = time.Hour
			if err := r.release(t.Context(), o, &life.Decision{RemoveStored: true}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(s), &executionv1.Scan{}); !apierrors.IsNotFound(err) {
				t.Errorf("the Scan is still there: %v", err)
			}
			if note := <-recorder.Events; !strings.Contains(note, "may be left in storage") {
				t.Error(note)
			}
		})
	}
}
