// SPDX-License-Identifier: Apache-2.0

package s3fault

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
)

// Proxy is a running fault proxy.
type Proxy struct {
	server  *httptest.Server
	failing atomic.Bool
	refused atomic.Int64
	passed  atomic.Int64
}

// Start runs a proxy in front of an S3 endpoint (host:port).
func Start(endpoint string) (*Proxy, error) {
	target, err := url.Parse("http://" + endpoint)
	if err != nil || target.Host == "" {
		return nil, fmt.Errorf("start S3 fault proxy: %q is not host:port (%w)", endpoint, err)
	}
	p := &Proxy{}
	through := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.Host = r.In.Host
		},
		FlushInterval: -1,
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.failing.Load() {
			p.passed.Add(1)
			through.ServeHTTP(w, r)
			return
		}
		p.refused.Add(1)
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusServiceUnavailable)
		if r.Method != http.MethodHead {
			// A client that hung up does not need the body.
			_, _ = w.Write([]byte(`<?xml version="1.0" encoding="UTF-8"?><Error><Code>ServiceUnavailable</Code><Message>switched off by a test</Message></Error>`))
		}
	}))
	return p, nil
}

// Endpoint is the proxy's host:port, to be used in place of the store's.
func (p *Proxy) Endpoint() string { return strings.TrimPrefix(p.server.URL, "http://") }

// Fail switches the fault on or off.
func (p *Proxy) Fail(on bool) { p.failing.Store(on) }

// Refused counts the requests that were answered with 503.
func (p *Proxy) Refused() int64 { return p.refused.Load() }

// Passed counts the requests that went through.
func (p *Proxy) Passed() int64 { return p.passed.Load() }

// Close stops the proxy; it waits for requests under way.
func (p *Proxy) Close() { p.server.Close() }
