// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

// From the catalogue to the report, with as many writes as the specification says.
func TestFromTheCatalogToTheReport(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1.0", 1)
	w.known("shop/web", "2.0", 2)
	w.work()
	w.discovered(jobUID)
	for name, r := range w.repositories() {
		if r.Status.State != reportsv1.RepositoryDone || r.Status.Work.Claim != "" || r.Status.Work.Job.UID != jobUID {
			t.Errorf("repository %q: %+v", name, r.Status)
		}
	}
	w.well(w.message(queue.Database))
	image := w.image("shop/api:1.0")
	if image.Status.State != reportsv1.ImagePending || image.Status.Work.Job.UID != jobUID || image.Status.FirstSeenTime == nil || len(image.Spec.Layers) != 3 {
		t.Fatalf("%+v", image)
	}
	w.reports.forget()
	w.well(w.message(queue.SBOM, itemOf(image)))
	if image = w.image("shop/api:1.0"); image.Status.State != reportsv1.ImageWaitingForMatch || image.Status.SBOM == nil || image.Status.SBOM.Packages < 5 {
		t.Fatalf("%+v", image.Status)
	}
	w.well(w.message(queue.Match, itemOf(image)))
	if image = w.image("shop/api:1.0"); image.Status.State != reportsv1.ImageScanned || summary(image) != "2/2/0/1" || image.Status.Work.Claim != "" {
		t.Fatalf("%+v %s", image.Status, summary(image))
	}
	want := map[string]int{"PATCH images/status": 1, "POST images/reuse": 1, "PUT sboms/document": 1, "PUT vulnerabilityreports/findings": 1}
	if diff := cmp.Diff(want, w.reports.writes()); diff != "" {
		t.Error(diff)
	}
}

// A second discovery of what has not changed costs two writes and no image; a tag that has moved, and one that is gone, are seen.
func TestRediscoveryOfRepository(t *testing.T) {
	w := newWorld(t)
	for i, tag := range []string{"1", "2", "3"} {
		w.known("shop/api", tag, i)
	}
	w.work()
	w.discovered(jobUID)
	before := w.images()
	w.create(w.discoveryJob("job-2"))
	w.reports.forget()
	w.registry.Forget()
	w.well(withJob(w.repositoryMessage("shop/api"), "job-2"))
	want := map[string]int{"PATCH repositories/status": 1, "PUT repositories/tags": 1}
	if diff := cmp.Diff(want, w.reports.writes()); diff != "" || w.registry.Count("HEAD manifests") != 3 || w.registry.Count("GET manifests") != 0 {
		t.Errorf("%s, %d GETs", diff, w.registry.Count("GET manifests"))
	}
	w.known("shop/api", "2", 20)
	w.registry.Remove("shop/api", "3")
	w.create(w.discoveryJob("job-3"))
	w.well(withJob(w.repositoryMessage("shop/api"), "job-3"))
	after := w.images()
	if diff := cmp.Diff([]string{"shop/api:1", "shop/api:2", "shop/api:2 Superseded", "shop/api:3 Gone"}, sorted(after)); diff != "" {
		t.Fatal(diff)
	}
	if after["shop/api:2 Superseded"].Name != before["shop/api:2"].Name || after["shop/api:2"].Status.Work.Job.UID != "job-3" || after["shop/api:3 Gone"].Status.GoneTime == nil {
		t.Errorf("%+v", after)
	}
	// The same job again does nothing: it has been there.
	if e := w.do(withJob(w.repositoryMessage("shop/api"), "job-3")); e[0].Outcome != queue.Passed || e[0].Row != "Settled" {
		t.Errorf("%+v", e)
	}
}

// F12: the reports API answers 429 and 500 now and then, and forgets to answer what it has done.
func TestFaultReportsAPIStumbles(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	w.work()
	var mutex sync.Mutex
	calls := 0
	stumbles := func(every int) bool {
		mutex.Lock()
		defer mutex.Unlock()
		calls++
		return calls%every == 0
	}
	w.reports.answer(func(rw http.ResponseWriter, _ *http.Request) bool {
		if stumbles(7) {
			rw.WriteHeader(http.StatusInternalServerError)
			return true
		}
		if stumbles(5) {
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		return false
	})
	w.discovered(jobUID)
	w.well(w.message(queue.Database))
	// What was written, and whose answer was lost, is not done twice.
	w.reports.change(func(r *http.Response) error {
		if r.Request.Method == http.MethodPatch && stumbles(2) {
			return errors.New("the answer is lost")
		}
		return nil
	})
	w.well(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))
	w.well(w.message(queue.Match, itemOf(w.image("shop/api:1"))))
	if i := w.image("shop/api:1"); i.Status.State != reportsv1.ImageScanned || summary(i) != "2/2/0/1" {
		t.Errorf("%+v", i.Status)
	}
}
