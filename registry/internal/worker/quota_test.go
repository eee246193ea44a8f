// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
)

// dated pushes an image of a day.
func (w *world) dated(repository, tag string, days int) {
	w.t.Helper()
	image, err := imagetest.Build(imagetest.Spec{
		Layers:  []imagetest.Layer{{Files: []imagetest.File{{Name: "app/tag", Body: repository + tag}}}},
		Created: imagetest.Created.Add(time.Duration(days) * 24 * time.Hour),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, content := range image.Blobs {
		w.registry.Blob(repository, content)
	}
	w.registry.Manifest(repository, tag, imagetest.TypeManifest, image.Manifest)
}

func warningOf(r *reportsv1.Repository) string {
	for _, w := range r.Status.Warnings {
		if w.Code == warningQuota {
			return fmt.Sprintf("%d %v", w.Count, w.Examples)
		}
	}
	return ""
}

// TestQuotaOfImages: the newest new images are taken, what is there stays, and what was left out is taken once there is room.
func TestQuotaOfImages(t *testing.T) {
	w := newWorld(t)
	for i, tag := range []string{"a", "c", "b", "d"} {
		w.dated("shop/api", tag, i)
	}
	w.work()
	bounded := func(m queue.Message, images int64) queue.Message {
		m.Bounds = &queue.Bounds{Images: images}
		return m
	}
	w.well(w.catalog())
	w.well(bounded(w.repositoryMessage("shop/api"), 2))
	r := w.repositories()["shop/api"]
	if diff := cmp.Diff([]string{"shop/api:b", "shop/api:d"}, sorted(w.images())); diff != "" || warningOf(r) != "2 [c a]" || r.Status.ByReason["QuotaExceeded"] != 2 {
		t.Errorf("%s, %+v", diff, r.Status)
	}
	if count, err := w.client.Count(t.Context(), namespace, reportsclient.Images); err != nil || count != 2 {
		t.Errorf("%d images, %v", count, err)
	}
	// A newer one does not push out what is there.
	w.dated("shop/api", "e", 9)
	w.create(w.discoveryJob("job-2"))
	w.well(bounded(withJob(w.repositoryMessage("shop/api"), "job-2"), 2))
	if diff := cmp.Diff([]string{"shop/api:b", "shop/api:d"}, sorted(w.images())); diff != "" || warningOf(w.repositories()["shop/api"]) != "3 [e c a]" {
		t.Errorf("%s, %+v", diff, w.repositories()["shop/api"].Status)
	}
	// One that leaves makes room for the newest one; without a quota all are taken.
	w.registry.Remove("shop/api", "d")
	w.create(w.discoveryJob("job-3"))
	w.well(bounded(withJob(w.repositoryMessage("shop/api"), "job-3"), 2))
	if diff := cmp.Diff([]string{"shop/api:b", "shop/api:d Gone", "shop/api:e"}, sorted(w.images())); diff != "" {
		t.Error(diff)
	}
	w.create(w.discoveryJob("job-4"))
	w.well(withJob(w.repositoryMessage("shop/api"), "job-4"))
	if diff := cmp.Diff([]string{"shop/api:a", "shop/api:b", "shop/api:c", "shop/api:d Gone", "shop/api:e"}, sorted(w.images())); diff != "" {
		t.Error(diff)
	}
	if warning := warningOf(w.repositories()["shop/api"]); warning != "" {
		t.Error(warning)
	}
}

// TestQuotaOfRepositories: the first ones by name are taken.
func TestQuotaOfRepositories(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"shop/c", "shop/a", "shop/b"} {
		w.known(name, "1", 1)
	}
	w.work()
	m := w.catalog()
	m.Bounds = &queue.Bounds{Repositories: 2}
	w.well(m)
	if diff := cmp.Diff([]string{"", "shop/a", "shop/b"}, sorted(w.repositories())); diff != "" || warningOf(w.repositories()[""]) != "1 [shop/c]" {
		t.Errorf("%s, %+v", diff, w.repositories()[""].Status)
	}
}

// TestHostsOfANamespace: a host that the namespace's settings do not allow is not asked.
func TestHostsOfANamespace(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	w.work()
	m := w.catalog()
	m.Bounds = &queue.Bounds{AllowedHosts: [][]string{{"*.example.com"}}}
	if e := w.do(m)[0]; e.Outcome != "Refused" || e.Reason != "HostNotAllowed" || w.registry.Total() != 0 {
		t.Errorf("%+v, %d requests", e, w.registry.Total())
	}
}
