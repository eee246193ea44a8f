// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/scanyard/scanyard/apis/pki"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	leafLifetime      = 90 * 24 * time.Hour
	// settleTime is how long a new authority is published before it signs, and an old one after it has signed last.
	settleTime = time.Hour
)

// material is what the Secret holds.
type material struct {
	// authority signs; it is the first certificate of the bundle.
	authority *pki.Pair
	// trusted are all authorities that clients have to trust, the newest first.
	trusted []*x509.Certificate
	leaf    *pki.Pair
}

// bundle is what clients have to trust, PEM.
func (m *material) bundle() []byte { return pki.Bundle(m.trusted...) }

// step is a change that is due.
type step struct {
	// name is for logs and tests.
	name string
	when func(m *material, hosts []string, now time.Time) bool
	then func(m *material, hosts []string, now time.Time) (*material, error)
}

// steps is the whole life of the Secret. The first row whose when holds is taken.
var steps = []step{
	{"begin", nothingUsable, begin},
	{"announce", authorityIsOld, announce},
	{"replace", leafIsUseless, sign},
	{"sign", authorityIsKnown, sign},
	{"renew", leafIsOld, sign},
	{"retire", oldAuthorityIsUnused, retire},
}

// decide returns what the Secret should hold and the name of the step that leads there; no name says that nothing is due.
func decide(m *material, hosts []string, now time.Time) (*material, string, error) {
	for _, s := range steps {
		if s.when(m, hosts, now) {
			next, err := s.then(m, hosts, now)
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w", s.name, err)
			}
			return next, s.name, nil
		}
	}
	return m, "", nil
}

func nothingUsable(m *material, _ []string, now time.Time) bool {
	return m == nil || expired(m.authority.Cert, now)
}

func authorityIsOld(m *material, _ []string, now time.Time) bool {
	return old(m.authority.Cert, now)
}

// leafIsUseless looks at the end of the certificate's life only: a clock that has jumped back must not replace what the
// other replicas serve with.
func leafIsUseless(m *material, hosts []string, now time.Time) bool {
	if m.leaf == nil || expired(m.leaf.Cert, now) {
		return true
	}
	for _, host := range hosts {
		if m.leaf.Cert.VerifyHostname(host) != nil {
			return true
		}
	}
	for _, ca := range m.trusted {
		if m.leaf.Cert.CheckSignatureFrom(ca) == nil {
			return false
		}
	}
	return true
}

// authorityIsKnown holds when what the servers show can be signed by the new authority.
func authorityIsKnown(m *material, _ []string, now time.Time) bool {
	return m.leaf.Cert.CheckSignatureFrom(m.authority.Cert) != nil && settled(m.authority.Cert, now)
}

func leafIsOld(m *material, _ []string, now time.Time) bool {
	return old(m.leaf.Cert, now) && settled(m.authority.Cert, now)
}

func oldAuthorityIsUnused(m *material, _ []string, now time.Time) bool {
	return len(m.trusted) > 1 && m.leaf.Cert.CheckSignatureFrom(m.authority.Cert) == nil && settled(m.leaf.Cert, now)
}

func begin(_ *material, hosts []string, now time.Time) (*material, error) {
	ca, err := pki.NewAuthority(authorityName, now, authorityLifetime)
	if err != nil {
		return nil, err
	}
	return sign(&material{authority: ca, trusted: []*x509.Certificate{ca.Cert}}, hosts, now)
}

func announce(m *material, _ []string, now time.Time) (*material, error) {
	ca, err := pki.NewAuthority(authorityName, now, authorityLifetime)
	if err != nil {
		return nil, err
	}
	// What an earlier authority signed cannot be in use any longer: the one that is replaced now has signed for years.
	return &material{authority: ca, trusted: []*x509.Certificate{ca.Cert, m.authority.Cert}, leaf: m.leaf}, nil
}

func sign(m *material, hosts []string, now time.Time) (*material, error) {
	leaf, err := m.authority.Issue(hosts, now, leafLifetime)
	return &material{authority: m.authority, trusted: m.trusted, leaf: leaf}, err
}

func retire(m *material, _ []string, _ time.Time) (*material, error) {
	return &material{authority: m.authority, trusted: m.trusted[:1], leaf: m.leaf}, nil
}

// made is when a certificate was made.
func made(c *x509.Certificate) time.Time { return c.NotBefore.Add(pki.ClockSkew) }

func expired(c *x509.Certificate, now time.Time) bool { return !now.Before(c.NotAfter) }

// old holds after two thirds of a certificate's life.
func old(c *x509.Certificate, now time.Time) bool {
	const parts = 3
	return now.After(c.NotAfter.Add(-c.NotAfter.Sub(made(c)) / parts))
}

// settled holds when all who look every half minute have seen a certificate.
func settled(c *x509.Certificate, now time.Time) bool { return !now.Before(made(c).Add(settleTime)) }
