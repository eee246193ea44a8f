// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// BenchmarkWaiting says how much memory a controller takes while 100,000 images of one Registry wait, most of them for their SBOMs: a worker
// makes one after the other meanwhile. BENCH_REGISTRY_WAITING is another number of images.
func BenchmarkWaiting(b *testing.B) {
	images := 100_000
	if text := os.Getenv("BENCH_REGISTRY_WAITING"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			b.Fatalf("BENCH_REGISTRY_WAITING must be a number of images, and not %q", text)
		}
		images = n
	}
	for b.Loop() {
		w := newPlace(b).space(b)
		w.tags(images)
		port := w.freePort()
		controller := w.control(port)
		w.work("one", port, map[queue.Step]int{queue.Discover: 2, queue.SBOM: 1, queue.Match: 1})
		w.apply()
		begun, present := time.Now(), int64(0)
		err := wait.PollUntilContextTimeout(b.Context(), time.Second, time.Hour, true, func(ctx context.Context) (bool, error) {
			some := &reportsv1.ImageList{}
			err := w.client.List(ctx, some, client.InNamespace(w.namespace), client.Limit(1))
			present = int64(len(some.Items))
			if rest := some.RemainingItemCount; rest != nil {
				present += *rest
			}
			return present >= int64(images), err
		})
		w.must(err)
		b.ReportMetric(float64(present), "images")
		b.ReportMetric(time.Since(begun).Seconds(), "s")
		b.ReportMetric(usage.OfT(b, controller.Process.Pid).PeakMiB(), "MiB")
	}
	b.ReportMetric(0, "ns/op")
}
