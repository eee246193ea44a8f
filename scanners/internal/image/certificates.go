// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// certificates are the authorities that Mozilla trusts, in the form that OpenSSL, curl and Go read. Those that
// are trusted for old certificates only are left out: a plain list cannot say "only if issued before".
func certificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}
