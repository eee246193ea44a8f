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
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// The peer is an OpenTelemetry Collector with a queue that is synced, as "make bench-peer" builds it.
var (
	peerProgram = flag.String("peer", "", "the OpenTelemetry Collector that BenchmarkPeer compares the exporter with")
	peerPairs   = flag.Int("pairs", 5, "pairs of measurements")
	peerSeconds = flag.Int("seconds", 4, "seconds of load of a measurement")
	peerBacklog = flag.Int64("backlog", 200_000, "records that are drained")
)

// peerClients are the clients of what goes through, and of a backlog.
const peerClients = 4

// otlpEnd is the far end of both: it counts the records that come. It reads no more of a request than what counting needs, so that what is measured
// is what the contestants do with two cores, and not the far end.
type otlpEnd struct {
	address string
	up      atomic.Bool
	got     atomic.Int64
	more    chan struct{} // has room for one: something has come
}

// export counts, or refuses while the far end is down.
func (o *otlpEnd) export(_ any, stream grpc.ServerStream) error {
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	if !o.up.Load() {
		return status.Error(codes.Unavailable, "down")
	}
	n, err := logRecords(request)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	o.got.Add(int64(n))
	select {
	case o.more <- struct{}{}:
	default:
	}
	return stream.SendMsg(new([]byte))
}

// logRecords counts the records of a request: the fields 2 of the fields 2 of the fields 1.
func logRecords(request []byte) (n int, err error) {
	err = fields(request, 1, func(resource []byte) error {
		return fields(resource, 2, func(scope []byte) error {
			return fields(scope, 2, func([]byte) error {
				n++
				return nil
			})
		})
	})
	return n, err
}

// fields gives the messages of a field.
func fields(message []byte, field protowire.Number, each func([]byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		if number == field && kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(message[n:]) // it was measured just now
			if err := each(content); err != nil {
				return err
			}
		}
		message = message[n+size:]
	}
	return nil
}

// asTheyCome is the codec of messages that are read nowhere: bytes.
type asTheyCome struct{}

// Name is not on the wire.
func (asTheyCome) Name() string { return "proto" }

// Marshal gives the bytes.
func (asTheyCome) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal keeps the bytes.
func (asTheyCome) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
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
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.ForceServerCodecV2(asTheyCome{}), grpc.UnknownServiceHandler(o.export))
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

// contestant is a program that takes requests of peerBatch records.
type contestant struct {
	name  string
	start func(b *testing.B, far *otlpEnd) running
}

// running is a contestant that runs; open gives a function that brings a request, for one client.
type running struct {
	pid  int
	open func(client int) func() error
}

// seconds is the CPU time that the contestant has used, in all its threads.
func (r running) seconds(b *testing.B) float64 {
	b.Helper()
	return usage.OfT(b, r.pid).CPU.Seconds()
}

// exporterUnderTest is ours.
func exporterUnderTest(b *testing.B, far *otlpEnd) running {
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
	return running{r.cmd.Process.Pid, r.batches(b)}
}

// peerUnderTest is the Collector.
func peerUnderTest(b *testing.B, far *otlpEnd) running {
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
	var requests []*collogsv1.ExportLogsServiceRequest
	for lines := range slices.Chunk(benchLines(), peerBatch) {
		var records []*logsv1.LogRecord
		for _, line := range lines {
			body := &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: line}}
			records = append(records, &logsv1.LogRecord{TimeUnixNano: uint64(time.Now().UnixNano()), Body: body})
		}
		requests = append(requests, &collogsv1.ExportLogsServiceRequest{ResourceLogs: []*logsv1.ResourceLogs{{ScopeLogs: []*logsv1.ScopeLogs{{LogRecords: records}}}}})
	}
	return running{cmd.Process.Pid, func(client int) func() error {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := conn.Close(); err != nil {
				b.Error(err)
			}
		})
		logs, brought := collogsv1.NewLogsServiceClient(conn), 0
		return func() error {
			brought++
			_, err := logs.Export(ctx, requests[(brought+client*7)%len(requests)], grpc.WaitForReady(true))
			return errors.Join(err, context.Cause(ctx))
		}
	}}
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

// measured is what a measurement came to.
type measured struct {
	rate float64 // records a second
	cpu  float64 // microseconds of the contestant's CPU time for each record
}

// timed measures what brings n records.
func (r running) timed(b *testing.B, work func() int64) measured {
	b.Helper()
	used, began := r.seconds(b), time.Now()
	n := float64(work())
	return measured{rate: n / time.Since(began).Seconds(), cpu: (r.seconds(b) - used) * 1e6 / n}
}

// accept is what is acknowledged while the far end is down.
func accept(clients int) func(*testing.B, contestant) measured {
	return func(b *testing.B, c contestant) measured {
		b.Helper()
		r := c.start(b, newOTLPEnd(b, false))
		return r.timed(b, func() int64 { return load(b, r.open, clients, forSeconds()) })
	}
}

// through is what reaches the far end from clients.
func through(b *testing.B, c contestant) measured {
	b.Helper()
	far := newOTLPEnd(b, true)
	r := c.start(b, far)
	return r.timed(b, func() int64 {
		n := load(b, r.open, peerClients, forSeconds())
		far.until(b, n)
		return n
	})
}

// drain is what of a backlog reaches a far end that is up again.
func drain(b *testing.B, c contestant) measured {
	b.Helper()
	far := newOTLPEnd(b, false)
	r := c.start(b, far)
	n := load(b, r.open, peerClients, func(accepted int64) bool { return accepted >= *peerBacklog })
	return r.timed(b, func() int64 {
		far.up.Store(true)
		far.until(b, n)
		return n
	})
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
		measure func(*testing.B, contestant) measured
	}{
		{"accept/1", accept(1)}, {"accept/4", accept(4)}, {"accept/8", accept(8)}, {"through", through}, {"drain", drain},
	} {
		b.Run(figure.name, func(b *testing.B) {
			before := fsyncs(b)
			rates, cpu := map[string][]float64{}, map[string][]float64{}
			var ratios []float64
			for range *peerPairs {
				order := []contestant{ours, peer}
				rand.Shuffle(2, func(i, j int) { order[i], order[j] = order[j], order[i] })
				pair := map[string]measured{}
				for _, c := range order {
					b.Run(c.name, func(b *testing.B) {
						if b.N == 1 {
							pair[c.name] = figure.measure(b, c)
						}
					})
					rates[c.name], cpu[c.name] = append(rates[c.name], pair[c.name].rate), append(cpu[c.name], pair[c.name].cpu)
				}
				ratios = append(ratios, pair[ours.name].rate/pair[peer.name].rate)
			}
			slices.Sort(ratios)
			fmt.Printf("%s: ratio %.2f (%.2f to %.2f) of %d pairs; exporter %.0f records/s and %.1f µs of CPU for each, collector %.0f and %.1f; %.0f fsyncs/s before, %.0f after; load %s\n",
				b.Name(), median(ratios), ratios[0], ratios[len(ratios)-1], *peerPairs, median(rates[ours.name]), median(cpu[ours.name]),
				median(rates[peer.name]), median(cpu[peer.name]), before, fsyncs(b), loadAverage(b))
		})
	}
}

// loadAverage is that of the last minute.
func loadAverage(b *testing.B) string {
	b.Helper()
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		b.Fatal(err)
	}
	return strings.Fields(string(content))[0]
}

// BenchmarkDelivery measures the exporter alone: from clients to a far end that is up, and a backlog.
func BenchmarkDelivery(b *testing.B) {
	for _, figure := range []struct {
		name    string
		measure func(*testing.B, contestant) measured
	}{{"through", through}, {"drain", drain}} {
		b.Run(figure.name, func(b *testing.B) {
			for b.Loop() {
				m := figure.measure(b, contestant{"exporter", exporterUnderTest})
				b.ReportMetric(m.rate, "records/s")
				b.ReportMetric(m.cpu, "cpu-µs/record")
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
