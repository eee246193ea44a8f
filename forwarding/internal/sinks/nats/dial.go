// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// connection is one connection and what the server said about it.
type connection struct {
	client *nats.Conn
	stream jetstream.JetStream
	closed chan struct{}
	// denied holds what the server forbade; it says that beside the answers to messages.
	denied chan *sink.Error
}

// open gives the connection, and makes one where there is none.
func (s *Sink) open(ctx context.Context) (*connection, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, s.explain(ctx.Err())
	}
	if s.conn != nil && s.conn.client.IsConnected() && len(s.conn.denied) == 0 {
		return s.conn, nil
	}
	if s.conn != nil {
		s.conn.client.Close()
		s.conn = nil
	}
	opened, err := s.connect(ctx)
	if err != nil && sink.AsError(err).Class == sink.Auth && s.trust.Refused(ctx) {
		opened, err = s.connect(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.conn = opened
	return opened, nil
}

// connect makes a connection with the present secrets.
func (s *Sink) connect(ctx context.Context) (*connection, error) {
	material, err := s.trust.Material(ctx)
	if err != nil {
		return nil, s.explain(err)
	}
	c := &connection{closed: make(chan struct{}), denied: make(chan *sink.Error, 1)}
	var stop func() bool
	dial := dialer(func(network, _ string) (net.Conn, error) {
		conn, err := s.dial(ctx, network)
		if err == nil {
			stop = context.AfterFunc(ctx, func() { _ = conn.Close() }) // whoever waits for it gets the error
		}
		return conn, err
	})
	options := []nats.Option{
		nats.Name("scanyard-forwarding"), nats.NoReconnect(), nats.SkipHostLookup(), nats.Timeout(s.timeout), nats.SetCustomDialer(dial),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				select {
				case c.denied <- s.explain(err):
				default: // one is enough
				}
			}
		}),
	}
	proofs, err := s.proofs(material)
	if err != nil {
		return nil, err
	}
	if c.client, err = nats.Connect("nats://"+s.address, append(options, proofs...)...); err == nil && stop != nil && !stop() {
		c.client.Close()
		err = ctx.Err()
	}
	if err != nil {
		return nil, s.explain(err)
	}
	if c.stream, err = jetstream.New(c.client); err != nil {
		c.client.Close()
		return nil, s.explain(err)
	}
	return c, nil
}

// proofs are what the sender proves itself by.
func (s *Sink) proofs(m sink.Material) ([]nats.Option, error) {
	if s.plain && !trust.IsLoopback(s.config.URL.Hostname()) && (m.Token != "" || m.Password != "") {
		return nil, &sink.Error{
			Class: sink.Auth, Reason: sink.SecretNotGranted, Message: "would send the token in plain text: use the scheme tls, or a credentials file",
		}
	}
	var options []nats.Option
	if creds := m.Further["creds"]; creds != "" {
		options = append(options, nats.UserCredentialBytes([]byte(creds.Reveal())))
	}
	if m.Token != "" {
		options = append(options, nats.Token(m.Token.Reveal()))
	}
	if m.Username != "" {
		options = append(options, nats.UserInfo(m.Username, m.Password.Reveal()))
	}
	return options, nil
}

// dialer is a function that nats.go dials with. The TLS is done when it returns.
type dialer func(network, address string) (net.Conn, error)

// Dial dials.
func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// SkipTLSHandshake is true.
func (dialer) SkipTLSHandshake() bool { return true }

// firstLine is how long a server may take to begin; one that wants TLS first says nothing.
const (
	firstLine    = time.Second
	maxFirstLine = 64 << 10
)

// dial connects. A server begins with a line in plain text, then comes TLS: the line is given to nats.go afterwards.
func (s *Sink) dial(ctx context.Context, network string) (net.Conn, error) {
	raw, err := s.trust.DialPlain(ctx, network, s.address)
	if err != nil || s.plain {
		return raw, err
	}
	line, err := greeting(raw, s.now().Add(firstLine))
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	conn, err := s.trust.Secure(ctx, raw, s.config.URL.Hostname())
	if err != nil {
		return nil, err
	}
	return &greeted{Conn: conn, first: line}, nil
}

// greeting reads the line that a server begins with; nil where it wants TLS first.
func greeting(raw net.Conn, until time.Time) ([]byte, error) {
	if err := raw.SetReadDeadline(until); err != nil {
		return nil, err
	}
	reader := bufio.NewReaderSize(raw, maxFirstLine)
	line, err := reader.ReadSlice('\n')
	if errors.Is(err, os.ErrDeadlineExceeded) && len(line) == 0 {
		return nil, raw.SetReadDeadline(time.Time{})
	}
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, trust.Classify(err)
	}
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	said, isInfo := bytes.CutPrefix(line, []byte("INFO "))
	switch {
	case !isInfo || json.Unmarshal(said, &info) != nil || reader.Buffered() > 0:
		return nil, &sink.Error{Class: sink.Incompatible, Reason: sink.NotCompatible, Message: "the far end does not speak the protocol of NATS on this port"}
	case !info.Required && !info.Available:
		return nil, &sink.Error{Class: sink.Auth, Reason: sink.TLSFailed, Message: "the far end does not speak TLS on this port"}
	}
	return line, raw.SetReadDeadline(time.Time{})
}

// greeted is a connection whose first line was read already.
type greeted struct {
	net.Conn

	first []byte
}

// Read gives the first line, and then what comes.
func (g *greeted) Read(to []byte) (int, error) {
	if len(g.first) > 0 {
		n := copy(to, g.first)
		g.first = g.first[n:]
		return n, nil
	}
	return g.Conn.Read(to)
}
