// SPDX-License-Identifier: Apache-2.0

package mvcc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Value is a state of a key.
type Value struct {
	// Revision is the change that made this state.
	Revision int64
	// Head is everything but the payload.
	Head []byte
	// Sha is the SHA-256 of the payload, in hex; "" if there is none.
	Sha string
	// Payload is nil where it was not asked for, where there is none, and where it is damaged.
	Payload []byte
	// Damaged tells that the payload in the database is not what was written.
	Damaged bool
}

// Item is a key and its state.
type Item struct {
	Key string
	Value
}

const (
	compressAbove = 1 << 10
	// MaxPayload bounds what is read out of one blob: 64 MiB, the largest body that can be configured.
	MaxPayload = 64 << 20
)

// Codecs of blobs.
const (
	codecRaw  = 0
	codecZstd = 1
)

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// errDamaged is a blob whose bytes are not those that its name says.
var errDamaged = errors.New("stored payload is damaged")

// codec compresses and expands. Its methods may be called concurrently.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newCodec() (*codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(MaxPayload), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	return &codec{encoder: encoder, decoder: decoder}, nil
}

// pack compresses a head that is long enough. A head is JSON, which never begins as a compressed one does.
func (c *codec) pack(head []byte) []byte {
	if len(head) <= compressAbove {
		return head
	}
	return c.encoder.EncodeAll(head, nil)
}

func (c *codec) unpack(stored []byte) ([]byte, error) {
	if !bytes.HasPrefix(stored, zstdMagic) {
		return stored, nil
	}
	head, err := c.decoder.DecodeAll(stored, nil)
	if err != nil {
		return nil, fmt.Errorf("expand the stored object: %w", err)
	}
	return head, nil
}

// blob is a payload as the database keeps it.
type blob struct {
	sha   string
	codec int
	raw   int
	data  []byte
}

// Sum returns the name of a payload.
func Sum(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

func (c *codec) newBlob(payload []byte) *blob {
	b := &blob{sha: Sum(payload), codec: codecZstd, raw: len(payload), data: c.encoder.EncodeAll(payload, nil)}
	if len(b.data) >= len(payload) {
		b.codec, b.data = codecRaw, payload
	}
	return b
}

// open returns the payload, or errDamaged.
func (c *codec) open(sha string, how int, data []byte) ([]byte, error) {
	payload := data
	if how == codecZstd {
		var err error
		if payload, err = c.decoder.DecodeAll(data, nil); err != nil {
			return nil, errDamaged
		}
	}
	if Sum(payload) != sha {
		return nil, errDamaged
	}
	return payload, nil
}
