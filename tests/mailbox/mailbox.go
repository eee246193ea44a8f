// SPDX-License-Identifier: Apache-2.0

package mailbox

import (
	"bytes"
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
	"sync"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Host is what the server calls itself, and what its certificate is for.
const Host = "localhost"

// patience bounds how long a client may say nothing.
const patience = 20 * time.Second

// Mailbox is a running mail server.
type Mailbox struct {
	// Port is where it listens on Host.
	Port int
	// CA is the PEM certificate that vouches for it.
	CA []byte

	user, password string
	server         *smtp.Server
	ended          chan error

	mu   sync.Mutex
	took []Mail
}

// Mail is a mail as it arrived.
type Mail struct {
	// Sender and Recipients are those of the envelope.
	Sender     string
	Recipients []string
	// Header is that of the message, Subject its decoded subject.
	Header  mail.Header
	Subject string
	// Text and HTML are its two bodies; either may be empty.
	Text, HTML string
}

// Start listens on a free port, with an account of one user.
func Start(user, password string) (*Mailbox, error) {
	certificate, ca, err := newCertificate()
	if err != nil {
		return nil, fmt.Errorf("start mail server: %w", err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("start mail server: %w", err)
	}
	m := &Mailbox{CA: ca, user: user, password: password, ended: make(chan error, 1)}
	if a, ok := listener.Addr().(*net.TCPAddr); ok {
		m.Port = a.Port
	}
	m.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &session{box: m, conn: c}, nil }))
	m.server.Domain = Host
	m.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	m.server.ReadTimeout, m.server.WriteTimeout = patience, patience
	m.server.ErrorLog = log.New(io.Discard, "", 0) // clients hang up as they like
	go func() { m.ended <- m.server.Serve(listener) }()
	return m, nil
}

// Close ends the server.
func (m *Mailbox) Close() error {
	err := m.server.Close()
	if served := <-m.ended; !errors.Is(served, smtp.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Taken returns the mails that have arrived, in order.
func (m *Mailbox) Taken() []Mail {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.took)
}

// session is one connection.
type session struct {
	box      *Mailbox
	conn     *smtp.Conn
	loggedIn bool
	mail     Mail
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.box.user || subtle.ConstantTimeCompare([]byte(password), []byte(s.box.password)) != 1 {
			return smtp.ErrAuthFailed
		}
		s.loggedIn = true
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if _, isTLS := s.conn.TLSConnectionState(); !isTLS || !s.loggedIn {
		return smtp.ErrAuthRequired
	}
	s.mail = Mail{Sender: from}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mail.Recipients = append(s.mail.Recipients, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.mail.read(raw); err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "no message: " + err.Error()}
	}
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.box.took = append(s.box.took, s.mail)
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
	switch {
	case err != nil:
		return err
	case kind == "text/html":
		m.HTML = string(b)
	case kind == "text/plain":
		m.Text = string(b)
	default:
		return fmt.Errorf("a body of type %s", kind)
	}
	return nil
}

func newCertificate() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: Host}, DNSNames: []string{Host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
