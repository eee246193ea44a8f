// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// farEnd is a server of NATS with JetStream, and a client that may do everything.
type farEnd struct {
	address string
	server  *server.Server
	js      jetstream.JetStream
}

// start starts a server; a test changes its options.
func start(t *testing.T, change func(*server.Options)) *farEnd {
	t.Helper()
	options := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true, TLSTimeout: 10, DisableJetStreamBanner: true,
	}
	if change != nil {
		change(options)
	}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not listen")
	}
	inside, err := nats.Connect("", nats.InProcessServer(s), nats.UserInfo("admin", "admin"), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(inside.Close)
	js, err := jetstream.New(inside, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return &farEnd{address: s.Addr().(*net.TCPAddr).String(), server: s, js: js}
}

// stream makes a stream of the server.
func (f *farEnd) stream(t *testing.T, change func(*jetstream.StreamConfig)) jetstream.Stream {
	t.Helper()
	config := jetstream.StreamConfig{Name: "results", Subjects: []string{"scanyard.>"}, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew}
	if change != nil {
		change(&config)
	}
	made, err := f.js.CreateStream(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func count(t *testing.T, from jetstream.Stream) int {
	t.Helper()
	info, err := from.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int(info.State.Msgs)
}

const template = "scanyard.{cluster}.{tenant}.{kind}"

func open(t *testing.T, address string, change func(*sink.Config)) *Sink {
	t.Helper()
	config := sink.Config{
		Name: "hub", URL: &url.URL{Scheme: "nats", Host: address, Path: "/" + template}, Options: map[string]string{}, Insecure: true, Timeout: time.Minute,
	}
	if change != nil {
		change(&config)
	}
	s, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.(*Sink)
}

func batch(uid string, n int) sink.Batch {
	b := sink.Batch{Stream: receivertest.Scan(uid)}
	for _, message := range receivertest.Records(b.Stream, n) {
		b.Records = append(b.Records, sink.Record{EventID: message.GetEventId(), Sequence: message.GetSequence(), Message: message})
	}
	return b
}

func TestDeliver(t *testing.T) {
	for _, ordered := range []string{"false", "true"} {
		t.Run("Ordered="+ordered, func(t *testing.T) {
			f := start(t, nil)
			stream := f.stream(t, nil)
			s := open(t, f.address, func(c *sink.Config) { c.Options["ordered"] = ordered })
			if err := s.Probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := batch("u", 2*maxInFlight)
			if outcome, err := s.Deliver(t.Context(), want); err != nil || len(outcome.Rejected) > 0 || outcome.Duplicates > 0 {
				t.Fatalf("got %+v, %v", outcome, err)
			}
			// Another process sends everything again: nothing is there twice.
			if outcome, err := open(t, f.address, nil).Deliver(t.Context(), want); err != nil || outcome.Duplicates != len(want.Records) {
				t.Fatalf("got %+v, %v", outcome, err)
			}
			if got := count(t, stream); got != len(want.Records) {
				t.Fatalf("%d messages, want %d", got, len(want.Records))
			}
			for i, record := range want.Records {
				message, err := stream.GetMsg(t.Context(), uint64(i+1))
				if err != nil {
					t.Fatal(err)
				}
				var event struct{ ID string }
				if err := json.Unmarshal(message.Data, &event); err != nil || event.ID != record.EventID || message.Header.Get(nats.MsgIdHdr) != event.ID ||
					message.Subject != subjectOf(template, want.Stream) {
					t.Fatalf("message %d is %s on %s: %v", i, message.Data, message.Subject, err)
				}
			}
		})
	}
}

// TestManyAtOnce lets more deliveries run at once than may be in flight.
func TestManyAtOnce(t *testing.T) {
	f := start(t, nil)
	stream := f.stream(t, nil)
	s := open(t, f.address, nil)
	done := make(chan error)
	const deliveries, records = 8, maxInFlight
	for i := range deliveries {
		go func() {
			_, err := s.Deliver(t.Context(), batch(fmt.Sprint("u", i), records-2))
			done <- err
		}()
	}
	for range deliveries {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := count(t, stream); got != deliveries*records {
		t.Errorf("%d messages, want %d", got, deliveries*records)
	}
	if !s.inFlight.TryAcquire(maxInFlight) {
		t.Error("something is in flight for ever")
	}
}

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		stream func(*jetstream.StreamConfig) // nil: there is none
		server func(*server.Options)
		change func(*sink.Config)
		class  sink.Class
		reason sink.Reason
	}{
		"NoStream":   {class: sink.Incompatible, reason: sink.NotCompatible},
		"NoStorage":  {server: func(o *server.Options) { o.JetStream = false }, class: sink.Incompatible, reason: sink.NotCompatible},
		"StreamFull": {stream: func(c *jetstream.StreamConfig) { c.MaxBytes = 1 }, class: sink.Overload, reason: sink.Overloaded},
		"OtherStream": {
			stream: func(*jetstream.StreamConfig) {}, change: func(c *sink.Config) { c.Options["stream"] = "others" }, class: sink.Incompatible, reason: sink.NotCompatible,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, test.server)
			if test.stream != nil {
				f.stream(t, test.stream)
			}
			s := open(t, f.address, test.change)
			_, err := s.Deliver(t.Context(), batch("u", 10))
			if e := sink.AsError(err); err == nil || e.Class != test.class || e.Reason != test.reason {
				t.Errorf("got %v", err)
			}
			if !s.inFlight.TryAcquire(maxInFlight) {
				t.Error("something is in flight for ever")
			}
		})
	}
}

// TestFaultPartial lets a stream refuse one record of many for its size.
func TestFaultPartial(t *testing.T) {
	for name, test := range map[string]struct {
		stream  func(*jetstream.StreamConfig)
		options func(*server.Options)
	}{
		"Stream": {stream: func(c *jetstream.StreamConfig) { c.MaxMsgSize = 4096 }},
		"Server": {options: func(o *server.Options) { o.MaxPayload = 4096 }},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, test.options)
			stream := f.stream(t, test.stream)
			b := batch("u", 9)
			large := b.Records[4].Message
			large.GetResult().Description = strings.Repeat("x", 10_000)
			large.Digest = forwardingv1.Digest(large)
			outcome, err := open(t, f.address, nil).Deliver(t.Context(), b)
			if err != nil || len(outcome.Rejected) != 1 || outcome.Rejected[0].EventID != large.GetEventId() || outcome.Rejected[0].Reason != string(sink.TooLarge) {
				t.Errorf("got %+v, %v", outcome, err)
			}
			if got := count(t, stream); got != len(b.Records)-1 {
				t.Errorf("%d messages, want %d", got, len(b.Records)-1)
			}
		})
	}
}

// users are those of a server that asks who one is: one may do everything, one may only publish results, one nothing.
func users(o *server.Options) {
	none := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{">"}}}
	results := &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"scanyard.>"}}}
	o.Users = []*server.User{
		{Username: "admin", Password: "admin"}, {Username: "results", Password: "results", Permissions: results}, {Username: "none", Password: "none", Permissions: none},
	}
}

func TestAuthentication(t *testing.T) {
	f := start(t, users)
	f.stream(t, nil)
	known := trusttest.NewSecrets(sink.Material{Username: "results", Password: "wrong"})
	s := open(t, f.address, func(c *sink.Config) { c.Secrets = known })
	for _, material := range []sink.Material{{Username: "results", Password: "wrong"}, {}, {Token: "wrong"}} {
		known.Set(material)
		_, err := s.Deliver(t.Context(), batch("u", 1))
		if e := sink.AsError(err); err == nil || e.Class != sink.Auth || e.Reason != sink.TokenRejected {
			t.Errorf("got %v", err)
		}
	}
	known.Set(sink.Material{Username: "none", Password: "none"})
	for {
		_, err := s.Deliver(t.Context(), batch("u", 1))
		if err == nil || sink.AsError(err).Class != sink.Auth {
			t.Fatalf("who may publish nothing has published: %v", err)
		}
		if sink.AsError(err).Reason == sink.PermissionDenied {
			break // the secrets are read again once a second only
		}
	}
	known.Set(sink.Material{Username: "results", Password: "results"})
	for {
		_, err := s.Deliver(t.Context(), batch("u", 1))
		if err == nil {
			break
		}
		if sink.AsError(err).Class != sink.Auth {
			t.Fatal(err)
		}
	}
	// Who may only publish proves nothing, and publishes on.
	if v, err := s.Proof(t.Context(), receivertest.Scan("u")); err != nil || v.Proved {
		t.Errorf("got %+v, %v", v, err)
	}
	if outcome, err := s.Deliver(t.Context(), batch("u", 1)); err != nil || outcome.Duplicates != 3 {
		t.Errorf("got %+v, %v", outcome, err)
	}
}

// TestSecretsAreNowhere: the token is in no message of the stream.
func TestSecretsAreNowhere(t *testing.T) {
	f := start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin", Password: "admin"}, {Username: "results", Password: trusttest.Sesame}}
	})
	stream := f.stream(t, nil)
	s := open(t, f.address, func(c *sink.Config) {
		c.Secrets = trusttest.NewSecrets(sink.Material{Username: "results", Password: trusttest.Sesame})
	})
	if _, err := s.Deliver(t.Context(), batch("u", 3)); err != nil {
		t.Fatal(err)
	}
	for n := range count(t, stream) {
		message, err := stream.GetMsg(t.Context(), uint64(n+1))
		if err != nil {
			t.Fatal(err)
		}
		if traces := trusttest.Traces(fmt.Sprint(message.Subject, message.Header, string(message.Data))); len(traces) > 0 {
			t.Errorf("a secret is in a message: %v", traces)
		}
	}
}

func TestSecretsAreNotSentInPlainText(t *testing.T) {
	s := open(t, "hub.example.com", func(c *sink.Config) {
		c.Secrets = trusttest.NewSecrets(sink.Material{Token: "secret"})
		c.Dial = func(string, string) error { return errors.New("not to be dialled") }
	})
	if err := s.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "in plain text") {
		t.Errorf("got %v", err)
	}
}

// TestServerGoes stops the server, and starts another one in its place.
func TestServerGoes(t *testing.T) {
	directory := t.TempDir()
	first := start(t, func(o *server.Options) { o.StoreDir = directory })
	first.stream(t, nil)
	s := open(t, first.address, nil)
	if _, err := s.Deliver(t.Context(), batch("u", 1)); err != nil {
		t.Fatal(err)
	}
	port := first.server.Addr().(*net.TCPAddr).Port
	first.server.Shutdown()
	first.server.WaitForShutdown()
	if _, err := s.Deliver(t.Context(), batch("u", 5)); sink.AsError(err).Class != sink.Transport {
		t.Errorf("got %v", err)
	}
	second := start(t, func(o *server.Options) { o.StoreDir, o.Port = directory, port })
	if outcome, err := s.Deliver(t.Context(), batch("u", 5)); err != nil || outcome.Duplicates < 2 {
		t.Errorf("got %+v, %v", outcome, err)
	}
	stream, err := second.js.Stream(t.Context(), "results")
	if err != nil {
		t.Fatal(err)
	}
	if got := count(t, stream); got < 7 {
		t.Errorf("%d messages", got)
	}
}

// TestSilence is a server that takes messages and does not answer.
func TestSilence(t *testing.T) {
	f := start(t, nil)
	f.stream(t, func(c *jetstream.StreamConfig) { c.NoAck = true })
	s := open(t, f.address, func(c *sink.Config) { c.Timeout = 100 * time.Millisecond })
	for {
		_, err := s.Deliver(t.Context(), batch("u", 2))
		if err == nil || sink.AsError(err).Class != sink.Transport {
			t.Fatalf("got %v", err)
		}
		if strings.Contains(err.Error(), "has not acknowledged") { // a slow machine does not even connect in time
			break
		}
	}
}

func TestProof(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*jetstream.StreamConfig)
		want   bool
	}{
		"FilesAndDiscardNew": {want: true},
		"Memory":             {change: func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }},
		"DiscardOld":         {change: func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }},
		"NoAck":              {change: func(c *jetstream.StreamConfig) { c.NoAck = true }},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			f.stream(t, test.change)
			if v, err := open(t, f.address, nil).Proof(t.Context(), receivertest.Scan("u")); err != nil || v.Proved != test.want {
				t.Errorf("got %+v, %v", v, err)
			}
			s := open(t, f.address, func(c *sink.Config) { c.Options["provesStorage"] = "true" })
			if v, err := s.Proof(t.Context(), receivertest.Scan("u")); err != nil || !v.Proved {
				t.Errorf("whoever configures it says so: %+v, %v", v, err)
			}
		})
	}
	f := start(t, nil)
	if _, err := open(t, f.address, nil).Proof(t.Context(), receivertest.Scan("u")); sink.AsError(err).Class != sink.Incompatible {
		t.Errorf("no stream: %v", err)
	}
}

func TestTLSReasons(t *testing.T) {
	matrix := trusttest.Matrix{
		Probes: true,
		Start: func(t *testing.T, config *tls.Config) (string, func() int) {
			f := start(t, func(o *server.Options) {
				o.TLSConfig, o.TLS = config, config != nil
				o.TLSVerify = config != nil && config.ClientAuth == tls.RequireAndVerifyClientCert
			})
			stream := f.stream(t, nil)
			return f.address, func() int { return count(t, stream) }
		},
		Open: func(t *testing.T, address string, config sink.Config) sink.Sink {
			config.URL = &url.URL{Scheme: "tls", Host: address, Path: "/" + template}
			s, err := Open(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
		Deliver: func(t *testing.T, to sink.Sink) error {
			_, err := to.Deliver(t.Context(), batch("u", 1))
			return err
		},
	}
	matrix.Reasons(t)
}

// TestTLSFirst is a server that says nothing before TLS.
func TestTLSFirst(t *testing.T) {
	authority := trusttest.NewAuthority(t, "authority")
	pair := authority.Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, func(o *server.Options) {
		o.TLSConfig, o.TLS, o.TLSHandshakeFirst = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}, true, true
	})
	f.stream(t, nil)
	s := open(t, f.address, func(c *sink.Config) {
		c.URL.Scheme, c.Insecure, c.Secrets = "tls", false, trusttest.NewSecrets(sink.Material{Roots: authority.PEM})
	})
	if _, err := s.Deliver(t.Context(), batch("u", 1)); err != nil {
		t.Error(err)
	}
}

// TestNotNATS is a far end of another protocol.
func TestNotNATS(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "220 mail.example.com ESMTP\r\n")
		}
	}()
	for _, scheme := range []string{"nats", "tls"} {
		s := open(t, listener.Addr().String(), func(c *sink.Config) { c.URL.Scheme, c.Insecure = scheme, scheme == "nats" })
		if err := s.Probe(t.Context()); sink.AsError(err).Class != sink.Incompatible {
			t.Errorf("%s: got %v", scheme, err)
		}
	}
}

func TestSubjects(t *testing.T) {
	stream := &forwardingv1.StreamId{ClusterId: "a.b", Tenant: "*", Kind: forwardingv1.StreamKind_STREAM_KIND_DECISIONS}
	if got := subjectOf("x.{cluster}.{tenant}.{kind}", stream); got != "x.a%2Eb.%2A.decisions" {
		t.Errorf("got %s", got)
	}
	if a, b := token("a b"), token("a%20b"); a == b {
		t.Errorf("two names have one token: %s", a)
	}
	for path, want := range map[string]string{"": "must name a subject", "a..b": "none that can be", "a.>": "none that can be", "a.{name}": "none that can be", "a b": "none that can be"} {
		if _, err := Open(sink.Config{Name: "hub", URL: &url.URL{Scheme: "tls", Host: "h", Path: "/" + path}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", path, err)
		}
	}
}
