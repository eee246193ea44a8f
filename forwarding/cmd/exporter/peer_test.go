// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collogsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// The peer is an OpenTelemetry Collector with a queue that is synced, as "make bench-peer" builds it.
var (
	peerProgram = flag.String("peer", "", "the OpenTelemetry Collector that BenchmarkPeer compares the exporter with")
	peerPairs   = flag.Int("pairs", 5, "pairs of measurements")
	peerSeconds = flag.Int("seconds", 4, "seconds of load of a measurement")
)

const (
	peerBatch   = 100    // records of a request
	peerBacklog = 40_000 // records that are drained
	peerClients = 4
)

// otlpEnd is the far end of both: it counts the records that come.
type otlpEnd struct {
	collogsv1.UnimplementedLogsServiceServer

	address string
	up      atomic.Bool
	got     atomic.Int64
	more    chan struct{} // has room for one: something has come
}

// Export counts, or refuses while the far end is down.
func (o *otlpEnd) Export(_ context.Context, r *collogsv1.ExportLogsServiceRequest) (*collogsv1.ExportLogsServiceResponse, error) {
	if !o.up.Load() {
		return nil, status.Error(codes.Unavailable, "down")
	}
	for _, resource := range r.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			o.got.Add(int64(len(scope.GetLogRecords())))
		}
	}
	select {
	case o.more <- struct{}{}:
	default:
	}
	return &collogsv1.ExportLogsServiceResponse{}, nil
}

func newOTLPEnd(b *testing.B, up bool) *otlpEnd {
	b.Helper()
	o := &otlpEnd{more: make(chan struct{}, 1)}
	o.up.Store(up)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	o.address = listener.Addr().String()
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	collogsv1.RegisterLogsServiceServer(server, o)
	go func() {
		if err := server.Serve(listener); err != nil {
			b.Error(err)
		}
	}()
	b.Cleanup(server.Stop)
	return o
}

// until waits until n records have come.
func (o *otlpEnd) until(b *testing.B, n int64) {
	b.Helper()
	for patience := time.After(10 * time.Minute); o.got.Load() < n; {
		select {
		case <-o.more:
		case <-patience:
			b.Fatalf("%d of %d records came", o.got.Load(), n)
		}
	}
}

// contestant is a program that takes requests of peerBatch records; open gives a function that brings one, for one client.
type contestant struct {
	name  string
	start func(b *testing.B, far *otlpEnd) (open func(client int) func() error)
}

// exporterUnderTest is ours.
func exporterUnderTest(b *testing.B, far *otlpEnd) func(int) func() error {
	b.Helper()
	dir := b.TempDir()
	p := place{dir: filepath.Join(dir, "q"), socket: filepath.Join(dir, "s", "e.sock")}
	r := p.start(b, "--queue-max-bytes", "64GiB", "--retry-max", "1s", "--grpc-listen", "127.0.0.1:0", "--grpc-insecure", "--sink", "hub=otlp://"+far.address+",insecure=true")
	b.Cleanup(func() {
		if err := r.cmd.Process.Kill(); err != nil {
			b.Error(err)
		}
		<-r.ended
	})
	return r.batches(b)
}

// peerUnderTest is the Collector.
func peerUnderTest(b *testing.B, far *otlpEnd) func(int) func() error {
	b.Helper()
	dir := b.TempDir()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		b.Fatal(err)
	}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, peerConfig, filepath.Join(dir, "queue"), address, far.address), 0o600); err != nil {
		b.Fatal(err)
	}
	var said strings.Builder
	cmd := exec.Command(*peerProgram, "--config", config)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ctx, ended := context.WithCancelCause(b.Context())
	go func() { ended(fmt.Errorf("the Collector ended: %w, %s", cmd.Wait(), &said)) }()
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ctx.Done()
	})
	body := &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: benchLine}}
	records := make([]*logsv1.LogRecord, peerBatch)
	for i := range records {
		records[i] = &logsv1.LogRecord{TimeUnixNano: uint64(time.Now().UnixNano()), Body: body}
	}
	request := &collogsv1.ExportLogsServiceRequest{ResourceLogs: []*logsv1.ResourceLogs{{ScopeLogs: []*logsv1.ScopeLogs{{LogRecords: records}}}}}
	return func(int) func() error {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := conn.Close(); err != nil {
				b.Error(err)
			}
		})
		client := collogsv1.NewLogsServiceClient(conn)
		return func() error {
			_, err := client.Export(ctx, request, grpc.WaitForReady(true))
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// peerConfig takes the directory of the queue, where to listen, and the far end.
const peerConfig = `extensions:
  file_storage/queue: {directory: %s, create_directory: true, fsync: true, timeout: 30s}
receivers:
  otlp: {protocols: {grpc: {endpoint: %s}}}
exporters:
  otlp_grpc:
    endpoint: %s
    tls: {insecure: true}
    sending_queue: {enabled: true, storage: file_storage/queue, queue_size: 10000000}
    retry_on_failure: {enabled: true, initial_interval: 10ms, max_interval: 1s, max_elapsed_time: 0s}
service:
  telemetry: {metrics: {level: none}, logs: {level: error}}
  extensions: [file_storage/queue]
  pipelines: {logs: {receivers: [otlp], exporters: [otlp_grpc]}}
`

// load has clients bring requests until enough says so, and gives how many records were accepted.
func load(b *testing.B, open func(int) func() error, clients int, enough func(accepted int64) bool) int64 {
	b.Helper()
	var accepted atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		bring := open(i)
		if err := bring(); err != nil { // the connection is there, and the program has started
			b.Fatal(err)
		}
		accepted.Add(peerBatch)
		all.Go(func() {
			for !enough(accepted.Load()) {
				if err := bring(); err != nil {
					b.Error(err)
					return
				}
				accepted.Add(peerBatch)
			}
		})
	}
	all.Wait()
	return accepted.Load()
}

func forSeconds() func(int64) bool {
	began := time.Now()
	return func(int64) bool { return time.Since(began) > time.Duration(*peerSeconds)*time.Second }
}

// accept is how many records a second are acknowledged while the far end is down.
func accept(clients int) func(*testing.B, contestant) float64 {
	return func(b *testing.B, c contestant) float64 {
		b.Helper()
		open := c.start(b, newOTLPEnd(b, false))
		began := time.Now()
		n := load(b, open, clients, forSeconds())
		return float64(n) / time.Since(began).Seconds()
	}
}

// through is how many records a second reach the far end.
func through(b *testing.B, c contestant) float64 {
	b.Helper()
	far := newOTLPEnd(b, true)
	open := c.start(b, far)
	began := time.Now()
	n := load(b, open, peerClients, forSeconds())
	far.until(b, n)
	return float64(n) / time.Since(began).Seconds()
}

// drain is how many records a second of a backlog reach a far end that is up again.
func drain(b *testing.B, c contestant) float64 {
	b.Helper()
	far := newOTLPEnd(b, false)
	open := c.start(b, far)
	n := load(b, open, peerClients, func(accepted int64) bool { return accepted >= peerBacklog })
	began := time.Now()
	far.up.Store(true)
	far.until(b, n)
	return float64(n) / time.Since(began).Seconds()
}

// BenchmarkPeer measures exporter and Collector in turn. What it tells is the ratio of each pair, as a machine that others use changes
// by more than the two differ.
func BenchmarkPeer(b *testing.B) {
	if *peerProgram == "" {
		b.Skip("there is no Collector: make bench-forwarding BENCH_PEER=otel")
	}
	ours, peer := contestant{"exporter", exporterUnderTest}, contestant{"collector", peerUnderTest}
	for _, figure := range []struct {
		name    string
		measure func(*testing.B, contestant) float64
	}{
		{"accept/1", accept(1)}, {"accept/4", accept(4)}, {"accept/8", accept(8)}, {"through", through}, {"drain", drain},
	} {
		b.Run(figure.name, func(b *testing.B) {
			before := fsyncs(b)
			results := map[string][]float64{}
			var ratios []float64
			for range *peerPairs {
				order := []contestant{ours, peer}
				rand.Shuffle(2, func(i, j int) { order[i], order[j] = order[j], order[i] })
				rates := map[string]float64{}
				for _, c := range order {
					b.Run(c.name, func(b *testing.B) {
						if b.N == 1 {
							rates[c.name] = figure.measure(b, c)
						}
					})
					results[c.name] = append(results[c.name], rates[c.name])
				}
				ratios = append(ratios, rates[ours.name]/rates[peer.name])
			}
			slices.Sort(ratios)
			fmt.Printf("%s: ratio %.2f (%.2f to %.2f) of %d pairs; exporter %.0f records/s, collector %.0f; %.0f fsyncs/s before, %.0f after\n",
				b.Name(), median(ratios), ratios[0], ratios[len(ratios)-1], *peerPairs, median(results[ours.name]), median(results[peer.name]), before, fsyncs(b))
		})
	}
}

// BenchmarkDelivery measures the exporter alone: from clients to a far end that is up, and a backlog.
func BenchmarkDelivery(b *testing.B) {
	for _, figure := range []struct {
		name    string
		measure func(*testing.B, contestant) float64
	}{{"through", through}, {"drain", drain}} {
		b.Run(figure.name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(figure.measure(b, contestant{"exporter", exporterUnderTest}), "records/s")
			}
		})
	}
}

func median[T cmp.Ordered](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// fsyncs is how often a second a page is written and synced on the disk of the queues.
func fsyncs(b *testing.B) float64 {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "page"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	page, n, began := make([]byte, 4096), 0, time.Now()
	for ; time.Since(began) < 500*time.Millisecond; n++ {
		if _, err := f.WriteAt(page, int64(n)*4096); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return float64(n) / time.Since(began).Seconds()
}
