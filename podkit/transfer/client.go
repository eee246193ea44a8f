// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/scanyard/scanyard/podkit/redact"
	"github.com/scanyard/scanyard/podkit/retry"
)

// Defaults of a Client.
const (
	// DefaultPatience is how long faults are retried, counted from the last progress.
	DefaultPatience = 5 * time.Minute
	// DefaultIdleTimeout is how long a transfer may stand still before it counts as broken.
	DefaultIdleTimeout = time.Minute
	// DefaultHeaderTimeout is how long the store may take to respond to a complete request.
	DefaultHeaderTimeout = 2 * time.Minute

	defaultMinBackoff = 500 * time.Millisecond
	defaultMaxBackoff = 20 * time.Second
	ioBuffer          = 64 << 10
)

// Client downloads from and uploads to presigned URLs. It is safe for concurrent use.
type Client struct {
	http   *http.Client
	idle   time.Duration
	policy retry.Policy
}

// URL is a presigned URL, which never prints its query.
type URL = redact.URL

// settings collects options before the transport is built.
type settings struct {
	client        Client
	transport     http.RoundTripper
	extraCA       string
	headerTimeout time.Duration
}

// Option changes a default of New.
type Option func(*settings)

// WithExtraCA trusts the certificates in a PEM file beside the system's, as NODE_EXTRA_CA_CERTS asks for. An empty
// path changes nothing.
func WithExtraCA(path string) Option { return func(s *settings) { s.extraCA = path } }

// WithPatience sets how long faults are retried, counted from the last progress. 0 means a single attempt.
func WithPatience(d time.Duration) Option { return func(s *settings) { s.client.policy.Budget = d } }

// WithBackoff sets the first and the longest pause between attempts. Pauses double and are jittered by half.
func WithBackoff(shortest, longest time.Duration) Option {
	return func(s *settings) { s.client.policy.First, s.client.policy.Longest = shortest, longest }
}

// WithTimeouts sets how long a transfer may stand still, and how long the store may take to respond.
func WithTimeouts(idle, header time.Duration) Option {
	return func(s *settings) { s.client.idle, s.headerTimeout = idle, header }
}

// WithClock sets the source of time and how pauses are made. Sleep returns the context's error when the context ends
// first.
func WithClock(clock retry.Clock) Option { return func(s *settings) { s.client.policy.Clock = clock } }

// WithTransport replaces the whole HTTP transport; WithExtraCA and the header timeout have no effect then.
func WithTransport(rt http.RoundTripper) Option { return func(s *settings) { s.transport = rt } }

// WithRetryNotice calls a function before each pause, for logs. The error carries no query string.
func WithRetryNotice(notice func(err error, wait time.Duration)) Option {
	return func(s *settings) { s.client.policy.Notice = notice }
}

// New returns a Client. It fails only if the extra certificates cannot be read. Proxies are taken from the usual
// environment variables.
func New(options ...Option) (*Client, error) {
	s := settings{
		client: Client{
			idle:   DefaultIdleTimeout,
			policy: retry.Policy{First: defaultMinBackoff, Longest: defaultMaxBackoff, Budget: DefaultPatience},
		},
		headerTimeout: DefaultHeaderTimeout,
	}
	for _, o := range options {
		o(&s)
	}
	s.client.policy.Clock = s.client.policy.Clock.WithDefaults()
	if s.client.policy.Budget <= 0 {
		s.client.policy.Attempts = 1
	}
	if s.transport == nil {
		transport, err := newTransport(s.extraCA, s.headerTimeout)
		if err != nil {
			return nil, err
		}
		s.transport = transport
	}
	s.client.http = &http.Client{Transport: s.transport, CheckRedirect: checkRedirect}
	return &s.client, nil
}

func newTransport(extraCA string, headerTimeout time.Duration) (*http.Transport, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if extraCA != "" {
		pool, err := CertPool(extraCA)
		if err != nil {
			return nil, err
		}
		tlsConfig.RootCAs = pool
	}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   30 * time.Second,
		ResponseHeaderTimeout: headerTimeout,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
		// A stored object must not be decompressed on the way, so that sizes and ranges are in bytes of the object.
		DisableCompression: true,
		ReadBufferSize:     ioBuffer,
		WriteBufferSize:    ioBuffer,
	}, nil
}

// CertPool is the system's certificates and those in a PEM file, as NODE_EXTRA_CA_CERTS asks for.
func CertPool(path string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // an image may have no system certificates
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read extra CA certificates: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read extra CA certificates: no PEM certificate in %s", path)
	}
	return pool, nil
}

// checkRedirect follows the few redirects that object stores respond with, never from TLS to plain text.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 5 {
		return permanent{errors.New("too many redirects")}
	}
	if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return permanent{errors.New("redirect from https to http")}
	}
	req.Header.Del("Referer") // net/http puts the URL there, query and all
	return nil
}

// newLoop counts the attempts since the last progress.
func (c *Client) newLoop() *retry.Loop { return c.policy.BeginAtFailure() }

// wait pauses before another attempt, or returns the final error.
func wait(ctx context.Context, loop *retry.Loop, err error) error {
	if ctx.Err() == nil && !isRetryable(err) {
		return err
	}
	var asked time.Duration
	if status, ok := errors.AsType[*StatusError](err); ok {
		asked = status.RetryAfter
	}
	return loop.Wait(ctx, err, asked)
}
