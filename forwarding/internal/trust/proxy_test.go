// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// tunnels is a proxy that lets those through who say the word, and leads all of them to one address.
func tunnels(t *testing.T, to string) (proxy string, through *atomic.Int64) {
	t.Helper()
	through = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", r.Header.Get("Proxy-Authorization"))
		if user, word, _ := r.BasicAuth(); r.Method != http.MethodConnect || r.Host != "hub.example.com:443" || user != "me" || word != "word" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		near, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		through.Add(1)
		if _, err := near.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
			t.Error(err)
		}
		go func() {
			_, _ = io.Copy(far, near) // either side may end it
			_ = far.Close()
		}()
		_, _ = io.Copy(near, far)
		_ = near.Close()
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), through
}

// TestProxyLeadsToTheFarEnd: behind a proxy the same authority counts as without one, and the same certificate is shown.
func TestProxyLeadsToTheFarEnd(t *testing.T) {
	authority, other := trusttest.NewAuthority(t, "authority"), trusttest.NewAuthority(t, "other")
	good := time.Now().Add(time.Hour)
	named, client, stranger := authority.Issue(t, "hub.example.com", good), authority.Issue(t, "sender", good), other.Issue(t, "sender", good)
	pair, err := tls.X509KeyPair(named.Certificate, named.Key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority.PEM)
	far := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	far.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	far.Config.ErrorLog = log.New(io.Discard, "", 0)
	far.StartTLS()
	defer far.Close()
	proxy, through := tunnels(t, far.Listener.Addr().String())
	for name, c := range map[string]struct {
		material sink.Material
		user     *url.Userinfo
		want     sink.Reason
	}{
		"Right":             {sink.Material{Roots: authority.PEM, Certificate: client.Certificate, Key: client.Key}, url.UserPassword("me", "word"), ""},
		"OtherAuthority":    {sink.Material{Roots: other.PEM, Certificate: client.Certificate, Key: client.Key}, url.UserPassword("me", "word"), sink.UntrustedServer},
		"SystemRoots":       {sink.Material{Certificate: client.Certificate, Key: client.Key}, url.UserPassword("me", "word"), sink.UntrustedServer},
		"NoCertificate":     {sink.Material{Roots: authority.PEM}, url.UserPassword("me", "word"), sink.ClientCertificateMissing},
		"OthersCertificate": {sink.Material{Roots: authority.PEM, Certificate: stranger.Certificate, Key: stranger.Key}, url.UserPassword("me", "word"), sink.ClientCertificateRejected},
		"WrongWord":         {sink.Material{Roots: authority.PEM, Certificate: client.Certificate, Key: client.Key}, url.UserPassword("me", "other"), sink.ProxyFailed},
	} {
		t.Run(name, func(t *testing.T) {
			known := trust.New(trust.Config{
				Secrets: trusttest.NewSecrets(c.material), Now: time.Now, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy, User: c.user}),
			})
			before := through.Load()
			sender := known.HTTP()
			defer sender.CloseIdleConnections()
			response, err := sender.Get("https://hub.example.com")
			if err == nil {
				if err := response.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			if tunnelled := through.Load() > before; tunnelled == (c.want == sink.ProxyFailed) {
				t.Errorf("the proxy was passed: %t", tunnelled)
			}
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal(response.Status)
			}
			if e := known.Explain(err); e.Class != sink.Auth || e.Reason != c.want {
				t.Errorf("got %+v, want %s", e, c.want)
			}
		})
	}
}
