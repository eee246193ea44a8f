// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/crypto/chacha20poly1305"
)

// KeySize is the size of a key that seals records.
const KeySize = chacha20poly1305.KeySize

// keyIDSize is the size of what names a key in a frame.
const keyIDSize = 8

// sealedLetter begins a dead letter that is sealed. One that is not begins with a brace.
const sealedLetter = 0x80

var errChanged = errors.New("what is sealed was changed")

// KeyError is something sealed by a key that was not given.
type KeyError struct{ Dir, ID string }

// Error names the key and the remedy.
func (e *KeyError) Error() string {
	return fmt.Sprintf("%s holds records that are sealed by the key %s: name its file by --encryption-key-file as well", e.Dir, e.ID)
}

// keyring seals by its first key, and opens by each. An empty one leaves everything as it is.
type keyring struct {
	first string
	byID  map[string]cipher.AEAD
}

func newKeyring(keys [][]byte) (*keyring, error) {
	k := &keyring{byID: map[string]cipher.AEAD{}}
	for _, secret := range keys {
		aead, err := chacha20poly1305.NewX(secret)
		if err != nil {
			return nil, fmt.Errorf("a key has %d bytes, and must have %d", len(secret), KeySize)
		}
		id := keyID(secret)
		k.byID[id] = aead
		if k.first == "" {
			k.first = id
		}
	}
	return k, nil
}

// keyID names a key and does not tell it.
func keyID(secret []byte) string {
	digest := sha256.Sum256(append([]byte("scanyard queue key\x00"), secret...))
	return string(digest[:keyIDSize])
}

// KeyID is the name of a key as errors and people write it.
func KeyID(secret []byte) string { return hex.EncodeToString([]byte(keyID(secret))) }

func (k *keyring) seals() bool { return k.first != "" }

// seal appends the key's id, a nonce and the sealed text. about is bound to the text, and is not in it.
func (k *keyring) seal(dst, text, about []byte) []byte {
	nonce := make([]byte, chacha20poly1305.NonceSizeX)
	_, _ = rand.Read(nonce) // it never fails: see crypto/rand
	dst = append(append(dst, k.first...), nonce...)
	return k.byID[k.first].Seal(dst, nonce, text, about)
}

// open gives the text of what seal appended.
func (k *keyring) open(sealed, about []byte) ([]byte, error) {
	id := sealedBy(sealed)
	if id == "" || len(sealed) < keyIDSize+chacha20poly1305.NonceSizeX {
		return nil, errChanged
	}
	aead := k.byID[id]
	if aead == nil {
		return nil, fmt.Errorf("it is sealed by the key %x, which was not given", id)
	}
	nonce, text := sealed[keyIDSize:keyIDSize+chacha20poly1305.NonceSizeX], sealed[keyIDSize+chacha20poly1305.NonceSizeX:]
	opened, err := aead.Open(nil, nonce, text, about)
	if err != nil {
		return nil, errChanged
	}
	return opened, nil
}

// sealedBy gives the id of the key of what seal appended; "" where that is cut.
func sealedBy(sealed []byte) string {
	if len(sealed) < keyIDSize {
		return ""
	}
	return string(sealed[:keyIDSize])
}

// sealLetter seals a dead letter for its place.
func (k *keyring) sealLetter(place, letter []byte) []byte {
	if !k.seals() {
		return letter
	}
	return k.seal([]byte{sealedLetter}, letter, place)
}

func (k *keyring) openLetter(place, value []byte) ([]byte, error) {
	if !bytes.HasPrefix(value, []byte{sealedLetter}) {
		return value, nil
	}
	return k.open(value[1:], place)
}

// checkKeys compares the keys that the queue has seen with those that were given. A key that nothing is sealed by any more is forgotten.
func (q *Queue) checkKeys() error {
	var missing []string
	err := q.scan(prefixKey, func(id, _ []byte) error {
		if q.keys.byID[string(id)] == nil {
			missing = append(missing, string(id))
		}
		return nil
	})
	if err != nil {
		return &DamagedError{Dir: q.options.Dir, Err: err}
	}
	for _, id := range missing {
		used, err := q.sealsSomething(id)
		if err != nil {
			return &DamagedError{Dir: q.options.Dir, Err: err}
		}
		if used {
			return &KeyError{Dir: q.options.Dir, ID: hex.EncodeToString([]byte(id))}
		}
		if q.options.ReadOnly {
			continue
		}
		if err := q.db.Delete(key(prefixKey, id), pebble.Sync); err != nil {
			return err
		}
	}
	if !q.keys.seals() || q.options.ReadOnly {
		return nil
	}
	return q.db.Set(key(prefixKey, q.keys.first), nil, pebble.Sync)
}

// sealsSomething looks for what is sealed by a key.
func (q *Queue) sealsSomething(id string) (used bool, err error) {
	err = q.scan(prefixFrame, func(_, v []byte) error {
		used = used || len(v) > frameHead && v[0] == sealedFrame && sealedBy(v[frameHead:]) == id
		return nil
	})
	if err != nil {
		return used, err
	}
	err = q.scan(prefixDead, func(_, v []byte) error {
		used = used || len(v) > 1 && v[0] == sealedLetter && sealedBy(v[1:]) == id
		return nil
	})
	return used, err
}
