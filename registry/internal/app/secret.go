// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/apis/pki"
)

// Keys of the Secret of the queue.
const (
	keyAuthority          = "ca.crt"
	keyControllerPassword = "controller-password"
	keyWorkerPassword     = "worker-password"
)

const (
	certificateLifetime = 10 * 365 * 24 * time.Hour
	renewBefore         = 180 * 24 * time.Hour
)

// served is what a server of ours serves with.
type served struct {
	certificate tls.Certificate
	authority   []byte
	data        map[string][]byte
}

// ensureSecret returns the certificate of a Secret, with words drawn for each of keys. It makes a new certificate where there is none, or
// where it ends soon; the words stay. Replicas share it.
func ensureSecret(ctx context.Context, c client.Client, at client.ObjectKey, hosts, keys []string, now time.Time) (*served, error) {
	const tries = 3
	for range tries {
		secret := &corev1.Secret{}
		err := c.Get(ctx, at, secret)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("get Secret %s: %w", at.Name, err)
		}
		isNew := err != nil
		if s, good := readSecret(secret, hosts, keys, now); good {
			return s, nil
		}
		if err := fillSecret(secret, hosts, keys, now); err != nil {
			return nil, err
		}
		if isNew {
			secret.ObjectMeta = metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}
			secret.Type = corev1.SecretTypeTLS
			err = c.Create(ctx, secret)
		} else {
			err = c.Update(ctx, secret)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("write Secret %s: %w", at.Name, err)
		}
	}
	return nil, fmt.Errorf("write Secret %s: others keep changing it", at.Name)
}

func readSecret(secret *corev1.Secret, hosts, keys []string, now time.Time) (*served, bool) {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil || pair.Leaf == nil {
		return nil, false
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data[keyAuthority]) {
		return nil, false
	}
	for _, host := range hosts {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now.Add(renewBefore)}); err != nil {
			return nil, false
		}
	}
	for _, key := range keys {
		if len(secret.Data[key]) == 0 {
			return nil, false
		}
	}
	return &served{pair, secret.Data[keyAuthority], secret.Data}, true
}

func fillSecret(secret *corev1.Secret, hosts, keys []string, now time.Time) error {
	authority, err := pki.NewAuthority("scanyard-registry", now, certificateLifetime)
	if err != nil {
		return err
	}
	leaf, err := authority.Issue(hosts, now, certificateLifetime)
	if err != nil {
		return err
	}
	data := map[string][]byte{corev1.TLSCertKey: leaf.CertPEM, corev1.TLSPrivateKeyKey: leaf.KeyPEM, keyAuthority: authority.CertPEM}
	for _, key := range keys {
		if data[key] = secret.Data[key]; len(data[key]) == 0 {
			data[key] = []byte(rand.Text())
		}
	}
	secret.Data = data
	return nil
}
