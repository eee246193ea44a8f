// SPDX-License-Identifier: Apache-2.0

package httpsink_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	httpsink "github.com/scanyard/scanyard/forwarding/internal/sinks/http"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// secrets are what a test replaces under a sink.
type secrets struct {
	mutex    sync.Mutex
	material sink.Material
}

func (s *secrets) Read(context.Context) (sink.Material, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.material, nil
}

func (s *secrets) set(material sink.Material) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.material = material
}

// delivered tries until the far end has taken a batch or the sink names a reason other than a lost connection:
// a far end with TLS 1.3 may cut the connection before its alert is read.
func delivered(t *testing.T, s sink.Sink) *sink.Error {
	t.Helper()
	for {
		_, err := s.Deliver(t.Context(), batch("1"))
		if err == nil {
			return nil
		}
		if e := sink.AsError(err); e.Class != sink.Transport {
			return e
		}
	}
}

func TestTLSReasons(t *testing.T) {
	authority, other := trusttest.NewAuthority(t, "authority"), trusttest.NewAuthority(t, "other")
	good, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	server, client := authority.Issue(t, "127.0.0.1", good), authority.Issue(t, "sender", good)
	trusted := func(pair trusttest.Pair) sink.Material {
		return sink.Material{Roots: authority.PEM, Certificate: pair.Certificate, Key: pair.Key}
	}
	for name, test := range map[string]struct {
		server   trusttest.Pair
		clients  bool // the far end wants a certificate
		plain    bool // the far end has no TLS
		material sink.Material
		want     sink.Reason
	}{
		"Server":         {server: server, material: trusted(trusttest.Pair{})},
		"Both":           {server: server, clients: true, material: trusted(client)},
		"OtherAuthority": {server: server, material: sink.Material{Roots: other.PEM}, want: sink.UntrustedServer},
		"OtherName":      {server: authority.Issue(t, "hub.example.com", good), material: trusted(trusttest.Pair{}), want: sink.ServerNameMismatch},
		"ServerExpired":  {server: authority.Issue(t, "127.0.0.1", past), material: trusted(trusttest.Pair{}), want: sink.ServerCertificateExpired},
		"ClientMissing":  {server: server, clients: true, material: trusted(trusttest.Pair{}), want: sink.ClientCertificateMissing},
		"ClientOfOther":  {server: server, clients: true, material: trusted(other.Issue(t, "sender", good)), want: sink.ClientCertificateRejected},
		"ClientExpired":  {server: server, clients: true, material: trusted(authority.Issue(t, "sender", past)), want: sink.ClientCertificateExpired},
		"PlainFarEnd":    {plain: true, material: trusted(client), want: sink.TLSFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := &secrets{material: test.material}
			s, err := httpsink.Open(sink.Config{Name: "hub", URL: farEnd(t, test.server, authority.PEM, test.clients, test.plain), Version: "1", Secrets: known})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			e := delivered(t, s)
			if test.want == "" {
				if e != nil {
					t.Fatal(e)
				}
				return
			}
			if e == nil || e.Class != sink.Auth || e.Reason != test.want || strings.Contains(e.Message, "secret-of-the-query") {
				t.Fatalf("got %v, want %s", e, test.want)
			}
			if name == "OtherName" || name == "ServerExpired" || test.plain {
				return // what is wrong is at the far end
			}
			known.set(trusted(client))
			for e := delivered(t, s); e != nil; e = delivered(t, s) {
				if e.Class != sink.Auth {
					t.Fatal(e)
				}
			}
		})
	}
}

// farEnd starts a server with TLS and gives its address, whose query holds a secret.
func farEnd(t *testing.T, pair trusttest.Pair, clientCA []byte, clients, plain bool) *url.URL {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what is tested
	if plain {
		server.Start()
	} else {
		certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
		if clients {
			server.TLS.ClientCAs, server.TLS.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
			server.TLS.ClientCAs.AppendCertsFromPEM(clientCA)
		}
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	return &url.URL{Scheme: "https", Host: server.Listener.Addr().String(), RawQuery: "key=secret-of-the-query"}
}
