// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/scanyard/scanyard/registry/internal/egress"
)

const (
	// maxIdle are the connections to a host that a client keeps: the dialer has 16 for all clients.
	maxIdle        = 4
	maxConnections = 16
	maxHeader      = 256 << 10
	maxErrorBody   = 64 << 10
	handshake      = 10 * time.Second
	idle           = 30 * time.Second
	userAgent      = "scanyard-registry"
)

// Pace is how long a registry may take.
type Pace struct {
	// FirstByte is the time to the head of an answer.
	FirstByte time.Duration
	// In each Window an answer brings at least MinBytes, or its end.
	Window   time.Duration
	MinBytes int64
}

// DefaultPace is 30 s to the first byte, then 1 kB/s over 60 s.
func DefaultPace() Pace {
	return Pace{FirstByte: 30 * time.Second, Window: time.Minute, MinBytes: 60_000}
}

// transports are the ways to hosts: what is said of certificates of the registry's host holds for no other host.
type transports struct {
	base        *url.URL
	own, others *http.Transport
	rules       egress.Rules
	pace        Pace
	observe     func(method string, status int)
}

func newTransports(o Options, base *url.URL) (*transports, error) {
	roots, err := trusted(o)
	if err != nil {
		return nil, err
	}
	way := func(skip bool) *http.Transport {
		return &http.Transport{
			DialContext: o.Dialer.DialContext, Proxy: o.Proxy, ForceAttemptHTTP2: true, DisableCompression: true, MaxConnsPerHost: maxConnections,
			MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idle, TLSHandshakeTimeout: handshake, ResponseHeaderTimeout: o.Pace.FirstByte,
			MaxResponseHeaderBytes: maxHeader,
			TLSClientConfig: &tls.Config{
				RootCAs: roots, MinVersion: tls.VersionTLS12,
				InsecureSkipVerify: skip, //nolint:gosec // insecure: SkipVerify of the Registry asks for this, for its own host
			},
		}
	}
	return &transports{base: base, own: way(o.SkipVerify), others: way(false), rules: o.Dialer.Rules(), pace: o.Pace, observe: o.Observe}, nil
}

// trusted adds the certificates of a Registry to those of the system.
func trusted(o Options) (*x509.CertPool, error) {
	if len(o.CABundle) == 0 {
		return o.Roots, nil
	}
	pool, err := x509.SystemCertPool()
	if o.Roots != nil {
		pool, err = o.Roots.Clone(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificates of the system: %w", err)
	}
	if !pool.AppendCertsFromPEM(o.CABundle) {
		return nil, errors.New("caBundle holds no certificate that can be read")
	}
	return pool, nil
}

func (t *transports) close() {
	t.own.CloseIdleConnections()
	t.others.CloseIdleConnections()
}

// exchange is one request and its answer, redirects included.
type exchange struct {
	method string
	url    *url.URL
	header http.Header
	body   string
	// limit is how much of a good answer is read.
	limit int64
	// stream: a good answer is not read but handed on.
	stream bool
}

// answer is the end of the redirects.
type answer struct {
	status int
	header http.Header
	body   []byte
	// away: a redirect led to another host.
	away bool
	// stream is the body where it was asked for as a stream. It is closed by who gets it.
	stream io.ReadCloser
	bytes  int64
}

// do follows redirects. Authorization and body go to the first host only.
func (t *transports) do(ctx context.Context, e exchange) (answer, error) {
	for hop, at := 1, e.url; ; hop++ {
		a, err := t.hop(ctx, e, at)
		if err != nil {
			return answer{}, err
		}
		location := a.header.Get("Location")
		if !isRedirect(a.status) || location == "" || e.method == http.MethodPost {
			return a, nil
		}
		next, err := at.Parse(location)
		if err != nil {
			return answer{}, errors.New("a redirect leads to what is not an address")
		}
		if err := t.rules.Redirect(at, next, hop); err != nil {
			return answer{}, err
		}
		at = next
	}
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func (t *transports) hop(ctx context.Context, e exchange, at *url.URL) (answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	streamed := false
	defer func() {
		if !streamed {
			cancel(nil)
		}
	}()
	home := at.Scheme == e.url.Scheme && strings.EqualFold(at.Host, e.url.Host)
	if !home {
		ctx = egress.Hop(ctx, e.url.Hostname())
	}
	request, err := http.NewRequestWithContext(ctx, e.method, at.String(), strings.NewReader(e.body))
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	request.Header = e.header.Clone()
	request.Header.Set("User-Agent", userAgent)
	if !home {
		request.Header.Del("Authorization")
	}
	transport := t.others
	if at.Host == t.base.Host {
		transport = t.own
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.observe(e.method, 0)
		return answer{}, err
	}
	t.observe(e.method, response.StatusCode)
	if streamed = e.stream && response.StatusCode == http.StatusOK; streamed {
		a := answer{status: response.StatusCode, header: response.Header, away: !home, bytes: response.ContentLength}
		a.stream = t.paced(ctx, response.Body, cancel)
		return a, nil
	}
	defer response.Body.Close()
	limit := e.limit
	if response.StatusCode >= http.StatusMultipleChoices {
		limit = maxErrorBody
	}
	body, err := t.read(response.Body, limit, cancel)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return answer{}, fmt.Errorf("read answer: %w", err)
	}
	return answer{status: response.StatusCode, header: response.Header, body: body, away: !home}, nil
}

// read takes a body up to a limit, and gives the request up where the body comes too slowly.
func (t *transports) read(body io.Reader, limit int64, giveUp context.CancelCauseFunc) ([]byte, error) {
	guard := t.guard(giveUp)
	defer guard.timer.Stop()
	var buffer bytes.Buffer
	_, err := io.Copy(&buffer, io.TeeReader(io.LimitReader(body, limit), counter{&guard.total}))
	return buffer.Bytes(), err
}

// guard gives a request up where its body comes too slowly.
type guard struct {
	total atomic.Int64
	timer *time.Timer
}

func (t *transports) guard(giveUp context.CancelCauseFunc) *guard {
	g := &guard{}
	seen := int64(0)
	started := make(chan struct{})
	g.timer = time.AfterFunc(t.pace.Window, func() {
		<-started
		now := g.total.Load()
		if now-seen < t.pace.MinBytes {
			giveUp(errTrickle)
			return
		}
		seen = now
		g.timer.Reset(t.pace.Window)
	})
	close(started)
	return g
}

// stream is the body of an answer that is read by somebody else.
type stream struct {
	body  io.ReadCloser
	guard *guard
	cause func() error
	end   context.CancelCauseFunc
}

func (t *transports) paced(ctx context.Context, body io.ReadCloser, end context.CancelCauseFunc) io.ReadCloser {
	return &stream{body: body, guard: t.guard(end), cause: func() error { return context.Cause(ctx) }, end: end}
}

// Read takes what has come, and counts.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	s.guard.total.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := s.cause(); cause != nil {
			err = cause
		}
		err = classify(err)
	}
	return n, err
}

// Close ends the request.
func (s *stream) Close() error {
	s.guard.timer.Stop()
	err := s.body.Close()
	s.end(nil)
	return err
}

// counter counts what goes by.
type counter struct{ total *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.total.Add(int64(len(p)))
	return len(p), nil
}
