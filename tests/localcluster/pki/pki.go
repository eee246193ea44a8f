// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Files are the paths of everything that Ensure makes.
type Files struct {
	CA, ServerCert, ServerKey, AdminCert, AdminKey, ServiceAccountKey string
	// ProxyCA signs ProxyCert alone, by which servers that extend the API know requests that kube-apiserver hands on. It
	// must not be CA: whoever has a client certificate could then name himself as he likes.
	ProxyCA, ProxyCert, ProxyKey string
}

// ProxyName is the name in ProxyCert.
const ProxyName = "front-proxy-client"

// In names the files in a directory without making them.
func In(dir string) Files {
	p := func(n string) string { return filepath.Join(dir, n) }
	return Files{
		CA: p("ca.crt"), ServerCert: p("server.crt"), ServerKey: p("server.key"),
		AdminCert: p("admin.crt"), AdminKey: p("admin.key"), ServiceAccountKey: p("sa.key"),
		ProxyCA: p("front-proxy-ca.crt"), ProxyCert: p("front-proxy-client.crt"), ProxyKey: p("front-proxy-client.key"),
	}
}

// ServiceIP is the cluster address of the "kubernetes" Service: the first of
// ServiceCIDR. The server certificate covers it.
const (
	ServiceCIDR = "10.43.0.0/16"
	ServiceIP   = "10.43.0.1"
)

// Ensure makes the files if the directory has none yet. Certificates are valid
// for ten years from now.
func Ensure(dir string, now time.Time) (Files, error) {
	f := In(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return f, fmt.Errorf("make certificates: %w", err)
	}
	// The last file of each set is written last: if it is there, all of the set are. The directory of an older cluster has
	// no certificate of the front proxy.
	for _, set := range []struct {
		last     string
		generate func(Files, time.Time) error
	}{{f.AdminKey, generate}, {f.ProxyKey, generateProxy}} {
		if _, err := os.Stat(set.last); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return f, fmt.Errorf("make certificates: %w", err)
		}
		if err := set.generate(f, now); err != nil {
			return f, fmt.Errorf("make certificates: %w", err)
		}
	}
	return f, nil
}

func generateProxy(f Files, now time.Time) error {
	ca, err := newAuthority("local-cluster-front-proxy-ca", now)
	if err != nil {
		return err
	}
	cert, key, err := ca.issue(subject{name: ProxyName})
	if err != nil {
		return err
	}
	return write([]file{{f.ProxyCA, ca.pem}, {f.ProxyCert, cert}, {f.ProxyKey, key}})
}

func generate(f Files, now time.Time) error {
	ca, err := newAuthority("local-cluster-ca", now)
	if err != nil {
		return err
	}
	serverCert, serverKey, err := ca.issue(subject{
		name: "kube-apiserver",
		dns:  []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		ips:  []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(ServiceIP)},
	})
	if err != nil {
		return err
	}
	adminCert, adminKey, err := ca.issue(subject{name: "admin", organizations: []string{"system:masters"}})
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	saKey, err := encodeKey(key)
	if err != nil {
		return err
	}
	return write([]file{
		{f.CA, ca.pem},
		{f.ServerCert, serverCert},
		{f.ServerKey, serverKey},
		{f.ServiceAccountKey, saKey},
		{f.AdminCert, adminCert},
		{f.AdminKey, adminKey},
	})
}

type file struct {
	path string
	data []byte
}

func write(files []file) error {
	for _, w := range files {
		if err := os.WriteFile(w.path, w.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
	now  time.Time
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), now}, nil
}

type subject struct {
	name          string
	organizations []string
	dns           []string
	ips           []net.IP
}

func (a *authority) issue(s subject) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		return nil, nil, err
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: s.name, Organization: s.organizations},
		NotBefore: a.now.Add(-time.Hour), NotAfter: a.now.AddDate(10, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    s.dns, IPAddresses: s.ips,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, k.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = encodeKey(k)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, err
}

func encodeKey(k *ecdsa.PrivateKey) ([]byte, error) {
	b, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b}), nil
}
