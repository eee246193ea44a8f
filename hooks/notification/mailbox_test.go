// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// mailbox is a real SMTP server with STARTTLS and authentication. It keeps what it takes.
type mailbox struct {
	ca      string // file with the certificate that vouches for it
	address string
	// refuse says no to a recipient, or nothing.
	refuse func(n int, to string) *smtp.SMTPError
	// drop breaks the connection off when the n-th message has come in: before it is taken, or after.
	drop func(n int) (before, after bool)

	mu       sync.Mutex
	rcpts    int
	messages int
	mails    []letterIn
	server   *smtp.Server
}

// letterIn is a mail as it arrived.
type letterIn struct {
	user, password      string
	isTLS               bool
	sender              string
	to                  []string
	from                *mail.Address
	header              mail.Header
	subject, text, html string
}

// newMailbox starts a server that calls itself host. It ends with the test.
func newMailbox(t *testing.T, host string, change ...func(*smtp.Server)) *mailbox {
	t.Helper()
	certificate, ca := newCertificate(t, host)
	b := &mailbox{ca: ca}
	b.server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &mailSession{box: b, conn: c}, nil }))
	b.server.Domain = host
	b.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	b.server.ErrorLog = silentLog{}
	for _, c := range change {
		c(b.server)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.address = listener.Addr().String()
	done := make(chan error, 1)
	go func() { done <- b.server.Serve(listener) }()
	t.Cleanup(func() {
		if err := b.server.Close(); err != nil {
			t.Error(err)
		}
		_ = listener.Close() // the server does not know it yet if it was just started
		if err := <-done; err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			t.Error(err)
		}
	})
	return b
}

// silentLog passes over connections that break off, which tests do on purpose.
type silentLog struct{}

func (silentLog) Printf(string, ...any) {}
func (silentLog) Println(...any)        {}

// dial leads to the mailbox, whatever the address is.
func (b *mailbox) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, b.address)
}

func (b *mailbox) taken() []letterIn {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mails)
}

type mailSession struct {
	box            *mailbox
	conn           *smtp.Conn
	user, password string
	sender         string
	to             []string
}

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if password == "wrong" {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "no such account with password " + password}
		}
		s.user, s.password = user, password
		return nil
	}), nil
}

func (s *mailSession) Reset()        { s.sender, s.to = "", nil }
func (s *mailSession) Logout() error { return nil }

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	s.sender = from
	return nil
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.box.mu.Lock()
	n := s.box.rcpts
	s.box.rcpts++
	s.box.mu.Unlock()
	if s.box.refuse != nil {
		if err := s.box.refuse(n, to); err != nil {
			return err
		}
	}
	s.to = append(s.to, to)
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	_, isTLS := s.conn.TLSConnectionState()
	l := letterIn{user: s.user, password: s.password, isTLS: isTLS, sender: s.sender, to: s.to}
	if err := l.read(raw); err != nil {
		return err
	}
	b := s.box
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.messages
	b.messages++
	var before, after bool
	if b.drop != nil {
		before, after = b.drop(n)
	}
	if !before {
		b.mails = append(b.mails, l)
	}
	if before || after {
		return s.conn.Close()
	}
	return nil
}

func (l *letterIn) read(raw []byte) error {
	message, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	l.header = message.Header
	if l.subject, err = new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject")); err != nil {
		return err
	}
	if l.from, err = mail.ParseAddress(message.Header.Get("From")); err != nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if kind == "text/plain" || kind == "text/html" {
		return l.part(kind, message.Header.Get("Content-Transfer-Encoding"), message.Body)
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
		if err := l.part(kind, part.Header.Get("Content-Transfer-Encoding"), part); err != nil {
			return err
		}
	}
}

func (l *letterIn) part(kind, encoding string, body io.Reader) error {
	if encoding == "quoted-printable" {
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	unix := strings.ReplaceAll(string(text), "\r\n", "\n")
	if kind == "text/html" {
		l.html = unix
	} else {
		l.text = unix
	}
	return nil
}

func newCertificate(t *testing.T, host string) (certificate tls.Certificate, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: encoded}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{encoded}, PrivateKey: key}, ca
}
