// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestKeys reads a key in each form, and verifies with the standard library what it has signed.
func TestKeys(t *testing.T) {
	private := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	pkcs8 := must[[]byte](t)(x509.MarshalPKCS8PrivateKey(private))
	forms := map[string]*pem.Block{
		"PKCS8":  {Type: "PRIVATE KEY", Bytes: pkcs8},
		"SEC1":   {Type: "EC PRIVATE KEY", Bytes: must[[]byte](t)(x509.MarshalECPrivateKey(private))},
		"Cosign": {Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: must[[]byte](t)(encrypted.Encrypt(pkcs8, []byte("geheim")))},
	}
	signatures := map[string]bool{}
	for name, block := range forms {
		key, err := ReadKey(pem.EncodeToMemory(block), []byte("geheim"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		signature := must[string](t)(key.Sign([]byte("content")))
		signatures[signature] = true
		public, _ := pem.Decode(must[[]byte](t)(key.Public()))
		parsed := must[any](t)(x509.ParsePKIXPublicKey(public.Bytes))
		sum := sha256.Sum256([]byte("content"))
		if !ecdsa.VerifyASN1(parsed.(*ecdsa.PublicKey), sum[:], must[[]byte](t)(base64.StdEncoding.DecodeString(signature))) {
			t.Errorf("%s: the signature is not of the key", name)
		}
		if said := fmt.Sprintf("%v %+v %#v", key, key, key); strings.Count(said, "[a private key]") != 3 {
			t.Errorf("%s prints itself: %s", name, said)
		}
	}
	if len(signatures) != 1 {
		t.Errorf("one key and one content have %d signatures", len(signatures))
	}
	if _, err := ReadKey(pem.EncodeToMemory(forms["Cosign"]), []byte("wrong")); !errors.Is(err, ErrPassword) {
		t.Errorf("a wrong password: %v", err)
	}
}

func TestKeysThatAreNone(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	larger := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	for name, tc := range map[string]struct {
		text []byte
		want string
	}{
		"Text":    {[]byte("key"), "in PEM"},
		"Ed25519": {block("PRIVATE KEY", must[[]byte](t)(x509.MarshalPKCS8PrivateKey(edwards))), "P-256"},
		"P384":    {block("PRIVATE KEY", must[[]byte](t)(x509.MarshalPKCS8PrivateKey(larger))), "P-256"},
		"Public":  {block("PUBLIC KEY", []byte("x")), `is a "PUBLIC KEY"`},
		"Broken":  {block("PRIVATE KEY", []byte("x")), "read the key"},
	} {
		if _, err := ReadKey(tc.text, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, tc.want)
		}
	}
}

// TestPayload holds the document to the form that cosign's specification shows.
func TestPayload(t *testing.T) {
	got := string(must[[]byte](t)(Payload("registry.example.com/scanyard/operator", "sha256:abc")))
	want := `{"critical":{"identity":{"docker-reference":"registry.example.com/scanyard/operator"},"image":{"docker-manifest-digest":"sha256:abc"},` +
		`"type":"cosign container image signature"},"optional":null}`
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
