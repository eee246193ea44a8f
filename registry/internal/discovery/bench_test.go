// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// fill makes a repository of 10,000 tags on 2,000 digests.
func fill(b *testing.B, w *world) {
	b.Helper()
	for i := range 10_000 {
		w.Push(repository, fmt.Sprintf("v%05d", i), image(amd64, strconv.Itoa(i%2000), day(1+i%2000%28)))
	}
}

// cpu is the time that this process has used, the registry's included.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// report tells CPU seconds for each discovery and what the heap grew to.
func report(b *testing.B, before time.Duration, w *world) {
	b.Helper()
	b.ReportMetric((cpu(b)-before).Seconds()/float64(b.N), "cpu-s/op")
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.Sys)/(1<<20), "MiB-from-system")
	b.ReportMetric(float64(w.Count("HEAD manifests")), "HEADs")
	b.ReportMetric(float64(w.Count("GET tags")), "lists")
	b.ReportMetric(float64(w.Count("GET manifests")+w.Count("GET blobs")), "GETs")
	b.ReportMetric(float64(w.store.writes), "checkpoints")
}

// BenchmarkUnchanged looks at 10,000 tags whose digests are all known.
func BenchmarkUnchanged(b *testing.B) {
	w := newWorld(b, `{"tags":{"newest":100}}`)
	fill(b, w)
	w.discover()
	before := cpu(b)
	for b.Loop() {
		w.discover()
	}
	report(b, before, w)
}

// BenchmarkImmutable looks at 10,000 tags that are asked for once.
func BenchmarkImmutable(b *testing.B) {
	w := newWorld(b, `{}`)
	fill(b, w)
	w.discover()
	w.input.ImmutableTags = []string{"*"}
	before := cpu(b)
	for b.Loop() {
		w.discover()
	}
	report(b, before, w)
}

// BenchmarkNew looks at 10,000 tags of 2,000 digests for the first time.
func BenchmarkNew(b *testing.B) {
	w := newWorld(b, `{}`)
	fill(b, w)
	before := cpu(b)
	for b.Loop() {
		w.input.Known = nil
		w.discover()
	}
	report(b, before, w)
}
