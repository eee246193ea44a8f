// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Localhost is the default host name of the server.
const Localhost = "localhost"

// idleTimeout bounds how long a client may send nothing.
const idleTimeout = 20 * time.Second

// Options are the options of a Mailbox. The zero Options accept all mail, and offer STARTTLS.
type Options struct {
	// Host is the name of the server in its greeting and in its certificate; default [Localhost].
	Host string
	// User and Password are the only account. If User is set, mail is accepted only over TLS and from
	// that account; else every account may log in, and nobody must.
	User, Password string
	// WithoutTLS offers no STARTTLS. InsecureAuth lets clients log in without TLS.
	WithoutTLS, InsecureAuth bool
	// Refuse returns the response to a recipient, nil to accept it; n counts recipients from 0.
	Refuse func(n int, to string) *smtp.SMTPError
	// Drop says whether to close the connection when a message has been read, before or after the
	// message is kept; n counts messages from 0.
	Drop func(n int) (before, after bool)
}

// Mailbox is a running mail server.
type Mailbox struct {
	// Port is the port on the loopback address.
	Port int
	// CA is the server's own certificate, as PEM.
	CA []byte

	options  Options
	server   *smtp.Server
	listener net.Listener
	served   chan error

	mu         sync.Mutex
	recipients int
	messages   int
	mails      []Mail
}

// Mail is a mail as it arrived.
type Mail struct {
	// User and Password are those of the login, empty for none. TLS says that the connection used TLS.
	User, Password string
	TLS            bool
	// Sender and Recipients are those of the envelope.
	Sender     string
	Recipients []string
	// From, Header and Subject are those of the message, decoded.
	From    *mail.Address
	Header  mail.Header
	Subject string
	// Text and HTML are the bodies, with line feeds; either may be empty.
	Text, HTML string
}

// Start listens on a free port.
func Start(o Options) (*Mailbox, error) {
	o.Host = cmp.Or(o.Host, Localhost)
	certificate, ca, err := newCertificate(o.Host)
	if err != nil {
		return nil, fmt.Errorf("start mail server: %w", err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("start mail server: %w", err)
	}
	m := &Mailbox{CA: ca, options: o, listener: listener, served: make(chan error, 1)}
	if a, ok := listener.Addr().(*net.TCPAddr); ok {
		m.Port = a.Port
	}
	m.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &session{box: m, conn: c}, nil }))
	m.server.Domain, m.server.AllowInsecureAuth = o.Host, o.InsecureAuth
	if !o.WithoutTLS {
		m.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	}
	m.server.ReadTimeout, m.server.WriteTimeout = idleTimeout, idleTimeout
	m.server.ErrorLog = log.New(io.Discard, "", 0) // clients may close their connections at any time
	go func() { m.served <- m.server.Serve(listener) }()
	return m, nil
}

// Close ends the server.
func (m *Mailbox) Close() error {
	err := m.server.Close()
	if closed := m.listener.Close(); !errors.Is(closed, net.ErrClosed) { // the server closes only a listener that it serves already
		err = errors.Join(err, closed)
	}
	if served := <-m.served; !errors.Is(served, smtp.ErrServerClosed) && !errors.Is(served, net.ErrClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Dial connects to the server, whatever the address is.
func (m *Mailbox) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, m.listener.Addr().String())
}

// Mails returns the mails that were kept, in order.
func (m *Mailbox) Mails() []Mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mails)
}

// session is one connection.
type session struct {
	box            *Mailbox
	conn           *smtp.Conn
	user, password string
	mail           Mail
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		o := &s.box.options
		if o.User != "" && (user != o.User || subtle.ConstantTimeCompare([]byte(password), []byte(o.Password)) != 1) {
			// Servers are known to say too much: what they say must not be printed as it is.
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "no such account with password " + password}
		}
		s.user, s.password = user, password
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	_, isTLS := s.conn.TLSConnectionState()
	if s.box.options.User != "" && (!isTLS || s.user == "") {
		return smtp.ErrAuthRequired
	}
	s.mail = Mail{User: s.user, Password: s.password, TLS: isTLS, Sender: from}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.box.mu.Lock()
	n := s.box.recipients
	s.box.recipients++
	s.box.mu.Unlock()
	if refuse := s.box.options.Refuse; refuse != nil {
		if err := refuse(n, to); err != nil {
			return err
		}
	}
	s.mail.Recipients = append(s.mail.Recipients, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.mail.read(raw); err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "the message is not valid: " + err.Error()}
	}
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.messages
	b.messages++
	var before, after bool
	if b.options.Drop != nil {
		before, after = b.options.Drop(n)
	}
	if !before {
		b.mails = append(b.mails, s.mail)
	}
	if before || after {
		return s.conn.Close()
	}
	return nil
}

func (s *session) Reset()        { s.mail = Mail{} }
func (s *session) Logout() error { return nil }

// read takes a message apart.
func (m *Mail) read(raw []byte) error {
	message, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	m.Header = message.Header
	if m.From, err = mail.ParseAddress(message.Header.Get("From")); err != nil {
		return err
	}
	if m.Subject, err = new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject")); err != nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if kind != "multipart/alternative" {
		return m.body(kind, message.Header.Get("Content-Transfer-Encoding"), message.Body)
	}
	parts := multipart.NewReader(message.Body, params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil {
			return err
		}
		if err := m.body(kind, part.Header.Get("Content-Transfer-Encoding"), part); err != nil {
			return err
		}
	}
}

func (m *Mail) body(kind, encoding string, r io.Reader) error {
	if encoding == "quoted-printable" {
		r = quotedprintable.NewReader(r)
	}
	b, err := io.ReadAll(r)
	text := strings.ReplaceAll(string(b), "\r\n", "\n")
	switch {
	case err != nil:
		return err
	case kind == "text/html":
		m.HTML = text
	case kind == "text/plain":
		m.Text = text
	default:
		return fmt.Errorf("body of type %s", kind)
	}
	return nil
}

func newCertificate(host string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
