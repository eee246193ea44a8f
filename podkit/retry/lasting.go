// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
)

// IsLasting reports whether the next connection would fail like this one: a certificate that is not accepted, a server
// without TLS, a program that was told to stop.
func IsLasting(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		invalid     x509.CertificateInvalidError
		host        x509.HostnameError
		record      tls.RecordHeaderError
	)
	return errors.Is(err, context.Canceled) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &invalid) || errors.As(err, &host) || errors.As(err, &record)
}
