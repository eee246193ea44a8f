// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Key makes the text of a key, kind|name in lower case.
func Key(kind, name string) string { return strings.ToLower(kind + "|" + name) }

// KeyHash is the first 8 bytes of the SHA-256 of a key, or of anything else that is compared by its hash.
func KeyHash(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:8])
}

// Index tells two databases apart: the hash of each key with the hash of its values, sorted by key.
type Index []IndexEntry

// IndexEntry is one key.
type IndexEntry struct{ Key, Value uint64 }

// indexEntry is the size of an entry, hashEntry that of a hash, in bytes.
const (
	indexEntry = 16
	hashEntry  = 8
)

// NewIndex hashes keys and their values.
func NewIndex(values map[string]string) Index {
	index := make(Index, 0, len(values))
	for key, value := range values {
		index = append(index, IndexEntry{Key: KeyHash(key), Value: KeyHash(value)})
	}
	return index.Sorted()
}

// Sorted orders an index by key. Keys of one hash become one entry.
func (i Index) Sorted() Index {
	slices.SortFunc(i, func(a, b IndexEntry) int {
		switch {
		case a.Key < b.Key, a.Key == b.Key && a.Value < b.Value:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	merged := i[:0]
	for _, entry := range i {
		if last := len(merged) - 1; last >= 0 && merged[last].Key == entry.Key {
			merged[last].Value = merged[last].Value*31 + entry.Value
			continue
		}
		merged = append(merged, entry)
	}
	return merged
}

// Changed gives the keys whose values differ, sorted.
func (i Index) Changed(other Index) []uint64 {
	var changed []uint64
	a, b := 0, 0
	for a < len(i) || b < len(other) {
		switch {
		case b == len(other) || a < len(i) && i[a].Key < other[b].Key:
			changed = append(changed, i[a].Key)
			a++
		case a == len(i) || other[b].Key < i[a].Key:
			changed = append(changed, other[b].Key)
			b++
		default:
			if i[a].Value != other[b].Value {
				changed = append(changed, i[a].Key)
			}
			a++
			b++
		}
	}
	return changed
}

// Write stores an index, little endian.
func (i Index) Write(w io.Writer) error {
	buffer := bufio.NewWriter(w)
	var entry [indexEntry]byte
	for _, e := range i {
		binary.LittleEndian.PutUint64(entry[:8], e.Key)
		binary.LittleEndian.PutUint64(entry[8:], e.Value)
		if _, err := buffer.Write(entry[:]); err != nil {
			return fmt.Errorf("write index: %w", err)
		}
	}
	if err := buffer.Flush(); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

// ReadIndex reads what Write has stored.
func ReadIndex(r io.Reader) (Index, error) {
	buffer := bufio.NewReader(r)
	var index Index
	var entry [indexEntry]byte
	for {
		switch _, err := io.ReadFull(buffer, entry[:]); {
		case errors.Is(err, io.EOF):
			return index, nil
		case err != nil:
			return nil, fmt.Errorf("read index: %w", err)
		}
		e := IndexEntry{Key: binary.LittleEndian.Uint64(entry[:8]), Value: binary.LittleEndian.Uint64(entry[8:])}
		if len(index) > 0 && index[len(index)-1].Key >= e.Key {
			return nil, errors.New("read index: keys are not in order")
		}
		index = append(index, e)
	}
}

// WriteHashes stores sorted hashes, little endian.
func WriteHashes(w io.Writer, hashes []uint64) error {
	buffer := bufio.NewWriter(w)
	var entry [hashEntry]byte
	for _, hash := range hashes {
		binary.LittleEndian.PutUint64(entry[:], hash)
		if _, err := buffer.Write(entry[:]); err != nil {
			return fmt.Errorf("write hashes: %w", err)
		}
	}
	if err := buffer.Flush(); err != nil {
		return fmt.Errorf("write hashes: %w", err)
	}
	return nil
}

// ReadHashes reads what WriteHashes has stored.
func ReadHashes(r io.Reader) ([]uint64, error) {
	buffer := bufio.NewReader(r)
	var hashes []uint64
	var entry [hashEntry]byte
	for {
		switch _, err := io.ReadFull(buffer, entry[:]); {
		case errors.Is(err, io.EOF):
			return hashes, nil
		case err != nil:
			return nil, fmt.Errorf("read hashes: %w", err)
		}
		hash := binary.LittleEndian.Uint64(entry[:])
		if len(hashes) > 0 && hashes[len(hashes)-1] >= hash {
			return nil, errors.New("read hashes: they are not in order")
		}
		hashes = append(hashes, hash)
	}
}
