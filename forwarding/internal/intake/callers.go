// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"crypto/x509"
	"errors"
	"log/slog"

	"github.com/scanyard/scanyard/forwarding/internal/tokens"
)

// Named is who a token stands for.
type Named struct{ Subject, Tenant string }

// OpenTokens reads a file of TOKEN,SUBJECT,TENANT lines.
func OpenTokens(path string, log *slog.Logger) (*tokens.File[Named], error) {
	return tokens.Open(path, func(fields []string) (Named, error) {
		if len(fields) != 2 || fields[0] == "" || fields[1] == "" {
			return Named{}, errors.New("a line is TOKEN,SUBJECT,TENANT")
		}
		return Named{Subject: fields[0], Tenant: fields[1]}, nil
	}, log)
}

// Callers tells callers by network apart.
type Callers struct {
	// Tokens are asked of every call; nil: of none.
	Tokens *tokens.File[Named]
	// Tenant is that of callers whose token or certificate names none.
	Tenant string
}

// tenant is whose the records of a caller are: the token's, else the first DNS name of the certificate, else the configured one.
func (c Callers) tenant(named Named, certificate *x509.Certificate) string {
	switch {
	case named.Tenant != "":
		return named.Tenant
	case certificate != nil && len(certificate.DNSNames) > 0:
		return certificate.DNSNames[0]
	}
	return c.Tenant
}
