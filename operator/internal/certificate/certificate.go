// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	lifetime = 10 * 365 * 24 * time.Hour
	// renewBefore is how long a certificate has to be good at start; pods of long scans
	// trust the one that they were started with.
	renewBefore = 180 * 24 * time.Hour
	clockSkew   = time.Hour
	caKey       = "ca.crt"
	serialBits  = 127
)

// Certificate is what a server serves with.
type Certificate struct {
	TLS tls.Certificate
	// CA is the certificate to trust, PEM.
	CA string
}

// Request says which certificate is wanted.
type Request struct {
	// Secret keeps it.
	Secret client.ObjectKey
	// Host is the DNS name or address that clients call the server by.
	Host string
	// Purpose completes "Certificate of the operator's ", for whoever finds the Secret.
	Purpose string
}

// Ensure returns the certificate in a Secret, which it makes where there is none, where it
// is about to expire or where it is for another host. All replicas, and the pods that older
// ones started, share it.
func Ensure(ctx context.Context, c client.Client, r Request, now time.Time) (*Certificate, error) {
	for range 3 {
		var secret corev1.Secret
		err := c.Get(ctx, r.Secret, &secret)
		switch {
		case apierrors.IsNotFound(err):
			secret, err = newSecret(r, now)
			if err == nil {
				err = c.Create(ctx, &secret)
			}
		case err == nil && !usable(&secret, r.Host, now):
			fresh, makeErr := newSecret(r, now)
			if makeErr != nil {
				return nil, makeErr
			}
			secret.Data = fresh.Data
			err = c.Update(ctx, &secret)
		}
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
			continue // another replica was faster: take its certificate
		}
		if err != nil {
			return nil, fmt.Errorf("ensure Secret %s: %w", r.Secret, err)
		}
		return parse(&secret)
	}
	return nil, fmt.Errorf("ensure Secret %s: others keep changing it", r.Secret)
}

func parse(s *corev1.Secret) (*Certificate, error) {
	pair, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return &Certificate{TLS: pair, CA: string(s.Data[caKey])}, nil
}

func usable(s *corev1.Secret, host string, now time.Time) bool {
	c, err := parse(s)
	if err != nil || c.TLS.Leaf == nil {
		return false
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(c.CA)) {
		return false
	}
	_, err = c.TLS.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now.Add(renewBefore)})
	return err == nil
}

func newSecret(r Request, now time.Time) (corev1.Secret, error) {
	ca, caKeyPair, caPEM, err := issue(authority(now), nil, nil)
	if err != nil {
		return corev1.Secret{}, err
	}
	_, key, certPEM, err := issue(server(r.Host, now), ca, caKeyPair)
	if err != nil {
		return corev1.Secret{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return corev1.Secret{}, err
	}
	return corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Secret.Namespace, Name: r.Secret.Name,
			Annotations: map[string]string{"description": "Certificate of the operator's " + r.Purpose + ". Made anew at the operator's start when it is deleted."},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			corev1.TLSCertKey:       certPEM,
			corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
			caKey:                   caPEM,
		},
	}, nil
}

func authority(now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: "scanyard-ca"}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
}

func server(host string, now time.Time) *x509.Certificate {
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: host}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		t.IPAddresses = []net.IP{ip}
	} else {
		t.DNSNames = []string{host}
	}
	return t
}

// issue makes a key and a certificate for it, signed by a parent or, without one, by itself.
func issue(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, nil, nil, err
	}
	template.SerialNumber = serial
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, nil, errors.Join(errors.New("issue certificate"), err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}
