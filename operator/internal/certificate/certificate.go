// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/apis/pki"
)

const (
	lifetime = 10 * 365 * 24 * time.Hour
	// renewBefore is how long a certificate must be valid at the start of a replica; pods of long scans
	// trust the authority that they were started with.
	renewBefore = 180 * 24 * time.Hour
	caKey       = "ca.crt"
)

// Certificate is a server's certificate and key, and their authority.
type Certificate struct {
	TLS tls.Certificate
	// CA is the certificate to trust, PEM.
	CA string
}

// Request is the certificate that a caller needs.
type Request struct {
	// Secret is the Secret that keeps the certificate.
	Secret client.ObjectKey
	// Host is the DNS name or address by which clients call the server.
	Host string
	// Also are further names of the server.
	Also []string
	// Purpose completes "Certificate of the operator's ", for people who find the Secret.
	Purpose string
}

// Ensure returns the certificate in a Secret. It makes a new one if there is none, if the certificate
// expires soon or if it is for another host. All replicas, and the pods that older replicas started,
// share the certificate.
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
		case err == nil && !usable(&secret, r.names(), now):
			fresh, makeErr := newSecret(r, now)
			if makeErr != nil {
				return nil, makeErr
			}
			fresh.Data[caKey] = append(fresh.Data[caKey], stillTrusted(secret.Data[caKey], now)...)
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

func (r *Request) names() []string { return append([]string{r.Host}, r.Also...) }

// stillTrusted are earlier authorities that replicas and pods may serve or trust for a while: as many as a few rotations
// leave, not more.
func stillTrusted(bundle []byte, now time.Time) []byte {
	const most = 2
	var kept []byte
	for range most {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		bundle = rest
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && now.Before(c.NotAfter) {
			kept = append(kept, pem.EncodeToMemory(block)...)
		}
	}
	return kept
}

func usable(s *corev1.Secret, names []string, now time.Time) bool {
	c, err := parse(s)
	if err != nil || c.TLS.Leaf == nil {
		return false
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(c.CA)) {
		return false
	}
	for _, name := range names {
		if _, err := c.TLS.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now.Add(renewBefore)}); err != nil {
			return false
		}
	}
	return true
}

func newSecret(r Request, now time.Time) (corev1.Secret, error) {
	ca, err := pki.NewAuthority("scanyard-ca", now, lifetime)
	if err != nil {
		return corev1.Secret{}, err
	}
	leaf, err := ca.Issue(r.names(), now, lifetime)
	if err != nil {
		return corev1.Secret{}, err
	}
	return corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Secret.Namespace, Name: r.Secret.Name,
			Annotations: map[string]string{"description": "Certificate of the operator's " + r.Purpose + ". Made anew at the operator's start when it is deleted."},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: leaf.CertPEM, corev1.TLSPrivateKeyKey: leaf.KeyPEM, caKey: ca.CertPEM},
	}, nil
}
