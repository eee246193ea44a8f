// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

const (
	prefixMeta    = 0x01
	prefixFrame   = 0x02
	prefixCursor  = 0x03
	prefixDead    = 0x04
	prefixSession = 0x05
	prefixTenant  = 0x06
	prefixSink    = 0x07
	prefixKey     = 0x08
)

// frameBytes bounds the raw bytes of a frame of more than one record.
const frameBytes = 256 << 10

// overhead is what a record counts beyond its bytes.
const overhead = 64

// Versions that begin a frame: readable by all, or sealed by a key.
const (
	frameVersion = 1
	sealedFrame  = 2
)

// frameHead is version, count, raw bytes, time and digest.
const frameHead = 1 + 4 + 8 + 8 + sha256.Size

// Record is one record in the queue.
type Record struct {
	// Sequence is the number of the record in its tenant's queue, from 1.
	Sequence uint64
	ID       string
	// Time is when the record came in.
	Time time.Time
	// Line is the line of a decision. Of a record that came as a message Line is nil.
	Line []byte
	// Stream and Message are protobuf, of a record that came as a message.
	Stream, Message []byte
	// Decoded is what Message says, as long as the record has not been read from disk. Nobody changes it.
	Decoded *forwardingv1.Record `json:"-"`
	// Metadata is what the exporter knows about the record's producer.
	Metadata map[string]string
}

// Size is what the record counts towards quotas.
func (r *Record) Size() int64 { return int64(len(r.Line)+len(r.Message)) + overhead }

func key(prefix byte, parts ...any) []byte {
	k := []byte{prefix}
	for _, part := range parts {
		switch p := part.(type) {
		case uint32:
			k = binary.BigEndian.AppendUint32(k, p)
		case uint64:
			k = binary.BigEndian.AppendUint64(k, p)
		case string:
			k = append(k, p...)
		}
	}
	return k
}

// codec compresses and reads frames. A codec is for one goroutine.
type codec struct {
	keys    *keyring
	encoder *zstd.Encoder
	decoder *zstd.Decoder
	raw     []byte
	frame   []byte // what putFrames made last
}

func newCodec(keys *keyring) (*codec, error) {
	encoder, err := zstd.NewWriter(
		nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10),
		zstd.WithLowerEncoderMem(true), zstd.WithNoEntropyCompression(true), // which would take as much time as finding what repeats
	)
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20), zstd.WithDecoderLowmem(true))
	return &codec{keys: keys, encoder: encoder, decoder: decoder}, err
}

func appendBytes[T string | []byte](dst []byte, b T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// encode appends the frame of records, whose key in the queue is place.
func (c *codec) encode(dst, place []byte, records []*Record, now time.Time) []byte {
	raw, size := c.raw[:0], int64(0)
	for _, r := range records {
		size += r.Size()
		raw = appendBytes(raw, r.ID)
		raw = binary.AppendVarint(raw, r.Time.UnixNano())
		for _, b := range [][]byte{r.Line, r.Stream, r.Message} {
			raw = appendBytes(raw, b)
		}
		raw = binary.AppendUvarint(raw, uint64(len(r.Metadata)))
		for _, k := range slices.Sorted(maps.Keys(r.Metadata)) {
			raw = appendBytes(appendBytes(raw, k), r.Metadata[k])
		}
	}
	start, version := len(dst), byte(frameVersion)
	if c.keys.seals() {
		version = sealedFrame
	}
	dst = append(dst, version)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(records)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(size))
	dst = binary.BigEndian.AppendUint64(dst, uint64(now.UnixNano()))
	if c.raw = raw; cap(c.raw) > 4*frameBytes {
		c.raw = nil
	}
	if version == frameVersion {
		digest := sha256.Sum256(raw)
		return c.encoder.EncodeAll(raw, append(dst, digest[:]...))
	}
	// The digest of a sealed frame is that of what is on disk: one of the records would tell about them.
	sealed := c.keys.seal(nil, c.encoder.EncodeAll(raw, nil), about(dst[start:], place))
	digest := sha256.Sum256(sealed)
	return append(append(dst, digest[:]...), sealed...)
}

// about is what a sealed frame is bound to: its head without the digest, and its place.
func about(head, place []byte) []byte { return slices.Concat(head, place) }

// frame is the head of a frame.
type frame struct {
	count uint32
	size  int64
	time  time.Time
}

func decodeHead(value []byte) (frame, error) {
	if len(value) < frameHead || value[0] != frameVersion && value[0] != sealedFrame {
		return frame{}, errors.New("the frame has no head")
	}
	return frame{
		count: binary.BigEndian.Uint32(value[1:]), size: int64(binary.BigEndian.Uint64(value[5:])), time: time.Unix(0, int64(binary.BigEndian.Uint64(value[13:]))),
	}, nil
}

// digestAt is where the digest is in the head.
const digestAt = frameHead - sha256.Size

// raws gives the bytes that were encoded.
func (c *codec) raws(place, value []byte) ([]byte, error) {
	mismatch := errors.New("the frame does not match its digest")
	packed := value[frameHead:]
	if value[0] == sealedFrame {
		if digest := sha256.Sum256(packed); !bytes.Equal(digest[:], value[digestAt:frameHead]) {
			return nil, mismatch
		}
		var err error
		if packed, err = c.keys.open(packed, about(value[:digestAt], place)); err != nil {
			return nil, err
		}
	}
	raw, err := c.decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("the frame is not readable: %w", err)
	}
	if digest := sha256.Sum256(raw); value[0] == frameVersion && !bytes.Equal(digest[:], value[digestAt:frameHead]) {
		return nil, mismatch
	}
	return raw, nil
}

// frameKeySize is the size of the key of a frame, which ends in the sequence of its last record.
const frameKeySize = 1 + 4 + 8

// decode reads the frame whose key is place.
func (c *codec) decode(place, value []byte) ([]*Record, error) {
	head, err := decodeHead(value)
	if err != nil {
		return nil, err
	}
	if len(place) != frameKeySize {
		return nil, errors.New("the key of the frame is cut")
	}
	last := binary.BigEndian.Uint64(place[5:])
	raw, err := c.raws(place, value)
	if err != nil {
		return nil, err
	}
	if uint64(head.count) > last || int(head.count) > len(raw) {
		return nil, errors.New("the frame counts more records than there are")
	}
	records := make([]*Record, 0, head.count)
	rest := reader{raw}
	for i := range uint64(head.count) {
		r := &Record{Sequence: last - uint64(head.count) + 1 + i, ID: string(rest.bytes()), Time: time.Unix(0, rest.varint())}
		r.Line, r.Stream, r.Message = rest.bytes(), rest.bytes(), rest.bytes()
		if n := rest.uvarint(); n > 0 && n <= uint64(len(rest.left)) {
			r.Metadata = make(map[string]string, n)
			for range n {
				k := string(rest.bytes())
				r.Metadata[k] = string(rest.bytes())
			}
		}
		records = append(records, r)
	}
	return records, nil
}

// reader reads what the digest has proved; short data reads as nothing.
type reader struct{ left []byte }

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.left)
	r.left = r.left[max(size, 0):]
	return n
}

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.left)
	r.left = r.left[max(size, 0):]
	return n
}

func (r *reader) bytes() []byte {
	n := min(r.uvarint(), uint64(len(r.left)))
	b := r.left[:n:n]
	r.left = r.left[n:]
	if n == 0 {
		return nil
	}
	return b
}
