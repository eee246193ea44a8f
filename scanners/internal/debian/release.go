// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// release is a signed list of an archive's lists.
type release struct {
	suite, codename string
	date            time.Time
	validUntil      time.Time // zero if it does not say
	files           map[string]fileHash
}

type fileHash struct {
	sha256 string
	size   int64
}

// Keyring are the archive's public keys.
type Keyring = openpgp.EntityList

// ReadKeyring reads public keys, armored or not; several armored blocks may follow each other.
func ReadKeyring(data []byte) (Keyring, error) {
	if !bytes.Contains(data, []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----")) {
		return openpgp.ReadKeyRing(bytes.NewReader(data))
	}
	var all Keyring
	for part := range bytes.SplitSeq(data, []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----")) {
		if len(bytes.TrimSpace(part)) == 0 || !bytes.Contains(part, []byte("-----END PGP PUBLIC KEY BLOCK-----")) {
			continue
		}
		keys, err := openpgp.ReadArmoredKeyRing(io.MultiReader(strings.NewReader("-----BEGIN PGP PUBLIC KEY BLOCK-----"), bytes.NewReader(part)))
		if err != nil {
			return nil, err
		}
		all = append(all, keys...)
	}
	return all, nil
}

// verifyRelease checks the signature of an InRelease file and returns what was signed, and nothing else of it.
func verifyRelease(data []byte, keys Keyring, now time.Time) (*release, error) {
	block, _ := clearsign.Decode(data)
	if block == nil {
		return nil, errors.New("it holds no signed text")
	}
	if _, err := block.VerifySignature(keys, &packet.Config{Time: func() time.Time { return now }}); err != nil {
		return nil, fmt.Errorf("its signature is by none of the archive's keys or is wrong: %w", err)
	}
	return parseRelease(block.Plaintext)
}

func parseRelease(text []byte) (*release, error) {
	var rel *release
	err := stanzas(bytes.NewReader(text), func(f map[string]string) error {
		if rel != nil {
			return errors.New("there is more than one paragraph in it")
		}
		var err error
		rel, err = newRelease(f)
		return err
	})
	if err != nil {
		return nil, err
	}
	if rel == nil || len(rel.files) == 0 {
		return nil, errors.New("it holds no SHA256 hashes")
	}
	return rel, nil
}

func newRelease(f map[string]string) (*release, error) {
	rel := &release{suite: f["Suite"], codename: f["Codename"], files: map[string]fileHash{}}
	var err error
	if rel.date, err = time.Parse(time.RFC1123, f["Date"]); err != nil {
		return nil, fmt.Errorf("its date: %w", err)
	}
	if v := f["Valid-Until"]; v != "" {
		if rel.validUntil, err = time.Parse(time.RFC1123, v); err != nil {
			return nil, fmt.Errorf("its Valid-Until: %w", err)
		}
	}
	for line := range strings.SplitSeq(f["SHA256"], "\n") {
		parts := strings.Fields(line)
		if len(parts) != 3 {
			continue
		}
		size, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil || len(parts[0]) != 64 {
			return nil, fmt.Errorf("its line %q is not a hash", line)
		}
		rel.files[parts[2]] = fileHash{parts[0], size}
	}
	return rel, nil
}
