// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/decision"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/sinks/grpc"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// benchLine is a record of 1 KiB.
var benchLine = `{"eventType":"audit_violation","message":"` + strings.Repeat("x", 1024-len(`{"eventType":"audit_violation","message":""}`)) + `"}`

// startBench runs an exporter whose far end is down.
func startBench(b *testing.B, more ...string) (place, *program) {
	b.Helper()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	b.Cleanup(down.Close)
	dir := b.TempDir()
	p := place{dir: filepath.Join(dir, "q"), socket: filepath.Join(dir, "s", "e.sock"), url: down.URL}
	return p, p.start(b, append([]string{"--queue-max-bytes", "64GiB", "--retry-initial", "5s", "--retry-max", "5m"}, more...)...)
}

// report tells what the exporter needed.
func (r *program) report(b *testing.B, records int) {
	b.Helper()
	b.ReportMetric(float64(records)/b.Elapsed().Seconds(), "records/s")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(kib/1024, "MiB-peak")
		}
	}
	for line := range strings.Lines(r.metrics(b)) {
		if value, found := strings.CutPrefix(line, "scanyard_exporter_commit_records_count "); found {
			commits, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(records)/commits, "records/fsync")
		}
	}
}

// BenchmarkIntakeSocket writes records by some connections at a time, each until all of its records are on disk.
func BenchmarkIntakeSocket(b *testing.B) {
	for _, connections := range []int{1, 4, 8} {
		b.Run(strconv.Itoa(connections), func(b *testing.B) {
			p, r := startBench(b)
			each := b.N/connections + 1
			b.ResetTimer()
			var all sync.WaitGroup
			for range connections {
				all.Go(func() {
					conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.socket, Net: "unix"})
					if err != nil {
						b.Error(err)
						return
					}
					defer conn.Close()
					go func() {
						to := bufio.NewWriterSize(conn, 64<<10)
						for range each {
							if _, err := to.WriteString(benchLine + "\n"); err != nil {
								b.Error(err)
							}
						}
						if err := to.Flush(); err != nil {
							b.Error(err)
						}
					}()
					answers, want := bufio.NewScanner(conn), fmt.Sprintf(`{"ack":{"through":%d}}`, each)
					for answers.Scan() && answers.Text() != want {
					}
					if answers.Text() != want {
						b.Errorf("the last answer is %s", answers.Text())
					}
				})
			}
			all.Wait()
			b.StopTimer()
			r.report(b, each*connections)
		})
	}
}

// batches gives for each client a function that brings 100 records by gRPC, and returns when they are on disk.
func (r *program) batches(b *testing.B) func(client int) func() error {
	b.Helper()
	return func(client int) func() error {
		s, err := grpc.Open(sink.Config{Name: "exporter", URL: &url.URL{Scheme: "grpc", Host: r.grpc}, Insecure: true, Timeout: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		stream := &forwardingv1.StreamId{Kind: forwardingv1.StreamKind_STREAM_KIND_DECISIONS, Name: "bench", Uid: strconv.Itoa(client)}
		n := uint64(0)
		return func() error {
			batch := sink.Batch{Stream: stream}
			for range 100 {
				n++
				batch.Records = append(batch.Records, sink.Record{EventID: decision.RandomID(), Sequence: n, Line: []byte(benchLine)})
			}
			_, err := s.Deliver(b.Context(), batch)
			return err
		}
	}
}

// BenchmarkIntakeGRPC brings batches of 100 by some streams at a time, one batch of each in flight.
func BenchmarkIntakeGRPC(b *testing.B) {
	for _, clients := range []int{1, 4, 8} {
		b.Run(strconv.Itoa(clients), func(b *testing.B) {
			_, r := startBench(b, "--grpc-listen", "127.0.0.1:0", "--grpc-insecure")
			batches, open := b.N/clients/100+1, r.batches(b)
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range clients {
				all.Go(func() {
					bring := open(i)
					for range batches {
						if err := bring(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			r.report(b, batches*clients*100)
		})
	}
}
