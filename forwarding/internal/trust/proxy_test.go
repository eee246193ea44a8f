// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/forwarding/sink"
)

const hub = "hub.example.com"

// farEnd is a server of HTTP that asks for a certificate.
func farEnd(t *testing.T, authority *trusttest.Authority, name string) string {
	t.Helper()
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(authority.PEM)
	far := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	far.TLS = &tls.Config{Certificates: []tls.Certificate{pairOf(t, authority, name)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	far.Config.ErrorLog = log.New(io.Discard, "", 0)
	far.StartTLS()
	t.Cleanup(far.Close)
	return far.Listener.Addr().String()
}

func pairOf(t *testing.T, authority *trusttest.Authority, name string) tls.Certificate {
	t.Helper()
	issued := authority.Issue(t, name, time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// get asks a URL and tells why there was no answer; nil: there was one.
func get(t *testing.T, known *trust.Client, url string) *sink.Error {
	t.Helper()
	sender := known.HTTP()
	defer sender.CloseIdleConnections()
	response, err := sender.Get(url)
	if err != nil {
		return known.Explain(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	return nil
}

// TestProxyLeadsToTheFarEnd: behind a proxy the same authority counts as without one, and the same certificate is shown.
func TestProxyLeadsToTheFarEnd(t *testing.T) {
	authority, other := trusttest.NewAuthority(t, "authority"), trusttest.NewAuthority(t, "other")
	good := time.Now().Add(time.Hour)
	client, stranger := authority.Issue(t, "sender", good), other.Issue(t, "sender", good)
	names := map[string]string{hub + ":443": farEnd(t, authority, hub)}
	right := sink.Material{Roots: authority.PEM, Certificate: client.Certificate, Key: client.Key}
	for kind, start := range map[string]func() *trusttest.Proxy{
		"HTTP":  func() *trusttest.Proxy { return trusttest.NewHTTPProxy(t, names, nil) },
		"SOCKS": func() *trusttest.Proxy { return trusttest.NewSOCKSProxy(t, names) },
	} {
		for name, c := range map[string]struct {
			material sink.Material
			password string
			want     sink.Reason
		}{
			"Right":             {right, trusttest.ProxyPassword, ""},
			"OtherAuthority":    {sink.Material{Roots: other.PEM, Certificate: client.Certificate, Key: client.Key}, trusttest.ProxyPassword, sink.UntrustedServer},
			"SystemRoots":       {sink.Material{Certificate: client.Certificate, Key: client.Key}, trusttest.ProxyPassword, sink.UntrustedServer},
			"NoCertificate":     {sink.Material{Roots: authority.PEM}, trusttest.ProxyPassword, sink.ClientCertificateMissing},
			"OthersCertificate": {sink.Material{Roots: authority.PEM, Certificate: stranger.Certificate, Key: stranger.Key}, trusttest.ProxyPassword, sink.ClientCertificateRejected},
			"WrongWord":         {right, "other", sink.ProxyFailed},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				proxy := start()
				through := proxy.URL()
				through.User = url.UserPassword(trusttest.ProxyUser, c.password)
				known := trust.New(trust.Config{Secrets: trusttest.NewSecrets(c.material), Now: time.Now, Proxy: http.ProxyURL(through)})
				e := get(t, known, "https://"+hub)
				var got sink.Reason
				if e != nil {
					got = e.Reason
				}
				if got != c.want {
					t.Errorf("got %+v, want %s", e, c.want)
				}
				if passed := len(proxy.Asked()) > 0; passed == (c.want == sink.ProxyFailed) {
					t.Errorf("the proxy was passed: %t", passed)
				}
			})
		}
	}
}

// TestProxyOfGRPC: calls by gRPC take the same way, with the same handshake at its end.
func TestProxyOfGRPC(t *testing.T) {
	authority := trusttest.NewAuthority(t, "authority")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pair := pairOf(t, authority, hub)
	server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	healthv1.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	names := map[string]string{hub + ":9443": listener.Addr().String()}
	for kind, proxy := range map[string]*trusttest.Proxy{"HTTP": trusttest.NewHTTPProxy(t, names, nil), "SOCKS": trusttest.NewSOCKSProxy(t, names)} {
		for name, c := range map[string]struct {
			password string
			reason   sink.Reason
		}{"Right": {trusttest.ProxyPassword, ""}, "WrongWord": {"other", sink.ProxyFailed}} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				through := proxy.URL()
				through.User = url.UserPassword(trusttest.ProxyUser, c.password)
				known := trust.New(trust.Config{Secrets: trusttest.NewSecrets(sink.Material{Roots: authority.PEM}), Now: time.Now, Proxy: http.ProxyURL(through)})
				conn, err := known.Conn(hub+":9443", "test", time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := conn.Close(); err != nil {
						t.Error(err)
					}
				}()
				_, err = healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
				if c.reason == "" {
					if err != nil || !slices.Equal(proxy.Asked(), []string{hub + ":9443"}) {
						t.Errorf("%v, the proxy was asked for %v", err, proxy.Asked())
					}
					return
				}
				if reason := known.Reason(); status.Code(err) != codes.Unavailable || reason == nil || reason.Reason != c.reason {
					t.Errorf("got %v, %+v", err, reason)
				}
			})
		}
	}
}

// onlyOutside forbids addresses of this machine and of its link, but for some networks, as internal/target does for the sinks of teams.
func onlyOutside(networks []netip.Prefix) sink.DialControl {
	return func(_, address string) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		ip := to.Addr().Unmap()
		allowed := slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(ip) })
		if !allowed && (ip.IsLoopback() || ip.IsLinkLocalUnicast()) {
			return fmt.Errorf("%s is forbidden", ip)
		}
		return nil
	}
}

// TestProxyIsNoWayAroundForbiddenAddresses: a sink that may not dial an address may not have a proxy dial it, by the address or by a name of it.
// What it may dial the proxy is asked for by its address, so that it cannot be another one by then; the proxy itself may have any.
func TestProxyIsNoWayAroundForbiddenAddresses(t *testing.T) {
	authority := trusttest.NewAuthority(t, "authority")
	client := authority.Issue(t, "sender", time.Now().Add(time.Hour))
	far := farEnd(t, authority, "localhost")
	_, port, err := net.SplitHostPort(far)
	if err != nil {
		t.Fatal(err)
	}
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for kind, start := range map[string]func() *trusttest.Proxy{
		"HTTP":  func() *trusttest.Proxy { return trusttest.NewHTTPProxy(t, nil, nil) },
		"SOCKS": func() *trusttest.Proxy { return trusttest.NewSOCKSProxy(t, nil) },
	} {
		for name, c := range map[string]struct {
			url      string
			networks []netip.Prefix
			want     sink.Reason
			asked    []string
		}{
			"Loopback":       {url: "https://127.0.0.1:" + port, want: sink.EndpointNotAllowed},
			"NameOfLoopback": {url: "https://localhost:" + port, want: sink.EndpointNotAllowed},
			"Metadata":       {url: "https://169.254.169.254", want: sink.EndpointNotAllowed},
			"Mapped":         {url: "https://[::ffff:169.254.169.254]", want: sink.EndpointNotAllowed},
			"PlainText":      {url: "http://127.0.0.1:" + port, want: sink.EndpointNotAllowed},
			"NoSuchName":     {url: "https://hub.invalid", want: sink.DNSFailed},
			"Allowed":        {url: "https://localhost:" + port, networks: loopback, asked: []string{"127.0.0.1:" + port}},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				proxy := start()
				known := trust.New(trust.Config{
					Secrets: trusttest.NewSecrets(sink.Material{Roots: authority.PEM, Certificate: client.Certificate, Key: client.Key}), Now: time.Now,
					Proxy: http.ProxyURL(proxy.URL()), Dial: onlyOutside(c.networks), Insecure: name == "PlainText",
				})
				e := get(t, known, c.url)
				var got sink.Reason
				if e != nil {
					got = e.Reason
				}
				if got != c.want || !slices.Equal(proxy.Asked(), c.asked) {
					t.Errorf("got %+v, want %s; the proxy was asked for %v, want %v", e, c.want, proxy.Asked(), c.asked)
				}
			})
		}
	}
}

// TestProxyThatIsNoURL: the password that is in it is told to nobody.
func TestProxyThatIsNoURL(t *testing.T) {
	known := trust.New(trust.Config{Now: time.Now, Proxy: func(*http.Request) (*url.URL, error) {
		return nil, errors.New("invalid proxy address http://me:the-word@proxy")
	}})
	if e := get(t, known, "https://"+hub); e == nil || e.Reason != sink.ProxyFailed || e.Message != "proxyconnect tcp: the URL of the proxy in the environment is not valid: write it such as https://proxy.example.com:3128" {
		t.Errorf("got %+v", e)
	}
}

// TestProxiesRepeatNoPassword: a proxy that refuses may repeat what it was asked with.
func TestProxiesRepeatNoPassword(t *testing.T) {
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		said := r.Header.Get("Proxy-Authorization")
		r.Header.Set("Authorization", said)
		_, password, _ := r.BasicAuth()
		_, err = fmt.Fprintf(conn, "HTTP/1.1 407 Not %s, which is %s\r\nContent-Length: 0\r\n\r\n", said, password)
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Error(err)
		}
	}))
	defer echo.Close()
	at := &url.URL{Scheme: "http", Host: echo.Listener.Addr().String(), User: url.UserPassword(trusttest.ProxyUser, trusttest.Sesame)}
	e := get(t, trust.New(trust.Config{Now: time.Now, Proxy: http.ProxyURL(at)}), "https://"+hub)
	if e == nil || e.Class != sink.Auth || e.Reason != sink.ProxyFailed || !strings.HasSuffix(e.Message, "it answers 407 Proxy Authentication Required") || len(trusttest.Traces(e.Message)) > 0 {
		t.Errorf("got %+v", e)
	}
}
