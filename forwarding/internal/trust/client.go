// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/scanyard/scanyard/forwarding/sink"
)

// Config says whom a sender trusts and what it proves itself by.
type Config struct {
	Secrets sink.Secrets
	// ServerName is the name to expect; empty: the host that is dialled.
	ServerName string
	// TLS12 allows version 1.2.
	TLS12 bool
	// Insecure is plain text.
	Insecure bool
	// NextProtos are the protocols to offer above TLS.
	NextProtos []string
	// Dial forbids addresses, also those that a proxy would be asked for; nil: none. The proxy itself may have any.
	Dial sink.DialControl
	// Expires is told when the certificates of a handshake end; nil: nobody asks.
	Expires func(which string, notAfter time.Time)
	// Proxy gives the proxy of a request of HTTP; nil: the environment's.
	Proxy func(*http.Request) (*url.URL, error)
	Now   func() time.Time
}

// Client makes the connections of one sink and keeps why the last one failed.
type Client struct {
	config Config

	mutex    sync.Mutex
	material sink.Material
	read     time.Time
	known    bool
	stale    bool
	reason   *sink.Error
	unread   *sink.Error
}

const (
	// materialAge is how old secrets may be when they are used.
	materialAge = 10 * time.Second
	// firstBytes is how long a handshake waits for the far end to refuse, or to begin.
	firstBytes = time.Second
)

// New makes a Client.
func New(config Config) *Client {
	if config.Expires == nil {
		config.Expires = func(string, time.Time) {}
	}
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment
	}
	return &Client{config: config}
}

// Material gives the secrets, which are read again every 10 seconds and after a refusal, not more than once a second.
func (c *Client) Material(ctx context.Context) (sink.Material, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	age := c.config.Now().Sub(c.read)
	if c.known && age < materialAge && (!c.stale || age < rereadAfter) {
		return c.material, nil
	}
	return c.readLocked(ctx)
}

func (c *Client) readLocked(ctx context.Context) (sink.Material, error) {
	if c.config.Secrets == nil {
		return sink.Material{}, nil
	}
	material, err := c.config.Secrets.Read(ctx)
	if err != nil {
		c.unread = auth(sink.SecretMissing, "%v", err)
		if known, ok := errors.AsType[*sink.Error](err); ok {
			c.unread = known
		}
		return sink.Material{}, c.unread
	}
	c.material, c.read, c.known, c.stale, c.unread = material, c.config.Now(), true, false, nil
	return material, nil
}

// Refused reads the secrets again after the far end refused them, and tells whether they are others now. A second call within a second reads nothing.
func (c *Client) Refused(ctx context.Context) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.known && c.config.Now().Sub(c.read) < rereadAfter {
		c.stale = true
		return false
	}
	before := c.material
	after, err := c.readLocked(ctx)
	return err == nil && !equal(before, after)
}

func equal(a, b sink.Material) bool {
	return bytes.Equal(a.Roots, b.Roots) && bytes.Equal(a.Certificate, b.Certificate) && bytes.Equal(a.Key, b.Key) && a.Token == b.Token &&
		a.Username == b.Username && a.Password == b.Password && maps.Equal(a.Further, b.Further)
}

// Token is the bearer token; "" if none is configured.
func (c *Client) Token(ctx context.Context) (sink.Secret, error) {
	material, err := c.Material(ctx)
	return material.Token, err
}

// Unread is why the secrets could not be read when they were last asked for; nil if they were.
func (c *Client) Unread() *sink.Error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.unread
}

// Reason is why the last connection failed; nil after one that got through.
func (c *Client) Reason() *sink.Error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.reason
}

func (c *Client) remember(reason *sink.Error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.reason = reason
	if reason != nil && reason.Class == sink.Auth {
		c.stale = true
	}
}

// DialPlain connects without TLS, and without a proxy.
func (c *Client) DialPlain(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address, func(network, address string, _ syscall.RawConn) error {
		if e := c.forbidden(network, address); e != nil {
			return e
		}
		return nil
	})
	if err != nil {
		e := Classify(err)
		c.remember(e)
		return nil, e
	}
	if c.config.Insecure {
		c.remember(nil)
	}
	return conn, nil
}

// dial connects to an address that a control allows; nil: to any.
func (*Client) dial(ctx context.Context, network, address string, control func(string, string, syscall.RawConn) error) (net.Conn, error) {
	dialer := net.Dialer{Control: control}
	return dialer.DialContext(ctx, network, address)
}

// forbidden is why an address may not be dialled; nil: it may.
func (c *Client) forbidden(network, address string) *sink.Error {
	if c.config.Dial == nil {
		return nil
	}
	if err := c.config.Dial(network, address); err != nil {
		return auth(sink.EndpointNotAllowed, "%v", err)
	}
	return nil
}

// Dial connects, with TLS unless plain text is configured.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := c.DialPlain(ctx, network, address)
	if err != nil || c.config.Insecure {
		return raw, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return c.Secure(ctx, raw, host)
}

// Secure does TLS on a connection of a protocol that begins in plain text. Where it fails the connection is closed.
func (c *Client) Secure(ctx context.Context, raw net.Conn, host string) (net.Conn, error) {
	conn, err := c.handshake(ctx, raw, host, c.config.NextProtos)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// handshake does TLS on a connection, which it closes where it fails.
func (c *Client) handshake(ctx context.Context, raw net.Conn, host string, protocols []string) (*watched, error) {
	config, err := c.tlsConfig(ctx, host)
	if err != nil {
		e := Classify(err)
		c.remember(e)
		return nil, errors.Join(e, raw.Close())
	}
	config.NextProtos = protocols
	conn := tls.Client(raw, config)
	err = conn.HandshakeContext(ctx)
	if shown := shownBy(conn, err); shown != nil {
		c.config.Expires("server", shown.NotAfter)
	}
	if err != nil {
		e := c.explain(err, config.GetClientCertificate != nil)
		c.remember(e)
		return nil, errors.Join(e, raw.Close())
	}
	w := &watched{Conn: conn, client: c, certificate: config.GetClientCertificate != nil}
	if conn.ConnectionState().Version < tls.VersionTLS13 {
		w.seen = true
		c.remember(nil)
	}
	return w, nil
}

// shownBy gives the certificate of the far end, also of one whose certificate was refused by us.
func shownBy(conn *tls.Conn, err error) *x509.Certificate {
	shown := conn.ConnectionState().PeerCertificates
	if refused, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		shown = refused.UnverifiedCertificates
	}
	if len(shown) == 0 {
		return nil
	}
	return shown[0]
}

// explain gives the reason of a failed handshake.
func (c *Client) explain(err error, certificate bool) *sink.Error {
	if e := tlsReason(err, certificate); e != nil {
		return e
	}
	if e := Classify(err); e.Reason == sink.Timeout {
		return e
	}
	return auth(sink.TLSFailed, "the handshake failed: %v", err)
}

func (c *Client) tlsConfig(ctx context.Context, host string) (*tls.Config, error) {
	material, err := c.Material(ctx)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: c.config.ServerName, Time: c.config.Now}
	if c.config.TLS12 {
		config.MinVersion = tls.VersionTLS12
	}
	if config.ServerName == "" {
		config.ServerName = host
	}
	if len(material.Roots) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(material.Roots) {
			return nil, auth(sink.UntrustedServer, "the authority that is configured holds no PEM certificate")
		}
	}
	if len(material.Certificate) == 0 {
		return config, nil
	}
	pair, err := tls.X509KeyPair(material.Certificate, material.Key)
	if err != nil {
		return nil, auth(sink.SecretMissing, "client certificate and key do not belong together: %v", err)
	}
	c.config.Expires("client", pair.Leaf.NotAfter)
	if now := c.config.Now(); now.After(pair.Leaf.NotAfter) {
		return nil, auth(sink.ClientCertificateExpired, "our certificate has expired at %s: renew it", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	// Not Certificates: crypto/tls would show none where the far end asks for another authority, and the refusal would name the wrong reason.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	return config, nil
}

// watched looks at the first read of a connection: with TLS 1.3 the far end refuses us there.
type watched struct {
	*tls.Conn

	client      *Client
	certificate bool
	mutex       sync.Mutex
	seen        bool
	// early is what was read before somebody asked for it.
	early []byte
}

// Read reads and keeps the reason of a refusal.
func (w *watched) Read(to []byte) (int, error) {
	w.mutex.Lock()
	if len(w.early) > 0 {
		n := copy(to, w.early)
		w.early = w.early[n:]
		w.mutex.Unlock()
		return n, nil
	}
	w.mutex.Unlock()
	n, err := w.Conn.Read(to)
	return n, w.look(err)
}

// Write writes. A far end that refuses us cuts the connection, and its reason is there to be read.
func (w *watched) Write(from []byte) (int, error) {
	n, err := w.Conn.Write(from)
	if err != nil {
		if refused, ok := errors.AsType[*sink.Error](w.await()); ok {
			return n, fmt.Errorf("%w: %w", refused, err)
		}
	}
	return n, err
}

func (w *watched) look(err error) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.seen {
		return err
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return err
	}
	w.seen = true
	if err == nil {
		w.client.remember(nil)
		return nil
	}
	if e := tlsReason(err, w.certificate); e != nil {
		w.client.remember(e)
		return fmt.Errorf("%w: %w", e, err)
	}
	return err
}

// await waits for a moment until the far end says something.
// A far end that refuses us may cut the connection when it is written to, and then its reason is lost.
func (w *watched) await() error {
	w.mutex.Lock()
	seen := w.seen
	w.mutex.Unlock()
	if seen {
		return nil
	}
	if err := w.SetReadDeadline(w.client.config.Now().Add(firstBytes)); err != nil {
		return err
	}
	first := make([]byte, 1)
	n, err := w.Conn.Read(first)
	err = w.look(err)
	w.mutex.Lock()
	w.early = append(w.early, first[:n]...)
	w.mutex.Unlock()
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		err = nil
	}
	return errors.Join(err, w.SetReadDeadline(time.Time{}))
}

// Credentials are those of a gRPC client with TLS.
func (c *Client) Credentials() credentials.TransportCredentials { return clientCredentials{client: c} }

// clientCredentials do the handshake with the present material.
type clientCredentials struct{ client *Client }

var errClientOnly = errors.New("these credentials are a client's")

// ClientHandshake does TLS and waits for the far end's first word.
func (c clientCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = authority
	}
	conn, err := c.client.handshake(ctx, raw, host, []string{"h2"})
	if err != nil {
		return nil, nil, err
	}
	if err := conn.await(); err != nil {
		return nil, nil, errors.Join(err, raw.Close())
	}
	info := credentials.TLSInfo{State: conn.ConnectionState(), CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	return conn, info, nil
}

// ServerHandshake is never called.
func (clientCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errClientOnly
}

// Info names the protocol. The name to expect is not an authority of calls: that is the address.
func (clientCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone gives the same credentials: they share what was read.
func (c clientCredentials) Clone() credentials.TransportCredentials { return c }

// OverrideServerName is not used: the name is configured.
func (clientCredentials) OverrideServerName(string) error { return nil }
