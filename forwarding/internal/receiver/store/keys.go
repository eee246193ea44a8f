// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
)

// What a key begins with.
const (
	prefixRecord   = 0x02 // number of arrival → stream, time, record
	prefixIdentity = 0x03 // hash of the identity → digest, number of arrival
	prefixStream   = 0x04 // hash of the stream → state
	prefixPlace    = 0x05 // stream, sequence, number of arrival → digest
	prefixConflict = 0x06 // hash of the identity, digest → stream, time, record that was set aside
	prefixCounters = 0x07
)

const (
	identitySize = 16
	placeSize    = 1 + 3*8
)

func recordKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{prefixRecord}, number)
}

// hashOf joins parts so that no two lists of parts give the same hash.
func hashOf(prefix byte, parts ...string) []byte {
	joined := make([]byte, 0, 256)
	for _, part := range parts {
		joined = binary.BigEndian.AppendUint32(joined, uint32(len(part)))
		joined = append(joined, part...)
	}
	sum := sha256.Sum256(joined)
	return append([]byte{prefix}, sum[:identitySize]...)
}

func identityKey(authority string, stream *forwardingv1.StreamId, eventID string) []byte {
	return hashOf(prefixIdentity, authority, stream.GetClusterId(), stream.GetTenant(), eventID)
}

func streamKey(authority string, stream *forwardingv1.StreamId) []byte {
	var numbers [8]byte
	binary.BigEndian.PutUint32(numbers[:4], uint32(stream.GetKind()))
	binary.BigEndian.PutUint32(numbers[4:], stream.GetRevision())
	return hashOf(prefixStream, authority, stream.GetClusterId(), stream.GetTenant(), stream.GetName(), stream.GetUid(), string(numbers[:]))
}

func placeKey(stream, sequence, number uint64) []byte {
	key := append(make([]byte, 0, placeSize), prefixPlace)
	key = binary.BigEndian.AppendUint64(key, stream)
	key = binary.BigEndian.AppendUint64(key, sequence)
	return binary.BigEndian.AppendUint64(key, number)
}

// placeRange holds the places of a stream.
func placeRange(stream uint64) (from, to []byte) {
	return binary.BigEndian.AppendUint64([]byte{prefixPlace}, stream), binary.BigEndian.AppendUint64([]byte{prefixPlace}, stream+1)
}

func conflictKey(identity, digest []byte) []byte {
	key := append(make([]byte, 0, len(identity)+len(digest)), prefixConflict)
	key = append(key, identity[1:]...)
	return append(key, digest...)
}

var errShort = errors.New("the value is shorter than its kind")

// identity is what is known under an identity.
type identity struct {
	digest []byte
	number uint64
}

func (i identity) encode() []byte {
	value := append(make([]byte, 0, forwardingv1.DigestSize+8), i.digest...)
	return binary.BigEndian.AppendUint64(value, i.number)
}

func decodeIdentity(value []byte) (identity, error) {
	if len(value) != forwardingv1.DigestSize+8 {
		return identity{}, errShort
	}
	return identity{digest: append([]byte(nil), value[:forwardingv1.DigestSize]...), number: binary.BigEndian.Uint64(value[forwardingv1.DigestSize:])}, nil
}

const recordHeader = 8 + 8

// appendRecord is the value of a record: its stream, the time of its arrival and its bytes as the protocol has them, with all fields that we do not know.
func appendRecord(to []byte, stream uint64, received int64, encoded []byte) []byte {
	to = binary.BigEndian.AppendUint64(to, stream)
	to = binary.BigEndian.AppendUint64(to, uint64(received))
	return append(to, encoded...)
}

// Counters count records since the store was made.
type Counters struct {
	Received   uint64 `json:"received"`
	Stored     uint64 `json:"stored"`
	Duplicates uint64 `json:"duplicates"`
	Conflicts  uint64 `json:"conflicts"`
	Rejected   uint64 `json:"rejected"`
}

// counters are Counters with the numbers that were given out.
type counters struct {
	Counters

	lastRecord, lastStream uint64
}

func (c counters) encode() []byte {
	value := make([]byte, 0, 7*8)
	for _, number := range []uint64{c.Received, c.Stored, c.Duplicates, c.Conflicts, c.Rejected, c.lastRecord, c.lastStream} {
		value = binary.BigEndian.AppendUint64(value, number)
	}
	return value
}

func decodeCounters(value []byte) (counters, error) {
	if len(value) != 7*8 {
		return counters{}, errShort
	}
	at := func(i int) uint64 { return binary.BigEndian.Uint64(value[8*i:]) }
	return counters{
		Counters:   Counters{Received: at(0), Stored: at(1), Duplicates: at(2), Conflicts: at(3), Rejected: at(4)},
		lastRecord: at(5), lastStream: at(6),
	}, nil
}
