// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
)

// logs is a collector that counts records.
type logs struct {
	collectorv1.UnimplementedLogsServiceServer

	records atomic.Int64
}

// Export counts.
func (l *logs) Export(_ context.Context, request *collectorv1.ExportLogsServiceRequest) (*collectorv1.ExportLogsServiceResponse, error) {
	for _, resource := range request.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			l.records.Add(int64(len(scope.GetLogRecords())))
		}
	}
	return &collectorv1.ExportLogsServiceResponse{}, nil
}

// TestProxies has an exporter whose environment names a proxy send to far ends that only the proxy can find.
func TestProxies(t *testing.T) {
	const n, hub = 20, "hub.example.com"
	directory := t.TempDir()
	authority, ofProxy := trusttest.NewAuthority(t, "authority"), trusttest.NewAuthority(t, "of the proxy")
	good := time.Now().Add(time.Hour)
	issued := authority.Issue(t, hub, good)
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		t.Fatal(err)
	}
	server, err := trust.NewServer(trust.ServerFiles{
		Certificate: trusttest.Write(t, directory, "crt", issued.Certificate), Key: trusttest.Write(t, directory, "key", issued.Key),
	}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	ca := trusttest.Write(t, directory, "ca", authority.PEM)
	// Go reads these variables once in a process: they are for the exporter, which is another one.
	t.Setenv("SSL_CERT_FILE", trusttest.Write(t, directory, "proxy-ca", ofProxy.PEM))
	t.Setenv("NO_PROXY", "")
	own := ofProxy.Issue(t, "127.0.0.1", good)
	certificate, err := tls.X509KeyPair(own.Certificate, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]func(names map[string]string) *trusttest.Proxy{
		"HTTP":  func(names map[string]string) *trusttest.Proxy { return trusttest.NewHTTPProxy(t, names, nil) },
		"HTTPS": func(names map[string]string) *trusttest.Proxy { return trusttest.NewHTTPProxy(t, names, &certificate) },
		"SOCKS": func(names map[string]string) *trusttest.Proxy { return trusttest.NewSOCKSProxy(t, names) },
	} {
		t.Run(name, func(t *testing.T) {
			var posted atomic.Int64
			web := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				var events []json.RawMessage
				if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &events) != nil {
					t.Errorf("%s, %v", body, err)
				}
				posted.Add(int64(len(events)))
			}))
			web.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
			web.StartTLS()
			defer web.Close()
			far := receivertest.Start(t, receivertest.Options{Receiver: receiver.Options{Credentials: server.Credentials()}})
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			collector, taken := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&pair))), &logs{}
			collectorv1.RegisterLogsServiceServer(collector, taken)
			served := make(chan error, 1)
			go func() { served <- collector.Serve(listener) }()
			defer func() {
				collector.Stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			}()
			proxy := start(map[string]string{
				hub + ":443": web.Listener.Addr().String(), hub + ":9443": far.Address, hub + ":4317": listener.Addr().String(),
			})
			t.Setenv("HTTPS_PROXY", proxy.URL().String())
			dir := t.TempDir()
			p := place{dir: filepath.Join(dir, "q"), socket: filepath.Join(dir, "s", "e.sock")}
			r := p.start(t, "--sink", "web=https://"+hub+",ca="+ca, "--sink", "hub=grpcs://"+hub+":9443,ca="+ca, "--sink", "logs=otlp://"+hub+":4317,ca="+ca)
			send(t, p, n)
			r.waitFor(t, "all is delivered", isEmpty)
			if posted.Load() < n || far.Store.Counters().Stored != n || taken.records.Load() < n {
				t.Errorf("of %d records %d came by HTTP, %d by gRPC, %d by OTLP", n, posted.Load(), far.Store.Counters().Stored, taken.records.Load())
			}
			if asked := proxy.Asked(); !slices.Equal(asked, []string{hub + ":4317", hub + ":443", hub + ":9443"}) {
				t.Errorf("the proxy was asked for %v", asked)
			}
			if text := r.log.String() + r.metrics(t); strings.Contains(text, trusttest.ProxyPassword) {
				t.Errorf("the password of the proxy is told: %s", text)
			}
		})
	}
}
