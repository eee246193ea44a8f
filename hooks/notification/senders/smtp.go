// SPDX-License-Identifier: Apache-2.0

package senders

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/scanyard/scanyard/apis/exitcode"
	"github.com/scanyard/scanyard/hooks/notification/channel"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
	"github.com/scanyard/scanyard/podkit/redact"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// dialFunc connects to a mail server.
type dialFunc = gomail.DialContextFunc

// mailServer is what SMTP_CONFIG says, an address as nodemailer takes it.
type mailServer struct {
	host           string
	port           int
	user, password string
	options        []gomail.Option
	dial           dialFunc
}

const (
	portSubmission = 587
	portTLS        = 465
	dialTimeout    = 20 * time.Second
)

func newMailServer(s *channel.Settings) (*mailServer, error) {
	config, err := s.Require("SMTP_CONFIG")
	if err != nil {
		return nil, err
	}
	name := s.Variable("SMTP_CONFIG")
	target, err := url.Parse(config)
	if err != nil || target.Hostname() == "" || target.Scheme != "smtp" && target.Scheme != "smtps" {
		return nil, errors.New(name + " is not an smtp:// or smtps:// address; characters of a password such as / and # are written as in addresses, %2F and %23")
	}
	m := &mailServer{host: target.Hostname(), user: target.User.Username(), dial: s.Dial}
	m.password, _ = target.User.Password()
	if m.password != "" {
		s.Hide(m.password)
	}
	query := target.Query()
	isTLS := target.Scheme == "smtps" || query.Get("secure") == "true"
	if m.port, err = mailPort(target.Port(), isTLS); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	timeout, err := s.Env.Duration("DELIVERY_TIMEOUT", delivery.DefaultTimeout)
	if err != nil {
		return nil, err
	}
	if err := m.setOptions(s, query, isTLS, timeout); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func mailPort(text string, isTLS bool) (int, error) {
	switch {
	case text != "":
		port, err := strconv.Atoi(text)
		if err != nil || port < 1 || port > 65535 {
			return 0, errors.New("the port is not a number of a port")
		}
		return port, nil
	case isTLS:
		return portTLS, nil
	}
	return portSubmission, nil
}

func (m *mailServer) setOptions(s *channel.Settings, query url.Values, isTLS bool, timeout time.Duration) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: m.host}
	if file := s.Env.Get("NODE_EXTRA_CA_CERTS"); file != "" {
		pool, err := transfer.CertPool(file)
		if err != nil {
			return fmt.Errorf("NODE_EXTRA_CA_CERTS: %w", err)
		}
		config.RootCAs = pool
	}
	if query.Get("tls.rejectUnauthorized") == "false" {
		config.InsecureSkipVerify = true // the user wrote so
	}
	m.options = []gomail.Option{gomail.WithPort(m.port), gomail.WithTimeout(timeout), gomail.WithTLSConfig(config), gomail.WithoutNoop()}
	plainText := query.Get("ignoreTLS") == "true"
	switch {
	case isTLS:
		m.options = append(m.options, gomail.WithSSL())
	case plainText:
		m.options = append(m.options, gomail.WithTLSPolicy(gomail.NoTLS))
	case query.Get("requireTLS") == "true" || m.password != "":
		// A password is only sent to a server that proves its identity.
		m.options = append(m.options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	default:
		m.options = append(m.options, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	}
	if name := query.Get("name"); name != "" {
		m.options = append(m.options, gomail.WithHELO(name))
	}
	if m.password != "" {
		mechanism := gomail.SMTPAuthAutoDiscover
		if plainText {
			mechanism = gomail.SMTPAuthPlainNoEnc
		}
		m.options = append(m.options, gomail.WithSMTPAuth(mechanism), gomail.WithUsername(m.user), gomail.WithPassword(m.password))
	}
	if m.dial == nil {
		m.dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return nil
}

// sendOnce makes one attempt. A message that the server took is sent, whatever happens afterwards.
func (m *mailServer) sendOnce(ctx context.Context, message *gomail.Msg) error {
	// The library does not look at the context once it is connected: the connection ends with it.
	dial := func(dialCtx context.Context, network, address string) (net.Conn, error) {
		conn, err := m.dial(dialCtx, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() }) // what was going on fails, which is the aim
		}
		return conn, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := gomail.NewClient(m.host, append(m.options, gomail.WithDialContextFunc(dial))...)
	if err != nil {
		return fmt.Errorf("prepare mail client: %w", err)
	}
	if err := client.DialWithContext(ctx); err != nil {
		return err // explained by the caller
	}
	err = client.Send(message)
	if message.IsDelivered() {
		err = nil
	}
	if err == nil {
		_ = client.Close() // the server has the mail
	}
	return err // explained by the caller
}

// mailError is a failed attempt, in words without credentials.
type mailError struct {
	text    string
	passing bool
	code    int // 0 where the server did not answer
	err     error
}

// badCredentials is how a mail server answers to them (RFC 4954).
const badCredentials = 535

// ExitCode is how the container ends: another try has the same credentials.
func (e *mailError) ExitCode() int {
	if e.code == badCredentials {
		return exitcode.Refused
	}
	return 1
}

func (e *mailError) Error() string { return e.text }

// Unwrap gives the library's error.
func (e *mailError) Unwrap() error { return e.err }

// explain names host and status, and says whether trying again is of use.
func (m *mailServer) explain(err error) *mailError {
	text := redact.Of(m.password).Text(err.Error())
	e := &mailError{err: err}
	where := "the mail server at " + net.JoinHostPort(m.host, strconv.Itoa(m.port))
	code := 0
	if said, ok := errors.AsType[*textproto.Error](err); ok {
		code = said.Code
	}
	if failed, ok := errors.AsType[*gomail.SendError](err); ok {
		code = failed.ErrorCode()
		text, _, _ = strings.Cut(text, ", affected message ID")
		e.passing = code == 0
	}
	switch {
	case code != 0:
		e.passing, e.code = code < 500, code
		e.text = fmt.Sprintf("%s answers %d: %s", where, code, delivery.Excerpt(text))
		return e
	case isCertificate(err):
		e.passing = false
	case isNetwork(err):
		e.passing = true
	}
	e.text = where + " cannot be used: " + delivery.Excerpt(text)
	return e
}

func isCertificate(err error) bool {
	unknown, invalid, host := new(x509.UnknownAuthorityError), new(x509.CertificateInvalidError), new(x509.HostnameError)
	return errors.As(err, unknown) || errors.As(err, invalid) || errors.As(err, host)
}

func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
