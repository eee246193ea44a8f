// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// closed is an address where nobody listens.
func closed(t *testing.T, network, host string) string {
	t.Helper()
	listener, err := net.Listen(network, net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// TestFaultStages: the reason of a connection that fails names the stage at which it failed.
func TestFaultStages(t *testing.T) {
	proxy := func(status int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	const far = "https://hub.example.com"
	for name, c := range map[string]struct {
		url, proxy string
		class      sink.Class
		reason     sink.Reason
		message    string
	}{
		"NoSuchName":    {"http://hub.invalid", "", sink.Transport, sink.DNSFailed, "hub.invalid"},
		"NobodyListens": {"http://" + closed(t, "tcp4", "127.0.0.1"), "", sink.Transport, sink.ConnectionRefused, "refused"},
		"ProxyIsDown":   {far, closed(t, "tcp4", "127.0.0.1"), sink.Transport, sink.ProxyFailed, "proxyconnect"},
		"ProxyRefuses":  {far, proxy(http.StatusForbidden), sink.Auth, sink.ProxyFailed, "403 Forbidden"},
		"ProxyAsksWho":  {far, proxy(http.StatusProxyAuthRequired), sink.Auth, sink.ProxyFailed, "407"},
		"ProxyCannot":   {far, proxy(http.StatusBadGateway), sink.Transport, sink.ProxyFailed, "502 Bad Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			config := trust.Config{Now: time.Now, Insecure: strings.HasPrefix(c.url, "http:")}
			if c.proxy != "" {
				config.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: c.proxy})
			}
			known := trust.New(config)
			response, err := known.HTTP().Get(c.url)
			if err == nil {
				t.Fatal(response.Status, response.Body.Close())
			}
			if e := known.Explain(err); e.Class != c.class || e.Reason != c.reason || !strings.Contains(e.Message, c.message) {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// TestFaultStagesIPv6: a far end that has IPv6 only is reached, and whoever asks it by IPv4 is told so.
func TestFaultStagesIPv6(t *testing.T) {
	listener, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Fatal("this machine has no IPv6: ", err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.NotFoundHandler()}}
	server.Start()
	defer server.Close()
	known := trust.New(trust.Config{Now: time.Now, Insecure: true})
	response, err := known.HTTP().Get("http://" + listener.Addr().String())
	if err != nil {
		t.Fatal(known.Explain(err))
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	response, err = known.HTTP().Get("http://127.0.0.1:" + port)
	if err == nil {
		t.Fatal(response.Status, response.Body.Close())
	}
	if e := known.Explain(err); e.Class != sink.Transport || e.Reason != sink.ConnectionRefused {
		t.Errorf("got %+v", e)
	}
}
