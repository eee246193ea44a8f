// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
)

// Meter says which bytes have passed.
type Meter struct {
	hash hash.Hash
	size int64
}

// NewMeter returns a Meter that no byte has passed.
func NewMeter() *Meter { return &Meter{hash: sha256.New()} }

// Add counts and hashes bytes.
func (m *Meter) Add(p []byte) {
	m.size += int64(len(p))
	_, _ = m.hash.Write(p) // never fails
}

// Stored describes the bytes so far.
func (m *Meter) Stored() Stored {
	return Stored{Size: m.size, SHA256: hex.EncodeToString(m.hash.Sum(nil))}
}

// Reader reads bytes that have to be what was stored. Where they are not it fails with the error that is given; their end
// comes only when the whole was right.
func (s Stored) Reader(body io.ReadCloser, changed error) io.ReadCloser {
	return &checkedReader{ReadCloser: body, want: s, changed: changed, read: NewMeter()}
}

type checkedReader struct {
	io.ReadCloser

	want    Stored
	changed error
	read    *Meter
}

// Read reads, counts and compares.
func (c *checkedReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read.Add(p[:n])
	switch {
	case c.read.size > c.want.Size:
		return 0, c.changed
	case errors.Is(err, io.EOF) && c.read.Stored() != c.want:
		return 0, c.changed
	}
	return n, err
}
