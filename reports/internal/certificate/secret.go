// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/scanyard/scanyard/apis/pki"
)

const (
	// BundleKey is where in the Secret the authorities are that clients have to trust.
	BundleKey = "ca.crt"

	authorityKeyKey = "ca.key"
	authorityName   = "scanyard-reports-ca"
	description     = "Authority and certificate of the reports API server. Made anew when they are removed from this Secret."
)

// parse reads a Secret; nil says that it holds no authority that can be used.
func parse(s *corev1.Secret) *material {
	trusted, err := pki.ParseCertificates(s.Data[BundleKey])
	if err != nil || len(trusted) == 0 {
		return nil
	}
	authority, err := pki.Parse(s.Data[BundleKey], s.Data[authorityKeyKey])
	if err != nil {
		return nil
	}
	m := &material{authority: authority, trusted: trusted}
	if leaf, err := pki.Parse(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err == nil {
		m.leaf = leaf
	}
	return m
}

// fill writes material into a Secret.
func fill(s *corev1.Secret, m *material) {
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations["description"] = description
	s.Data = map[string][]byte{
		BundleKey: m.bundle(), authorityKeyKey: m.authority.KeyPEM,
		corev1.TLSCertKey: m.leaf.CertPEM, corev1.TLSPrivateKeyKey: m.leaf.KeyPEM,
	}
}
