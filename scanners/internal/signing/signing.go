// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

const (
	// PayloadType is the media type of the document about an image.
	PayloadType = "application/vnd.dev.cosign.simplesigning.v1+json"
	// Annotation is the annotation of the layer with the document that holds the signature.
	Annotation = "dev.cosignproject.cosign/signature"
)

// Key is a private key.
type Key struct{ private *ecdsa.PrivateKey }

// String says nothing of the key.
func (Key) String() string { return "[a private key]" }

// GoString says nothing of the key.
func (Key) GoString() string { return "[a private key]" }

// ErrPassword says that a key is encrypted and the password is not its own.
var ErrPassword = errors.New("the key is encrypted, and COSIGN_PASSWORD is not its password")

// ReadKey reads a private key in PEM: cosign's own form (cosign generate-key-pair), which is encrypted with a password, PKCS #8 or SEC 1.
func ReadKey(text, password []byte) (Key, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return Key{}, errors.New("must be a private key in PEM")
	}
	der := block.Bytes
	switch block.Type {
	case "ENCRYPTED SIGSTORE PRIVATE KEY", "ENCRYPTED COSIGN PRIVATE KEY":
		var err error
		if der, err = encrypted.Decrypt(der, password); err != nil {
			return Key{}, ErrPassword
		}
	case "EC PRIVATE KEY":
		key, err := x509.ParseECPrivateKey(der)
		return newKey(key, err)
	case "PRIVATE KEY":
	default:
		return Key{}, fmt.Errorf("must be a private key, and is a %q; encrypted keys must be cosign's (cosign generate-key-pair)", block.Type)
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	return newKey(key, err)
}

func newKey(key any, err error) (Key, error) {
	if err != nil {
		return Key{}, fmt.Errorf("read the key: %w", err)
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return Key{}, errors.New("must be an ECDSA key on the curve P-256, as cosign makes it")
	}
	return Key{private}, nil
}

// Public is the public key in PEM, as verifiers read it.
func (k Key) Public() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(k.private.Public())
	if err != nil {
		return nil, fmt.Errorf("write the public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// Sign signs content, and returns the signature in base64.
func (k Key) Sign(content []byte) (string, error) {
	sum := sha256.Sum256(content)
	raw, err := k.private.Sign(nil, sum[:], crypto.SHA256) // without randomness: RFC 6979
	if err != nil {
		return "", fmt.Errorf("sign: %w", err)
	}
	return base64.StdEncoding.EncodeToString(raw), nil
}

// payload is the document about an image.
type payload struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional *struct{} `json:"optional"`
}

// Payload is what is signed of an image: the repository, as registry.example.com/scanyard/operator, and the digest.
func Payload(repository, digest string) ([]byte, error) {
	var p payload
	p.Critical.Identity.Reference, p.Critical.Image.Digest = repository, digest
	p.Critical.Type = "cosign container image signature"
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("describe image: %w", err)
	}
	return text, nil
}
