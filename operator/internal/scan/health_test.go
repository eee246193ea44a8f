// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// healthOf is what a Monitor would say.
type healthOf struct {
	err error
	f   func()
}

func (h *healthOf) Outage() error     { return h.err }
func (h *healthOf) OnChange(f func()) { h.f = f }

// TestOutagesBringScansThatGoOn, and no others.
func TestOutagesBringScansThatGoOn(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := executionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var scans []client.Object
	for name, state := range map[string]executionv1.ScanState{"new": "", "scanning": "Scanning", "hooks": "HookProcessing", "done": "Done", "errored": "Errored"} {
		scans = append(scans, testobjects.Scan(name, testobjects.WithState(state)))
	}
	h := &healthOf{}
	r := &Reconciler{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(scans...).Build(), health: h}
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	if err := r.connectHealth(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	h.f()
	var names []string
	for q.Len() > 0 {
		req, _ := q.Get()
		names = append(names, req.Name)
		q.Done(req)
	}
	slices.Sort(names)
	if want := []string{"hooks", "scanning"}; !slices.Equal(names, want) {
		t.Errorf("%v come, want %v", names, want)
	}
}
