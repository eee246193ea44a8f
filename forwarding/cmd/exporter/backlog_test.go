// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// largeBacklog is that of the specification's figures with a million; without the flag a tenth of that.
var largeBacklog = flag.Int64("large-backlog", 100_000, "records of 1 KiB that wait for a far end in BenchmarkBacklog")

// proc gives a number of a file of a process in /proc.
func (r *program) proc(b *testing.B, file, key string) float64 {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", r.cmd.Process.Pid, file))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == key {
			n, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("%s has no %s", file, key)
	return 0
}

// BenchmarkBacklog has records pile up for a far end that is down: what is written for each byte of them, the memory, and how long a start takes after
// a kill. Then the far end is up, and the backlog is drained.
func BenchmarkBacklog(b *testing.B) {
	const mebi = 1 << 10 // of the KiB of /proc
	far := newOTLPEnd(b, false)
	dir := b.TempDir()
	p := place{dir: filepath.Join(dir, "q"), socket: filepath.Join(dir, "s", "e.sock")}
	flags := []string{
		"--queue-max-bytes", "64GiB", "--retry-max", "1s", "--grpc-listen", "127.0.0.1:0", "--grpc-insecure", "--sink", "hub=otlp://" + far.address + ",insecure=true",
	}
	for b.Loop() {
		r := p.start(b, flags...)
		accepted := load(b, r.batches(b), peerClients, func(accepted int64) bool { return accepted >= *largeBacklog })
		b.ReportMetric(r.proc(b, "io", "write_bytes:")/float64(accepted*1024), "written/byte")
		b.ReportMetric(r.proc(b, "status", "VmRSS:")/mebi, "MiB")
		b.ReportMetric(r.proc(b, "status", "VmHWM:")/mebi, "MiB-peak")
		if err := r.cmd.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		<-r.ended
		began := time.Now()
		r = p.start(b, flags...)
		b.ReportMetric(time.Since(began).Seconds(), "s-start")
		b.ReportMetric(r.proc(b, "status", "VmHWM:")/mebi, "MiB-start")
		far.up.Store(true)
		far.until(b, accepted)
		b.ReportMetric(r.proc(b, "status", "VmHWM:")/mebi, "MiB-drain")
		if err := r.cmd.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		<-r.ended
	}
}
