// SPDX-License-Identifier: Apache-2.0

package httpsink_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	httpsink "github.com/scanyard/scanyard/forwarding/internal/sinks/http"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// TestTLSReasons has a secret in the query of the URL, which no message may hold.
func TestTLSReasons(t *testing.T) {
	matrix := trusttest.Matrix{
		Start: func(t *testing.T, config *tls.Config) (string, func() int) {
			var taken atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { taken.Add(1) }))
			server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what is tested
			if config == nil {
				server.Start()
			} else {
				server.TLS = config
				server.StartTLS()
			}
			t.Cleanup(server.Close)
			return server.Listener.Addr().String(), func() int { return int(taken.Load()) }
		},
		Open: func(t *testing.T, address string, config sink.Config) sink.Sink {
			config.URL = &url.URL{Scheme: "https", Host: address, RawQuery: "key=secret-of-the-query"}
			s, err := httpsink.Open(config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		},
		Deliver: func(t *testing.T, to sink.Sink) error {
			_, err := to.Deliver(t.Context(), batch("1"))
			if err != nil && strings.Contains(err.Error(), "secret-of-the-query") {
				t.Errorf("the message holds a secret: %v", err)
			}
			return err
		},
	}
	matrix.Reasons(t)
}
