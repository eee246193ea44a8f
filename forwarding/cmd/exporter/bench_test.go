// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/decisionwire"
	"github.com/scanyard/scanyard/forwarding/sink"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// benchRecords is how many decisions benchmarks take their load from: more than a frame of the queue holds, so that no frame has one twice.
const benchRecords = 4000

// benchLines are decisions of 1 KiB as a policy program writes them: names, digests and ids differ, keys and texts recur.
var benchLines = sync.OnceValue(func() []string {
	random := rand.New(rand.NewPCG(1, 1))
	hex := func(n int) string {
		text := make([]byte, 0, n)
		for range n {
			text = append(text, "0123456789abcdef"[random.IntN(16)])
		}
		return string(text)
	}
	kinds := []string{"K8sRequiredLimits", "K8sAllowedRepos", "K8sPSPPrivileged", "K8sRequiredLabels", "K8sBlockNodePort"}
	lines := make([]string, 0, benchRecords)
	for range benchRecords {
		kind, team, app := kinds[random.IntN(len(kinds))], "team-"+strconv.Itoa(random.IntN(40)), "app-"+strconv.Itoa(random.IntN(300))
		line := fmt.Sprintf(`{"timeStamp":"2026-11-%02dT%02d:%02d:%02d.%09dZ","eventType":"audit_violation","message":"container <%s> of pod <%s-%s-%s> breaks constraint %s",`+
			`"constraintKind":"%s","constraintName":"%s-%s","constraintAction":"deny","resourceKind":"Pod","resourceNamespace":"%s","resourceName":"%s-%s-%s",`+
			`"details":{"image":"registry.example.com/%s/%s@sha256:%s","uid":"%s-%s-%s-%s-%s","node":"node-%d.example.com","owner":{"kind":"ReplicaSet","name":"%s-%s"},"note":"`,
			1+random.IntN(30), random.IntN(24), random.IntN(60), random.IntN(60), random.IntN(1e9), app, app, hex(10), hex(5), kind,
			kind, strings.ToLower(kind), team, team, app, hex(10), hex(5),
			team, app, hex(64), hex(8), hex(4), hex(4), hex(4), hex(12), random.IntN(200), app, hex(10))
		for len(line) < 1024-len(`"}}`) {
			line += benchWords[random.IntN(len(benchWords))] + " "
		}
		lines = append(lines, line[:1024-len(`"}}`)]+`"}}`)
	}
	return lines
})

var benchWords = strings.Fields("the container has no limits for memory and cpu which is asked of each namespace that serves more than one team " +
	"see policy handbook section resources or ask platform security before an exception is requested by annotation")

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
	b.ReportMetric(usage.OfT(b, r.cmd.Process.Pid).PeakMiB(), "MiB-peak")
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
			each, lines := b.N/connections+1, benchLines()
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
						for i := range each {
							if _, err := to.WriteString(lines[i%len(lines)] + "\n"); err != nil {
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

// peerBatch is how many records a request has.
const peerBatch = 100

// benchRequests are the requests that clients bring in turn, and on each client its own: decisions and their digests are made beforehand, so that a
// client costs little more than what it sends.
func benchRequests(b *testing.B, stream *forwardingv1.StreamId) []*forwardingv1.ForwardRequest {
	b.Helper()
	var requests []*forwardingv1.ForwardRequest
	for lines := range slices.Chunk(benchLines(), peerBatch) {
		batch := &forwardingv1.Batch{Stream: stream}
		for _, line := range lines {
			record, err := decisionwire.Message(sink.Record{EventID: "bench-" + strconv.Itoa(len(batch.Records)), ObservedAt: time.Now(), Line: []byte(line)})
			if err != nil {
				b.Fatal(err)
			}
			batch.Records = append(batch.Records, record)
		}
		requests = append(requests, &forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Batch{Batch: batch}})
	}
	return requests
}

// batches gives for each client a function that brings 100 records by a stream of the protocol, and returns when they are on disk.
func (r *program) batches(b *testing.B) func(client int) func() error {
	b.Helper()
	return func(client int) func() error {
		conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := conn.Close(); err != nil {
				b.Error(err)
			}
		})
		stream, err := forwardingv1.NewForwardingServiceClient(conn).Forward(b.Context(), grpc.WaitForReady(true))
		if err != nil {
			b.Fatal(err)
		}
		hello := &forwardingv1.Hello{ApiVersion: forwardingv1.Version, Sender: "bench"}
		if err := stream.Send(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Hello{Hello: hello}}); err != nil {
			b.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			b.Fatal(err)
		}
		requests := benchRequests(b, &forwardingv1.StreamId{Kind: forwardingv1.StreamKind_STREAM_KIND_DECISIONS, Name: "bench", Uid: strconv.Itoa(client)})
		brought, sequence := uint64(0), uint64(0)
		return func() error {
			brought++
			request := requests[(brought+uint64(client)*7)%uint64(len(requests))]
			request.GetBatch().Number = brought
			for _, record := range request.GetBatch().GetRecords() {
				sequence++
				record.Sequence, record.EventId = sequence, "bench-"+strconv.Itoa(client)+"-"+strconv.FormatUint(sequence, 10)
			}
			if err := stream.Send(request); err != nil {
				return err
			}
			for {
				said, err := stream.Recv()
				if err != nil || len(said.GetAck().GetRejections()) > 0 {
					return fmt.Errorf("batch %d: %v, %w", brought, said.GetAck().GetRejections(), err)
				}
				if said.GetAck().GetThrough() >= brought {
					return nil
				}
			}
		}
	}
}

// BenchmarkIntakeGRPC brings batches of 100 by some streams at a time, one batch of each in flight.
func BenchmarkIntakeGRPC(b *testing.B) {
	for _, clients := range []int{1, 4, 8} {
		b.Run(strconv.Itoa(clients), func(b *testing.B) {
			_, r := startBench(b, "--grpc-listen", "127.0.0.1:0", "--grpc-insecure")
			batches, open := b.N/clients/peerBatch+1, r.batches(b)
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
			r.report(b, batches*clients*peerBatch)
		})
	}
}
