// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
	"github.com/scanyard/scanyard/registry/internal/results"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// BenchmarkWaiting says how much memory a controller takes while 100,000 images of one Registry wait, most of them for their SBOMs: a worker
// makes one after the other meanwhile. The images are copies of one that a discovery has found. BENCH_REGISTRY_WAITING is another number.
func BenchmarkWaiting(b *testing.B) {
	images := 100_000
	if text := os.Getenv("BENCH_REGISTRY_WAITING"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			b.Fatalf("BENCH_REGISTRY_WAITING must be a number of images, and not %q", text)
		}
		images = n
	}
	const worked = 20 // images whose SBOMs are made while the others wait
	for b.Loop() {
		w := newPlace(b).space(b)
		w.tags(1)
		port := w.freePort()
		controller := w.control(port)
		w.work("one", port, map[queue.Step]int{queue.Discover: 2, queue.SBOM: 1, queue.Match: 1})
		w.apply()
		w.ended()
		begun := time.Now()
		w.copies(images)
		b.ReportMetric(time.Since(begun).Seconds(), "s-to-fill")
		// A job that finds nothing takes up all that waits.
		w.elsewhere()
		job := &registryv1alpha1.DiscoveryJob{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: w.namespace}}
		job.Spec.Registry, job.Spec.Repositories = "prod", []string{w.namespace + "/other"}
		w.must(w.client.Create(b.Context(), job))
		begun = time.Now()
		present := int64(0)
		err := wait.PollUntilContextTimeout(b.Context(), time.Second, time.Hour, true, func(ctx context.Context) (bool, error) {
			scanned, err := w.count(ctx, client.MatchingFields{"status.state": string(reportsv1.ImageScanned)})
			if err != nil || scanned < worked {
				return false, err
			}
			present, err = w.count(ctx)
			return true, err
		})
		w.must(err)
		b.ReportMetric(float64(present), "images")
		b.ReportMetric(time.Since(begun).Seconds(), "s")
		b.ReportMetric(usage.OfT(b, controller.Process.Pid).PeakMiB(), "MiB")
	}
	b.ReportMetric(0, "ns/op")
}

// count counts Images of the namespace.
func (w *world) count(ctx context.Context, options ...client.ListOption) (int64, error) {
	some := &reportsv1.ImageList{}
	err := w.client.List(ctx, some, append(options, client.InNamespace(w.namespace), client.Limit(1))...)
	if err != nil || some.RemainingItemCount == nil {
		return int64(len(some.Items)), err
	}
	return int64(len(some.Items)) + *some.RemainingItemCount, nil
}

// elsewhere fills a second repository with one image.
func (w *world) elsewhere() {
	w.t.Helper()
	image, err := imagetest.Known()
	w.must(err)
	for _, content := range image.Blobs {
		w.registry.Blob(w.namespace+"/other", content)
	}
	w.registry.Manifest(w.namespace+"/other", "0", imagetest.TypeManifest, image.Manifest)
}

// copies makes Images under other tags of the one that there is, which wait for their SBOMs. They are written to the reports API itself, several
// at once: through kube-apiserver and one after the other 100,000 take half an hour.
func (w *world) copies(n int) {
	w.t.Helper()
	const writers = 8
	found := &reportsv1.ImageList{}
	w.must(w.client.List(w.t.Context(), found, client.InNamespace(w.namespace)))
	if len(found.Items) != 1 {
		w.t.Fatalf("%d images were found, and not one", len(found.Items))
	}
	first := found.Items[0]
	reports, err := reportsclient.New(reportsclient.Options{Config: w.reports, Clock: hastyClock{}})
	w.must(err)
	pending := map[string]any{"status": map[string]any{
		"presence": reportsv1.ImagePresent, "state": reportsv1.ImagePending, "firstSeenTime": first.Status.FirstSeenTime,
	}}
	var writing sync.WaitGroup
	for from := range writers {
		writing.Go(func() {
			for i := 1 + from; i < n; i += writers {
				image := &reportsv1.Image{TypeMeta: first.TypeMeta, Spec: first.Spec}
				image.APIVersion, image.Kind = reportsv1.SchemeGroupVersion.String(), "Image"
				image.Spec.Tag = "copy-" + strconv.Itoa(i)
				id := results.ImageID{Repository: image.Spec.Repository, Tag: image.Spec.Tag, Digest: image.Spec.Digest, Platform: image.Spec.Platform}
				image.Namespace, image.Name = w.namespace, results.ImageName(image.Spec.Registry.UID, id)
				image.OwnerReferences = first.OwnerReferences
				err := reports.Create(w.t.Context(), w.namespace, reportsclient.Images, image, &reportsv1.Image{})
				if err == nil {
					_, err = reports.PatchStatus(w.t.Context(), w.namespace, reportsclient.Images, image.Name, pending, &struct{}{})
				}
				if err != nil {
					w.t.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	if w.t.Failed() {
		w.t.FailNow()
	}
}
