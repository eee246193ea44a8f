// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/forwarding/sink"
)

// Alerts of TLS, by RFC 8446.
const (
	alertHandshakeFailure    = 40
	alertBadCertificate      = 42
	alertCertificateExpired  = 45
	alertCertificateUnknown  = 46
	alertUnknownCA           = 48
	alertAccessDenied        = 49
	alertCertificateRequired = 116
)

// alertOf gives the number of the alert that the other side sent. The type of crypto/tls has no name outside of it, and its number is its value.
func alertOf(err error) (uint8, bool) {
	operation, ok := errors.AsType[*net.OpError](err)
	if !ok || operation.Op != "remote error" {
		return 0, false
	}
	if value := reflect.ValueOf(operation.Err); value.Kind() == reflect.Uint8 {
		return uint8(value.Uint()), true
	}
	return 0, false
}

func auth(reason sink.Reason, format string, values ...any) *sink.Error {
	return &sink.Error{Class: sink.Auth, Reason: reason, Message: fmt.Sprintf(format, values...)}
}

func transport(reason sink.Reason, err error) *sink.Error {
	return &sink.Error{Class: sink.Transport, Reason: reason, Message: err.Error()}
}

// tlsReason tells why a handshake, or the first read after it, failed; certificate tells whether we have one to show. Nil: TLS is not the reason.
func tlsReason(err error, certificate bool) *sink.Error {
	if e := ourRefusal(err); e != nil {
		return e
	}
	number, ok := alertOf(err)
	if !ok {
		return nil
	}
	switch number {
	case alertCertificateRequired:
		return auth(sink.ClientCertificateMissing, "the far end wants a client certificate, and none is configured")
	case alertHandshakeFailure:
		if !certificate {
			return auth(sink.ClientCertificateMissing, "the far end refuses the handshake, probably as no client certificate is configured")
		}
	case alertCertificateExpired:
		return auth(sink.ClientCertificateExpired, "the far end says that our certificate has expired: renew it")
	case alertUnknownCA, alertBadCertificate, alertCertificateUnknown, alertAccessDenied:
		return auth(sink.ClientCertificateRejected,
			"the far end does not accept our certificate (alert %d): its authority has to be one that the far end trusts", number)
	}
	return auth(sink.TLSFailed, "the far end ended the handshake with alert %d", number)
}

// ourRefusal tells why we do not accept the certificate of the far end.
func ourRefusal(err error) *sink.Error {
	if name, ok := errors.AsType[x509.HostnameError](err); ok {
		names := append([]string{}, name.Certificate.DNSNames...)
		for _, ip := range name.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return auth(sink.ServerNameMismatch,
			"the certificate of the far end is for %s, not for %s: set serverName, or use one of these names", strings.Join(names, ", "), name.Host)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		if invalid.Cert == nil {
			return auth(sink.ServerCertificateExpired, "the certificate of the far end has expired")
		}
		return auth(sink.ServerCertificateExpired, "the certificate of the far end is valid from %s until %s: it has to be renewed there",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return auth(sink.UntrustedServer, "the certificate of the far end is signed by an authority that is not trusted here: configure its authority")
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return auth(sink.UntrustedServer, "the certificate of the far end is not accepted: %v", err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return auth(sink.TLSFailed, "the far end does not speak TLS on this port")
	}
	return nil
}

// Classify tells what an error of a connection means. An error that is an *sink.Error stays as it is.
func Classify(err error) *sink.Error {
	if operation, ok := errors.AsType[*net.OpError](err); ok && operation.Op == "proxyconnect" {
		return transport(sink.ProxyFailed, operation)
	}
	if known, ok := errors.AsType[*sink.Error](err); ok {
		return known
	}
	if e := tlsReason(err, true); e != nil {
		return e
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return transport(sink.DNSFailed, name)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return transport(sink.ConnectionRefused, err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return transport(sink.Timeout, err)
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return transport(sink.Timeout, err)
	}
	return transport(sink.Disconnected, err)
}

// IsLoopback tells whether a host is this machine.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
