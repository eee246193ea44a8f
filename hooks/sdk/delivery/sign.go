// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// shortestSecret is the minimum of Standard Webhooks: 192 bits.
const shortestSecret = 24

// Signer signs requests as Standard Webhooks 1.0 says:
//
//	webhook-id:        the request's key, the same for every attempt
//	webhook-timestamp: seconds since 1970, of the attempt
//	webhook-signature: v1,<base64 of HMAC-SHA256 over "id.timestamp.body">, one per secret, separated by spaces
type Signer struct{ secrets [][]byte }

// NewSigner reads secrets separated by white space; several secrets let a receiver change from one to the next. A secret that
// begins with whsec_ is base64 after that, any other is used as its bytes. Errors do not repeat secrets.
func NewSigner(secrets string) (*Signer, error) {
	s := &Signer{}
	for text := range strings.FieldsSeq(secrets) {
		secret := []byte(text)
		if encoded, ok := strings.CutPrefix(text, "whsec_"); ok {
			var err error
			if secret, err = base64.StdEncoding.DecodeString(encoded); err != nil {
				return nil, errors.New("begins with whsec_, but what follows is not base64")
			}
		}
		if len(secret) < shortestSecret {
			return nil, fmt.Errorf("is too short for a signing secret: it must have %d bytes or more", shortestSecret)
		}
		s.secrets = append(s.secrets, secret)
	}
	if len(s.secrets) == 0 {
		return nil, errors.New("holds no signing secret")
	}
	return s, nil
}

// sign adds the three headers. It reads the whole body once.
func (s *Signer) sign(header http.Header, key string, at time.Time, body io.Reader) error {
	stamp := strconv.FormatInt(at.Unix(), 10)
	sums := make([]hash.Hash, 0, len(s.secrets))
	all := make([]io.Writer, 0, len(s.secrets))
	for _, secret := range s.secrets {
		sum := hmac.New(sha256.New, secret)
		sums, all = append(sums, sum), append(all, sum)
	}
	signed := io.MultiWriter(all...)
	if _, err := io.WriteString(signed, key+"."+stamp+"."); err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	if _, err := io.Copy(signed, body); err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	signatures := make([]string, 0, len(sums))
	for _, sum := range sums {
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	}
	header.Set("Webhook-Id", key)
	header.Set("Webhook-Timestamp", stamp)
	header.Set("Webhook-Signature", strings.Join(signatures, " "))
	return nil
}
