// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// TestTLSReasons has a timeout of minutes: what is told is told before it, or the test does not end.
func TestTLSReasons(t *testing.T) {
	matrix := trusttest.Matrix{
		Probes: true,
		Start: func(t *testing.T, config *tls.Config) (string, func() int) {
			if config == nil {
				return plainBroker(t), func() int { return 0 }
			}
			c := newCluster(t, kfake.TLS(config))
			return c.ListenAddrs()[0], func() int { return int(c.PartitionInfo("results", 0).HighWatermark) }
		},
		Open: func(t *testing.T, address string, config sink.Config) sink.Sink {
			return open(t, address, "results", func(c *sink.Config) {
				config.URL = &url.URL{Scheme: "kafka", Host: address, Path: "/results"}
				config.Timeout = patience
				*c = config
			})
		},
		Deliver: func(t *testing.T, to sink.Sink) error {
			_, err := to.Deliver(t.Context(), batch(1))
			return err
		},
	}
	matrix.Reasons(t)
}

// plainBroker does what a broker without TLS does with a greeting of TLS: it takes the first bytes for a size that is far too large, and hangs up.
// The one of the tests waits for so many bytes.
func plainBroker(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // accepting ends with it
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, 4)) // whoever it was, the connection ends
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}
