// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"crypto/tls"
	"net/url"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// far is a far end with TLS whose files a test replaces.
type far struct {
	t         *testing.T
	directory string
	receiver  *receivertest.Receiver
}

func startTLS(t *testing.T, pair trusttest.Pair, clientCA []byte, now func() time.Time) *far {
	t.Helper()
	f := &far{t: t, directory: t.TempDir()}
	files := f.write(pair)
	if clientCA != nil {
		files.ClientCA = trusttest.Write(t, f.directory, "clients.crt", clientCA)
	}
	server, err := trust.NewServer(files, now)
	if err != nil {
		t.Fatal(err)
	}
	f.receiver = receivertest.Start(t, receivertest.Options{Receiver: receiver.Options{Credentials: server.Credentials()}})
	return f
}

func (f *far) write(pair trusttest.Pair) trust.ServerFiles {
	return trust.ServerFiles{
		Certificate: trusttest.Write(f.t, f.directory, "tls.crt", pair.Certificate), Key: trusttest.Write(f.t, f.directory, "tls.key", pair.Key),
	}
}

func encrypted(address string, known *secrets) sink.Config {
	return sink.Config{URL: &url.URL{Scheme: "grpcs", Host: address}, Secrets: known}
}

// delivered tries until a batch is through, and fails at an error of another class than Auth or Transport.
func delivered(t *testing.T, s sink.Sink, uid string) {
	t.Helper()
	id := receivertest.Scan(uid)
	for {
		_, err := s.Deliver(t.Context(), batch(id, receivertest.Records(id, 1)))
		if err == nil {
			return
		}
		if class := sink.AsError(err).Class; class != sink.Auth && class != sink.Transport {
			t.Fatal(err)
		}
	}
}

func TestTLSReasons(t *testing.T) {
	matrix := trusttest.Matrix{
		Probes: true,
		Start: func(t *testing.T, config *tls.Config) (string, func() int) {
			options := receivertest.Options{}
			if config != nil {
				options.Receiver.Credentials = credentials.NewTLS(config)
			}
			r := receivertest.Start(t, options)
			return r.Address, func() int { return int(r.Store.Counters().Stored) }
		},
		Open: func(t *testing.T, address string, config sink.Config) sink.Sink {
			config.URL = &url.URL{Scheme: "grpcs", Host: address}
			return open(t, config)
		},
		Deliver: func(t *testing.T, to sink.Sink) error {
			id := receivertest.Scan("u")
			_, err := to.Deliver(t.Context(), batch(id, receivertest.Records(id, 10)))
			return err
		},
	}
	matrix.Reasons(t)
}

// TestFaultRotation replaces token, client certificate, server certificate and authority under a sink.
func TestFaultRotation(t *testing.T) {
	authority, next := trusttest.NewAuthority(t, "authority"), trusttest.NewAuthority(t, "next")
	until := time.Now().Add(time.Hour)
	first := authority.Issue(t, "sender", until)
	f := startTLS(t, authority.Issue(t, "127.0.0.1", until), append(append([]byte{}, authority.PEM...), next.PEM...), time.Now)
	known := &secrets{material: sink.Material{Roots: authority.PEM, Certificate: first.Certificate, Key: first.Key}}
	fresh := func() sink.Sink { return open(t, encrypted(f.receiver.Address, known)) }
	lasting := fresh()
	sound := func(uid string) {
		t.Helper()
		id := receivertest.Scan(uid)
		for name, s := range map[string]sink.Sink{"lasting": lasting, "fresh": fresh()} {
			if _, err := s.Deliver(t.Context(), batch(id, receivertest.Records(id, 3))); err != nil {
				t.Errorf("%s %s: %v", uid, name, err)
			}
		}
	}
	sound("before")
	second := authority.Issue(t, "sender", until)
	known.set(func(m *sink.Material) { m.Certificate, m.Key = second.Certificate, second.Key })
	sound("client-certificate")
	f.write(authority.Issue(t, "127.0.0.1", until))
	sound("server-certificate")
	known.set(func(m *sink.Material) { m.Roots = append(append([]byte{}, authority.PEM...), next.PEM...) })
	f.write(next.Issue(t, "127.0.0.1", until))
	sound("overlap")
	// Without overlap the sink says what is wrong, and goes on when it is mended.
	strict := fresh()
	known.set(func(m *sink.Material) { m.Roots = trusttest.NewAuthority(t, "foreign").PEM })
	id := receivertest.Scan("strict")
	_, err := strict.Deliver(t.Context(), batch(id, receivertest.Records(id, 3)))
	for err == nil || sink.AsError(err).Reason != sink.UntrustedServer {
		if err != nil && sink.AsError(err).Class != sink.Transport && sink.AsError(err).Class != sink.Auth {
			t.Fatal(err)
		}
		strict = fresh()
		_, err = strict.Deliver(t.Context(), batch(id, receivertest.Records(id, 3)))
	}
	known.set(func(m *sink.Material) { m.Roots = next.PEM; m.Roots = append(m.Roots, authority.PEM...) })
	delivered(t, strict, "strict")
	if counters := f.receiver.Store.Counters(); counters.Rejected > 0 || counters.Conflicts > 0 {
		t.Errorf("got %+v", counters)
	}
}

// TestFaultOpenConnection lets the client's certificate end while its connection is open.
func TestFaultOpenConnection(t *testing.T) {
	authority := trusttest.NewAuthority(t, "authority")
	end := time.Now().Add(3 * time.Second)
	first := authority.Issue(t, "sender", end)
	f := startTLS(t, authority.Issue(t, "127.0.0.1", time.Now().Add(time.Hour)), authority.PEM, time.Now)
	known := &secrets{material: sink.Material{Roots: authority.PEM, Certificate: first.Certificate, Key: first.Key}}
	s := open(t, encrypted(f.receiver.Address, known))
	id := receivertest.Scan("u")
	records := receivertest.Records(id, 1)
	var err error
	for err == nil {
		if time.Now().After(end.Add(time.Minute)) {
			t.Fatal("the connection outlives its certificate")
		}
		_, err = s.Deliver(t.Context(), batch(id, records))
	}
	if time.Now().Before(end.Truncate(time.Second)) {
		t.Errorf("the connection ended before its certificate: %v", err)
	}
	if e := sink.AsError(err); e.Reason != sink.ClientCertificateExpired {
		t.Errorf("got %v", err)
	}
	second := authority.Issue(t, "sender", time.Now().Add(time.Hour))
	known.set(func(m *sink.Material) { m.Certificate, m.Key = second.Certificate, second.Key })
	delivered(t, s, "after")
}
