// SPDX-License-Identifier: Apache-2.0

package exception_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/exception"
)

// BenchmarkMillion takes a million findings of findings.json through 1,000 exceptions, as a parser does: all of them are read,
// matched and counted. Its metrics are CPU seconds of the process, and MiB of the heap at its highest beyond what it was before.
// "read" is the same without exceptions, where each finding is read nevertheless.
func BenchmarkMillion(b *testing.B) {
	const findings = 1_000_000
	texts := make([][]byte, 12_600) // the least common multiple of what numbered counts by, or nearly
	for i := range texts {
		texts[i] = []byte(numbered(i))
	}
	run := func(b *testing.B, take func([]byte) error) {
		b.Helper()
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		highest := before.HeapInuse
		begun := cpu(b)
		for b.Loop() {
			for i := range findings {
				if err := take(texts[i%len(texts)]); err != nil {
					b.Fatal(err)
				}
				if i%10_000 == 0 {
					runtime.ReadMemStats(&now)
					highest = max(highest, now.HeapInuse)
				}
			}
		}
		b.ReportMetric((cpu(b)-begun).Seconds()/float64(b.N), "CPU-s/op")
		b.ReportMetric(float64(highest-before.HeapInuse)/(1<<20), "MiB")
	}
	b.Run("read", func(b *testing.B) {
		decoder := finding.NewDecoder(0)
		run(b, func(text []byte) error { _, err := decoder.Value(text); return err })
	})
	b.Run("matched", func(b *testing.B) {
		var tally *exception.Tally
		run(b, func(text []byte) error {
			if tally == nil { // its memory counts
				tally = exception.NewTally(exception.Compile(many(b, 1000), now).For(exception.Scan{Namespace: "team-a"}))
			}
			return tally.Add(text)
		})
	})
}

// cpu is the time that the process has had so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
