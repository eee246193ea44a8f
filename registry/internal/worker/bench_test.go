// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/mini"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
	"github.com/scanyard/scanyard/registry/internal/results"
)

// batch is how many images a message of the controller names.
const batch = 50

// imagesOf is how many images the benchmarks look at: BENCH_REGISTRY_IMAGES, or 500.
func imagesOf(b *testing.B) int {
	b.Helper()
	text := os.Getenv("BENCH_REGISTRY_IMAGES")
	if text == "" {
		return 500
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < batch*2 {
		b.Fatalf("BENCH_REGISTRY_IMAGES must be a number of at least %d, and not %q", batch*2, text)
	}
	return n
}

// usedBy is the CPU time of this process and of all that it has started and that still run.
func usedBy(b *testing.B) time.Duration {
	b.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	const ticksPerSecond, parentField, userField, systemField = 100, 1, 11, 12
	parents, ticks := map[int]int{}, map[int]int{}
	for _, name := range entries {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // a process that has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parents[pid], _ = strconv.Atoi(fields[parentField])
		user, _ := strconv.Atoi(fields[userField])
		system, _ := strconv.Atoi(fields[systemField])
		ticks[pid] = user + system
	}
	all := 0
	for pid, n := range ticks {
		for at := pid; at > 1; at = parents[at] {
			if at == os.Getpid() {
				all += n
				break
			}
		}
	}
	return time.Duration(all) * time.Second / ticksPerSecond
}

// scanned makes n images in one repository, all on one base, and takes them to their reports. Each hundredth has a package more.
func (w *world) scanned(n int) {
	w.t.Helper()
	for i := range n {
		layers := []imagetest.Layer{imagetest.Debian12(), {Compression: imagetest.Gzip, Files: []imagetest.File{{Name: "app/number", Body: strconv.Itoa(i)}}}}
		if i%100 == 0 {
			layers = append(layers, imagetest.Node())
		}
		w.push("shop/api", fmt.Sprintf("1.0.%d", i), layers...)
	}
	w.reported()
}

// reported takes all images that were pushed to their reports.
func (w *world) reported() {
	w.t.Helper()
	w.discovered(jobUID)
	w.well(w.message(queue.Database))
	for _, step := range []queue.Step{queue.SBOM, queue.Match} {
		for items := range slices.Chunk(w.items(), batch) {
			size := 1
			if step == queue.Match {
				size = batch
			}
			for some := range slices.Chunk(items, size) {
				w.well(w.message(step, some...))
			}
		}
	}
}

// items are all images, in order.
func (w *world) items() []queue.Item {
	w.t.Helper()
	images := w.images()
	list := make([]queue.Item, 0, len(images))
	for _, key := range sorted(images) {
		list = append(list, itemOf(images[key]))
	}
	return list
}

// change brings a newer database, in which the advisories of one package, or of all, have another title.
func (w *world) change(pkg string) {
	w.t.Helper()
	a, err := mini.ReadAdvisories(w.config.Database.Mini.File)
	if err != nil {
		w.t.Fatal(err)
	}
	a.BuiltAt = a.BuiltAt.Add(time.Hour)
	for i := range a.Advisories {
		if pkg == "" || a.Advisories[i].Package == pkg {
			a.Advisories[i].Title += "."
		}
	}
	w.config.Database.Mini.File = filepath.Join(w.t.TempDir(), "database.json")
	if err := a.Write(w.config.Database.Mini.File); err != nil {
		w.t.Fatal(err)
	}
	w.well(w.message(queue.Database))
}

// wanted asks which images are to be looked at again, as a ScanJob does, and how long the answers took.
func (w *world) wanted(r *running) (list []queue.Item, took time.Duration) {
	w.t.Helper()
	database, has := r.Engine.Database("mini")
	about, known := r.Engine.Describe("mini")
	if !has || !known {
		w.t.Fatal("the worker has no database")
	}
	query := reportsv1.ImageQuery{Spec: reportsv1.ImageQuerySpec{
		RegistryUID: "registry-1", Need: reportsv1.NeedMatch, Adapter: "mini", EngineVersion: about.Engine.Version, DatabaseVersion: database.Version, Limit: 1000,
	}}
	begun := time.Now()
	for {
		var answer reportsv1.ImageQuery
		if err := w.client.Create(w.t.Context(), namespace, "imagequeries", &query, &answer); err != nil {
			w.t.Fatal(err)
		}
		for _, i := range answer.Status.Items {
			list = append(list, queue.Item{Name: i.Name, UID: string(i.UID)})
		}
		if query.Spec.Continue = answer.Status.Continue; query.Spec.Continue == "" {
			return list, time.Since(begun)
		}
	}
}

// match has all items matched, as many at once as the worker has slots.
func (w *world) matchAll(items []queue.Item) {
	w.t.Helper()
	for part := range slices.Chunk(items, batch) {
		w.put(w.message(queue.Match, part...))
	}
	for _, e := range w.wait(len(items)) {
		if e.Outcome != "Done" {
			w.t.Fatalf("a match ended with %+v", e)
		}
	}
}

// BenchmarkRescan has every image matched again for data in which every advisory has changed, and then for data in which one has, which
// concerns one image of a hundred. CPU time is that of worker, adapters, reports API, queue and registry together.
func BenchmarkRescan(b *testing.B) {
	w := newWorld(b)
	// The door of the tests is not part of what is measured.
	w.client = w.clientOf(w.reports.url, &clock{})
	r := w.work(func(o *Options) { o.Slots[queue.Match], o.Reports = 4, w.client })
	n := imagesOf(b)
	w.scanned(n)
	var each float64
	b.Run("all", func(b *testing.B) {
		var cpu, wall time.Duration
		count := 0
		for b.Loop() {
			w.change("")
			items, _ := w.wanted(r)
			if len(items) != n {
				b.Fatalf("%d of %d images are wanted", len(items), n)
			}
			before, begun := usedBy(b), time.Now()
			w.matchAll(items)
			cpu, wall, count = cpu+usedBy(b)-before, wall+time.Since(begun), count+n
		}
		each = cpu.Seconds() * 1000 / float64(count)
		b.ReportMetric(each, "CPU-ms/image")
		b.ReportMetric(float64(count)/wall.Hours(), "images/hour")
		b.ReportMetric(0, "ns/op")
	})
	b.Run("changed", func(b *testing.B) {
		var cpu, decided time.Duration
		count := 0
		for b.Loop() {
			w.change("lodash")
			before := usedBy(b)
			items, took := w.wanted(r)
			if want := (n + 99) / 100; len(items) != want {
				b.Fatalf("%d images are wanted, and not %d of %d", len(items), want, n)
			}
			w.matchAll(items)
			cpu, decided, count = cpu+usedBy(b)-before, max(decided, took), count+1
		}
		b.ReportMetric(decided.Seconds()*1000, "decision-ms")
		b.ReportMetric(100*cpu.Seconds()*1000/float64(count)/(each*float64(n)), "%-of-all")
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkFirst takes new images to their reports, and counts the writes to the reports API.
func BenchmarkFirst(b *testing.B) {
	n := imagesOf(b) / 5
	for b.Loop() {
		w := newWorld(b)
		w.work()
		before := usedBy(b)
		w.scanned(n)
		writes := 0
		for call, count := range w.reports.writes() {
			if !strings.Contains(call, "reuse") && !strings.Contains(call, "repositories") && !strings.Contains(call, "vulnerabilitydatabases") {
				writes += count
			}
		}
		b.ReportMetric(float64(writes)/float64(n), "writes/image")
		b.ReportMetric((usedBy(b)-before).Seconds()*1000/float64(n), "CPU-ms/image")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkQueue has three workers, of which each joins 0.3 s after the one before, make 300 SBOMs. No SBOM is made twice.
func BenchmarkQueue(b *testing.B) {
	const images, workers = 300, 3
	for b.Loop() {
		w := newWorld(b)
		for i := range images {
			w.push("shop/api", strconv.Itoa(i), imagetest.Layer{Compression: imagetest.Gzip, Files: []imagetest.File{{Name: "app/number", Body: strconv.Itoa(i)}}})
		}
		w.discoveredOnly()
		w.reports.forget()
		join := time.NewTicker(300 * time.Millisecond)
		defer join.Stop()
		for _, one := range w.items() {
			w.put(w.message(queue.SBOM, one))
		}
		claims := 0
		for range workers {
			w.work()
			<-join.C
		}
		for _, e := range w.wait(images) {
			if e.Outcome == "Done" {
				claims++
			}
		}
		b.ReportMetric(float64(w.reports.writes()["PUT sboms/document"]-images), "doubled")
		b.ReportMetric(float64(claims), "made")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkStorage says what images cost on the disk of the reports API: 1,000 images on 20 bases, with some 170 packages each, as
// a Debian with a program has them, and a layer of its own for each image.
func BenchmarkStorage(b *testing.B) {
	const bases, onEach, packages = 20, 50, 170
	for b.Loop() {
		w := newWorld(b)
		w.client = w.clientOf(w.reports.url, &clock{})
		w.work(func(o *Options) { o.Reports = w.client })
		for base := range bases {
			layer := debianOf(base, packages)
			for i := range onEach {
				own := imagetest.Layer{Compression: imagetest.Gzip, Files: []imagetest.File{{Name: "app/number", Body: fmt.Sprint(base, i)}}}
				w.push(fmt.Sprintf("shop/base-%d", base), fmt.Sprintf("1.0.%d", i), layer, own)
			}
		}
		w.reported()
		document := filepath.Join(b.TempDir(), "sbom")
		if _, err := w.client.Document(b.Context(), namespace, w.items()[0].Name, document); err != nil {
			b.Fatal(err)
		}
		about, err := os.Stat(document)
		if err != nil {
			b.Fatal(err)
		}
		w.reports.program.Stop()
		b.ReportMetric(float64(about.Size())/1000, "kB/SBOM")
		b.ReportMetric(float64(w.reports.stored(b))/1000/bases/onEach, "kB/image")
	}
	b.ReportMetric(0, "ns/op")
}

// debianOf is the layer of a Debian with a number of packages: some that have vulnerabilities, and others whose versions differ by base.
func debianOf(base, packages int) imagetest.Layer {
	layer := imagetest.Debian12()
	list := [][3]string{{"libc6", "2.36-9+deb12u4", "glibc"}, {"tar", "1.34+dfsg-1.2", ""}, {"zlib1g", "1:1.2.13.dfsg-1", "zlib"}}
	for i := range packages {
		sum := sha256.Sum256(fmt.Append(nil, i))
		name := fmt.Sprintf("lib%x%d", sum[:4], i%9)
		list = append(list, [3]string{name, fmt.Sprintf("%d.%d.%d-%d+deb12u%d", sum[4]%9, sum[5]%30, base, sum[6]%5, base%7), name + "-src"})
	}
	layer.Files[len(layer.Files)-1].Body = imagetest.DpkgStatus(list...)
	return layer
}

// stored is the size of the database's files.
func (a *reportsAPI) stored(b *testing.B) int64 {
	b.Helper()
	files, err := filepath.Glob(a.program.Database + "*")
	if err != nil || len(files) == 0 {
		b.Fatalf("files of the database: %v, %v", files, err)
	}
	all := int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			b.Fatal(err)
		}
		all += info.Size()
	}
	return all
}

// BenchmarkLookup asks for images by their digest, among 10,000.
func BenchmarkLookup(b *testing.B) {
	const images, writers, questions = 10_000, 8, 1000
	w := newWorld(b)
	w.client = w.clientOf(w.reports.url, &clock{})
	digest := func(i int) string { return fmt.Sprintf("sha256:%064x", i) }
	var writing sync.WaitGroup
	for first := range writers {
		writing.Go(func() {
			for i := first; i < images; i += writers {
				id := results.ImageID{Repository: "shop/api", Tag: strconv.Itoa(i), Digest: digest(i), Platform: "linux/amd64"}
				image := reportsv1.Image{
					TypeMeta:   metav1.TypeMeta{APIVersion: reportsv1.SchemeGroupVersion.String(), Kind: "Image"},
					ObjectMeta: metav1.ObjectMeta{Name: results.ImageName("registry-1", id), Namespace: namespace},
					Spec: reportsv1.ImageSpec{
						Registry: reportsv1.RegistryRef{Name: "prod", UID: "registry-1", Host: "registry.example.com"}, Repository: id.Repository, Tag: id.Tag, Digest: id.Digest,
						Platform: id.Platform,
					},
				}
				if err := w.client.Create(b.Context(), namespace, reportsclient.Images, &image, &reportsv1.Image{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	if b.Failed() {
		b.FailNow()
	}
	var took []time.Duration
	for b.Loop() {
		for i := range questions {
			wanted, found := digest(i*7919%images), 0
			begun := time.Now()
			err := reportsclient.List(b.Context(), w.client, namespace, reportsclient.Images, reportsclient.Selector("spec.digest", wanted), func(*reportsv1.Image) error {
				found++
				return nil
			})
			if took = append(took, time.Since(begun)); err != nil || found != 1 {
				b.Fatalf("%d images have the digest %s: %v", found, wanted, err)
			}
		}
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "median-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}
