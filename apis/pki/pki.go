// SPDX-License-Identifier: Apache-2.0

// Package pki makes certificates for servers inside of a cluster: an authority of one's own, and what the authority
// signs. It keeps nothing and looks at no clock; where certificates lie and when they are renewed is decided by who serves.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// ClockSkew is how long before it is made a certificate is good, for clients whose clock is behind.
const ClockSkew = time.Hour

const serialBits = 127

// Pair is a certificate with its key.
type Pair struct {
	Cert *x509.Certificate
	// CertPEM and KeyPEM are what is stored of the pair. The key is PKCS #8.
	CertPEM, KeyPEM []byte

	key crypto.Signer
}

// NewAuthority makes a certificate that signs others, signed by itself.
func NewAuthority(name string, now time.Time, lifetime time.Duration) (*Pair, error) {
	return issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-ClockSkew), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
}

// Issue signs a certificate for a server that clients call by these DNS names and addresses; the first one is the subject.
func (p *Pair) Issue(hosts []string, now time.Time, lifetime time.Duration) (*Pair, error) {
	if len(hosts) == 0 {
		return nil, errors.New("a server's certificate needs a host")
	}
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, NotBefore: now.Add(-ClockSkew), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	return issue(t, p)
}

// IssueClient signs a certificate by which a client of a server shows who it is.
func (p *Pair) IssueClient(name string, now time.Time, lifetime time.Duration) (*Pair, error) {
	return issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-ClockSkew), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, p)
}

// Parse reads a pair that was stored. A key that does not belong to the certificate is an error.
func Parse(certPEM, keyPEM []byte) (*Pair, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T signs nothing", pair.PrivateKey)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	return &Pair{Cert: cert, CertPEM: certPEM, KeyPEM: keyPEM, key: signer}, nil
}

// ParseCertificates reads all certificates of a bundle.
func ParseCertificates(bundle []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			return all, nil
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all, bundle = append(all, cert), rest
	}
}

// Bundle is the reverse of ParseCertificates.
func Bundle(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, encode("CERTIFICATE", c.Raw)...)
	}
	return out
}

// issue makes a key and a certificate for the key, signed by a parent or, without one, by itself.
func issue(template *x509.Certificate, parent *Pair) (*Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	signedBy, signer := template, crypto.Signer(key)
	if parent != nil {
		signedBy, signer = parent.Cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signedBy, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Pair{Cert: cert, CertPEM: encode("CERTIFICATE", der), KeyPEM: encode("PRIVATE KEY", pkcs8), key: key}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
