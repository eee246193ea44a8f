// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/scanyard/scanyard/apis/decision"
	"github.com/scanyard/scanyard/forwarding/client"
	"github.com/scanyard/scanyard/forwarding/internal/intake"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func record(message string) *decision.Record {
	return &decision.Record{EventType: decision.WebhookViolation, Message: message}
}

func open(t *testing.T, config client.Config) *client.Client {
	t.Helper()
	c, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ended) // a second Close does nothing more
	})
	return c
}

func TestEmptyURLDisablesClient(t *testing.T) {
	c, err := client.New(client.Config{Producer: "test"})
	if c != nil || err != nil {
		t.Fatalf("%v, %v", c, err)
	}
	if !c.Log(record("x")) || c.Send(t.Context(), record("x")) != nil || c.Close(t.Context()) != nil || c.Err() != nil || c.Stats().Logged != 0 {
		t.Error("a nil client does something")
	}
	if allocations := testing.AllocsPerRun(100, func() { c.Log(&decision.Record{EventType: "a", Message: "x"}) }); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

func BenchmarkClientOff(b *testing.B) {
	var c *client.Client
	b.ReportAllocs()
	for b.Loop() {
		c.Log(&decision.Record{EventType: "a", Message: "x"})
	}
}

func TestURLsThatAreRefused(t *testing.T) {
	for url, want := range map[string]string{
		"http://127.0.0.1:1":                  `the scheme "http" is not known: use unix:///path, grpc://host:port of this machine, or grpcs://`,
		"127.0.0.1:1":                         "use unix:///path",
		"unix://relative":                     "is not an address",
		"grpc://exporter.example.com:9443":    "in plain text to another machine",
		"grpc://127.0.0.1":                    "a host and a port",
		"grpcs://h:1/path":                    "a host and a port",
		"grpcs://user:hunter2@h:1":            "no user name",
		"grpcs://h:1?colour=red":              "the key colour is not known",
		"grpcs://h:1?ca=":                     "has no file",
		"grpcs://h:1?cert=/a":                 "cert and key belong together",
		"grpcs://h:1?token=/a&token=/b&ca=/c": "the key token is not known",
	} {
		c, err := client.New(client.Config{URL: url})
		if c != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

type nobody struct{}

func (nobody) Enqueued(string, string, int) {}
func (nobody) Rejected(string)              {}
func (nobody) Paused(int)                   {}

func TestSocket(t *testing.T) {
	q, err := queue.Open(queue.Options{
		Dir: "q", FS: vfs.NewMem(), MaxBytes: 1 << 30, TenantMaxBytes: 1 << 29, OnFull: queue.Block, Sinks: []string{"hub"}, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s", "e.sock")
	c := open(t, client.Config{URL: "unix://" + path, Producer: "test"})
	if !c.Log(record("before there is an exporter")) {
		t.Error("dropped")
	}
	s, err := intake.Listen(t.Context(), path, intake.Access{}, intake.Options{
		Queue: q, Tenant: "default", MaxLineBytes: 1 << 20, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observe: nobody{},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	if err := c.Send(t.Context(), record("1"), record("2")); err != nil {
		t.Error(err)
	}
	if last := q.Last("default"); last != 3 {
		t.Errorf("%d records are in the queue", last)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	if err := errors.Join(<-ended, q.Close()); err != nil {
		t.Error(err)
	}
}

// forgetful stores, and fails once before it says so.
type forgetful struct {
	*store.Store

	failed atomic.Bool
}

func (f *forgetful) Start(ctx context.Context, batch store.Batch) (store.Pending, error) {
	pending, err := f.Store.Start(ctx, batch)
	if err != nil || f.failed.Swap(true) {
		return pending, err
	}
	_, err = pending.Wait(ctx)
	if err != nil {
		return pending, err
	}
	return pending, status.Error(codes.PermissionDenied, "what was stored is not told")
}

func TestGRPCResumesSession(t *testing.T) {
	opened, err := store.Open(store.Options{Directory: t.TempDir(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	far := receivertest.Start(t, receivertest.Options{Receiver: receiver.Options{Keeper: &forgetful{Store: opened}}})
	t.Cleanup(func() { far.Server.Stop() })
	c := open(t, client.Config{URL: "grpc://" + far.Address, Producer: "test", ClusterID: "c", Tenant: "default"})
	const n = 1200
	for i := range n / 2 {
		if !c.Log(record(strconv.Itoa(i))) {
			t.Fatal("dropped")
		}
	}
	var rest []*decision.Record
	for i := n / 2; i < n; i++ {
		rest = append(rest, record(strconv.Itoa(i)))
	}
	if err := c.Send(t.Context(), rest...); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if counters := opened.Counters(); counters.Stored != n || counters.Duplicates != 0 {
		t.Errorf("%+v", counters)
	}
	if s := c.Stats(); s.Logged != n || s.Acknowledged != n || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	far.Server.Stop()
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
}

func TestGRPCReportsRefusals(t *testing.T) {
	far := receivertest.Start(t, receivertest.Options{})
	c := open(t, client.Config{URL: "grpc://" + far.Address, Producer: "test", ClusterID: "c", Tenant: "default"})
	large := record(strings.Repeat("x", 3<<20))
	err := c.Send(t.Context(), record("1"), large, record("2"))
	rejected, ok := errors.AsType[*decision.RejectedError](err)
	if !ok || rejected.Code != string(sink.TooLarge) {
		t.Errorf("got %v", err)
	}
	if counters := far.Store.Counters(); counters.Stored != 2 {
		t.Errorf("%+v", counters)
	}
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	authority := trusttest.NewAuthority(t, "authority")
	write := func(name string, content []byte) string { return trusttest.Write(t, dir, name, content) }
	pair, own := authority.Issue(t, "127.0.0.1", time.Now().Add(time.Hour)), authority.Issue(t, "producer", time.Now().Add(time.Hour))
	ca := write("ca", authority.PEM)
	server, err := trust.NewServer(trust.ServerFiles{Certificate: write("cert", pair.Certificate), Key: write("key", pair.Key), ClientCA: ca}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := receiver.NewTokens(write("tokens", []byte("secret,tenant=default\n")), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	far := receivertest.Start(t, receivertest.Options{Receiver: receiver.Options{Credentials: server.Credentials(), Tokens: tokens}})
	material := "&cert=" + write("own", own.Certificate) + "&key=" + write("ownkey", own.Key) + "&token=" + write("token", []byte("secret\n"))
	c := open(t, client.Config{URL: "grpcs://" + far.Address + "?ca=" + ca + material, ClusterID: "c", Tenant: "default"})
	if err := c.Send(t.Context(), record("1")); err != nil {
		t.Error(err)
	}
	foreign := write("foreign", trusttest.NewAuthority(t, "foreign").PEM)
	stranger := open(t, client.Config{URL: "grpcs://" + far.Address + "?ca=" + foreign + material, ClusterID: "c", Tenant: "default"})
	stranger.Log(record("2"))
	for stranger.Err() == nil {
		time.Sleep(time.Millisecond) // it says so after its first connection
	}
	if e := sink.AsError(stranger.Err()); e.Reason != sink.UntrustedServer {
		t.Errorf("got %v", e)
	}
}
