// SPDX-License-Identifier: Apache-2.0

package pki_test

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	"github.com/scanyard/scanyard/apis/pki"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestAuthoritySignsForNamesAndAddresses(t *testing.T) {
	pair := must[*pki.Pair](t)
	ca := pair(pki.NewAuthority("test-ca", now, 24*time.Hour))
	leaf := pair(ca.Issue([]string{"reports.team.svc", "127.0.0.1"}, now, time.Hour))
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert)
	for host, good := range map[string]bool{"reports.team.svc": true, "127.0.0.1": true, "other.team.svc": false} {
		_, err := leaf.Cert.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now})
		if (err == nil) != good {
			t.Errorf("%s: %v, want good: %t", host, err, good)
		}
	}
	for at, good := range map[time.Time]bool{now.Add(-pki.ClockSkew): true, now.Add(time.Hour): true, now.Add(2 * time.Hour): false, now.Add(-2 * time.Hour): false} {
		_, err := leaf.Cert.Verify(x509.VerifyOptions{DNSName: "127.0.0.1", Roots: roots, CurrentTime: at})
		if (err == nil) != good {
			t.Errorf("at %s: %v, want good: %t", at, err, good)
		}
	}
	if _, err := ca.Issue(nil, now, time.Hour); err == nil {
		t.Error("a certificate for nobody was made")
	}
}

func TestStoredAuthorityGoesOnSigning(t *testing.T) {
	pair := must[*pki.Pair](t)
	ca := pair(pki.NewAuthority("test-ca", now, 24*time.Hour))
	other := pair(pki.NewAuthority("test-ca", now, 24*time.Hour))
	stored := pair(pki.Parse(ca.CertPEM, ca.KeyPEM))
	leaf := pair(stored.Issue([]string{"a"}, now, time.Hour))
	if err := leaf.Cert.CheckSignatureFrom(ca.Cert); err != nil {
		t.Error(err)
	}
	if _, err := pki.Parse(ca.CertPEM, other.KeyPEM); err == nil {
		t.Error("a key of another certificate was taken")
	}
	bundle := pki.Bundle(other.Cert, ca.Cert)
	certs, err := pki.ParseCertificates(bundle)
	if err != nil || len(certs) != 2 || !certs[0].Equal(other.Cert) || !certs[1].Equal(ca.Cert) {
		t.Errorf("%d certificates, %v", len(certs), err)
	}
	if !bytes.Equal(bundle, append(other.CertPEM, ca.CertPEM...)) {
		t.Error("a bundle is not its certificates, one after the other")
	}
}
