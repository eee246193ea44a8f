// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
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
	authority, other := trusttest.NewAuthority(t, "authority"), trusttest.NewAuthority(t, "other")
	good, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	server := authority.Issue(t, "127.0.0.1", good)
	client := authority.Issue(t, "sender", good)
	trusted := func(pair trusttest.Pair) sink.Material {
		return sink.Material{Roots: authority.PEM, Certificate: pair.Certificate, Key: pair.Key}
	}
	later := func() time.Time { return time.Now().Add(2 * time.Hour) }
	for name, test := range map[string]struct {
		server   trusttest.Pair
		clientCA []byte
		clock    func() time.Time // of the far end
		material sink.Material
		name     string
		tls12    bool
		plain    bool // the far end has no TLS
		want     sink.Reason
		text     string
	}{
		"Server":                   {server: server, material: trusted(trusttest.Pair{})},
		"Both":                     {server: server, clientCA: authority.PEM, material: trusted(client)},
		"BothTLS12":                {server: server, clientCA: authority.PEM, material: trusted(client), tls12: true},
		"OtherAuthority":           {server: server, material: sink.Material{Roots: other.PEM}, want: sink.UntrustedServer},
		"SystemRoots":              {server: server, want: sink.UntrustedServer},
		"OtherName":                {server: authority.Issue(t, "hub.example.com", good), material: trusted(trusttest.Pair{}), want: sink.ServerNameMismatch, text: "hub.example.com"},
		"ExpectedName":             {server: authority.Issue(t, "hub.example.com", good), material: trusted(trusttest.Pair{}), name: "hub.example.com"},
		"ServerExpired":            {server: authority.Issue(t, "127.0.0.1", past), material: trusted(trusttest.Pair{}), want: sink.ServerCertificateExpired, text: past.UTC().Format(time.RFC3339)},
		"ClientMissing":            {server: server, clientCA: authority.PEM, material: trusted(trusttest.Pair{}), want: sink.ClientCertificateMissing},
		"ClientMissingTLS12":       {server: server, clientCA: authority.PEM, material: trusted(trusttest.Pair{}), tls12: true, want: sink.ClientCertificateMissing},
		"ClientOfOther":            {server: server, clientCA: authority.PEM, material: trusted(other.Issue(t, "sender", good)), want: sink.ClientCertificateRejected},
		"ClientOfOtherTLS12":       {server: server, clientCA: authority.PEM, material: trusted(other.Issue(t, "sender", good)), tls12: true, want: sink.ClientCertificateRejected},
		"ClientExpired":            {server: server, clientCA: authority.PEM, material: trusted(authority.Issue(t, "sender", past)), want: sink.ClientCertificateExpired},
		"ClientExpiredThere":       {server: server, clientCA: authority.PEM, clock: later, material: trusted(client), want: sink.ClientCertificateExpired},
		"PlainFarEnd":              {plain: true, material: trusted(trusttest.Pair{}), want: sink.TLSFailed},
		"CertificateWithoutItsKey": {server: server, material: trusted(trusttest.Pair{Certificate: client.Certificate, Key: server.Key}), want: sink.SecretMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := test.clock
			if clock == nil {
				clock = time.Now
			}
			var r *receivertest.Receiver
			if test.plain {
				r = receivertest.Start(t, receivertest.Options{})
			} else {
				r = startTLS(t, test.server, test.clientCA, clock).receiver
			}
			known := &secrets{material: test.material}
			config := encrypted(r.Address, known)
			config.ServerName, config.TLS12 = test.name, test.tls12
			s := open(t, config)
			id := receivertest.Scan("u")
			records := receivertest.Records(id, 10)
			_, err := s.Deliver(t.Context(), batch(id, records))
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if e := sink.AsError(err); err == nil || e.Class != sink.Auth || e.Reason != test.want || !strings.Contains(e.Message, test.text) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if e := sink.AsError(s.Probe(t.Context())); e.Class != sink.Auth || e.Reason != test.want {
				t.Errorf("the probe says %v, want %s", e, test.want)
			}
			if got := r.Store.Counters(); got != (store.Counters{}) {
				t.Errorf("records came through: %+v", got)
			}
			if test.plain || test.clock != nil || strings.HasPrefix(name, "ServerExpired") || name == "OtherName" {
				return // what is wrong is at the far end
			}
			known.set(func(m *sink.Material) { *m = trusted(client) })
			delivered(t, s, "u")
		})
	}
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
