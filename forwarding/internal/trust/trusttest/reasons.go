// SPDX-License-Identifier: Apache-2.0

package trusttest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scanyard/scanyard/forwarding/sink"
)

// Secrets are what a test replaces under a sink.
type Secrets struct {
	mutex    sync.Mutex
	material sink.Material
}

// NewSecrets gives secrets that hold something already.
func NewSecrets(material sink.Material) *Secrets { return &Secrets{material: material} }

// Read gives the secrets as they are now.
func (s *Secrets) Read(context.Context) (sink.Material, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.material, nil
}

// Set replaces the secrets.
func (s *Secrets) Set(material sink.Material) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.material = material
}

// Matrix is how a kind of sink is tried against far ends with TLS.
type Matrix struct {
	// Start starts a far end with TLS, or without where the configuration is nil. It gives host and port, and counts what the far end has taken.
	Start func(t *testing.T, config *tls.Config) (address string, taken func() int)
	// Open opens the sink; the configuration has what belongs to TLS.
	Open func(t *testing.T, address string, config sink.Config) sink.Sink
	// Probes is true where the sink finds out without a delivery.
	Probes bool
	// Deliver delivers something.
	Deliver func(t *testing.T, to sink.Sink) error
}

// setup is a far end and a sender.
type setup struct {
	server  Pair
	clients bool                   // the far end wants a certificate
	clock   func() time.Time       // of the far end
	tls12   bool                   // neither side has more than version 1.2
	plain   bool                   // the far end has no TLS
	change  func(m *sink.Material) // what the sender has otherwise than it should
	client  func(c *sink.Config)   // what the sender is told otherwise
	far     bool                   // what is wrong is at the far end
	want    sink.Reason
	text    string
}

// Reasons goes through what can be wrong with TLS: each mistake has its reason, nothing gets through, and what is mended goes on without a restart.
func (m Matrix) Reasons(t *testing.T) {
	authority, other := NewAuthority(t, "authority"), NewAuthority(t, "other")
	now := time.Now() //nolint:forbidigo // a test has the clock
	good, past, later := now.Add(time.Hour), now.Add(-time.Hour), func() time.Time { return now.Add(2 * time.Hour) }
	since := past.UTC().Format(time.RFC3339)
	server, client := authority.Issue(t, "127.0.0.1", good), authority.Issue(t, "sender", good)
	right := sink.Material{Roots: authority.PEM, Certificate: client.Certificate, Key: client.Key}
	shows := func(pair Pair) func(*sink.Material) {
		return func(m *sink.Material) { m.Certificate, m.Key = pair.Certificate, pair.Key }
	}
	named := authority.Issue(t, "hub.example.com", good)
	for name, s := range map[string]setup{
		"Server":                   {server: server, change: shows(Pair{})},
		"Both":                     {server: server, clients: true},
		"BothTLS12":                {server: server, clients: true, tls12: true},
		"OtherAuthority":           {server: server, change: func(m *sink.Material) { m.Roots = other.PEM }, want: sink.UntrustedServer},
		"SystemRoots":              {server: server, change: func(m *sink.Material) { m.Roots = nil }, want: sink.UntrustedServer},
		"OtherName":                {server: named, far: true, want: sink.ServerNameMismatch, text: "hub.example.com"},
		"ExpectedName":             {server: named, client: func(c *sink.Config) { c.ServerName = "hub.example.com" }},
		"ServerExpired":            {server: authority.Issue(t, "127.0.0.1", past), far: true, want: sink.ServerCertificateExpired, text: since},
		"ClientMissing":            {server: server, clients: true, change: shows(Pair{}), want: sink.ClientCertificateMissing},
		"ClientMissingTLS12":       {server: server, clients: true, change: shows(Pair{}), tls12: true, want: sink.ClientCertificateMissing},
		"ClientOfOther":            {server: server, clients: true, change: shows(other.Issue(t, "sender", good)), want: sink.ClientCertificateRejected},
		"ClientOfOtherTLS12":       {server: server, clients: true, change: shows(other.Issue(t, "sender", good)), tls12: true, want: sink.ClientCertificateRejected},
		"ClientExpired":            {server: server, clients: true, change: shows(authority.Issue(t, "sender", past)), want: sink.ClientCertificateExpired},
		"ClientExpiredThere":       {server: server, clients: true, clock: later, far: true, want: sink.ClientCertificateExpired},
		"PlainFarEnd":              {plain: true, far: true, want: sink.TLSFailed},
		"CertificateWithoutItsKey": {server: server, change: shows(Pair{Certificate: client.Certificate, Key: server.Key}), want: sink.SecretMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m.try(t, s, authority, right)
		})
	}
}

func (m Matrix) try(t *testing.T, s setup, authority *Authority, right sink.Material) {
	t.Helper()
	var config *tls.Config
	if !s.plain {
		config = serverConfig(t, s, authority)
	}
	address, taken := m.Start(t, config)
	material := right
	if s.change != nil {
		s.change(&material)
	}
	known := NewSecrets(material)
	given := sink.Config{Name: "hub", Secrets: known, Version: "1", ClusterID: "cluster-1", Options: map[string]string{}, Timeout: 10 * time.Second}
	given.TLS12 = s.tls12
	if s.client != nil {
		s.client(&given)
	}
	var ends certificates
	given.Expires = ends.note
	to := m.Open(t, address, given)
	e := m.delivered(t, to)
	if !s.plain { // some protocols end before a handshake then, and use no certificate
		ends.check(t, s, material)
	}
	if s.want == "" {
		if e != nil || taken() == 0 {
			t.Errorf("got %v with %d taken", e, taken())
		}
		return
	}
	if e == nil || e.Class != sink.Auth || e.Reason != s.want || !strings.Contains(e.Message, s.text) {
		t.Errorf("got %v, want %s", e, s.want)
	}
	if err := to.Probe(t.Context()); m.Probes && (err == nil || sink.AsError(err).Reason != s.want) {
		t.Errorf("the probe says %v, want %s", err, s.want)
	}
	if taken() > 0 {
		t.Errorf("%d records came through", taken())
	}
	if s.far {
		return
	}
	known.Set(right)
	for e := m.delivered(t, to); e != nil; e = m.delivered(t, to) {
		if e.Class != sink.Auth {
			t.Fatal(e)
		}
	}
}

// certificates note when those of handshakes end.
type certificates struct{ server, client atomic.Pointer[time.Time] }

func (c *certificates) note(which string, notAfter time.Time) {
	if which == "server" {
		c.server.Store(&notAfter)
		return
	}
	c.client.Store(&notAfter)
}

// check asks whether the end of each certificate that was shown is known, also of one that was refused.
func (c *certificates) check(t *testing.T, s setup, material sink.Material) {
	t.Helper()
	for which, pair := range map[string]struct {
		shown *time.Time
		pem   []byte
	}{"server": {c.server.Load(), s.server.Certificate}, "client": {c.client.Load(), material.Certificate}} {
		block, _ := pem.Decode(pair.pem)
		if block == nil {
			if pair.shown != nil {
				t.Errorf("there is no certificate of the %s, and it ends at %s", which, pair.shown)
			}
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		unseen := s.want == sink.SecretMissing || which == "server" && s.want == sink.ClientCertificateExpired // nothing was dialled
		if !unseen && (pair.shown == nil || !pair.shown.Equal(certificate.NotAfter)) {
			t.Errorf("the certificate of the %s ends at %v, want %s", which, pair.shown, certificate.NotAfter)
		}
	}
}

// delivered tries until there is an answer or another reason than a lost connection: a far end may cut the connection before its alert is read.
func (m Matrix) delivered(t *testing.T, to sink.Sink) *sink.Error {
	t.Helper()
	for {
		err := m.Deliver(t, to)
		if err == nil {
			return nil
		}
		if e := sink.AsError(err); e.Class != sink.Transport {
			return e
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

func serverConfig(t *testing.T, s setup, authority *Authority) *tls.Config {
	t.Helper()
	pair, err := tls.X509KeyPair(s.server.Certificate, s.server.Key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, Time: s.clock}
	if s.tls12 {
		config.MaxVersion = tls.VersionTLS12
	}
	if s.clients {
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		config.ClientCAs.AppendCertsFromPEM(authority.PEM)
	}
	return config
}
