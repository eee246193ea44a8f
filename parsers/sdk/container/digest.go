// SPDX-License-Identifier: Apache-2.0

package container

import (
	"io"
	"sync"

	"github.com/scanyard/scanyard/apis/outcome"
)

// digest computes the digest of the last attempt of an upload. A parser that encrypts sends other bytes each time.
type digest struct {
	open func() (io.ReadCloser, error)
	last *digestReader
}

// Open starts an attempt.
func (d *digest) Open() (io.ReadCloser, error) {
	from, err := d.open()
	if err != nil {
		return nil, err
	}
	d.last = &digestReader{ReadCloser: from, read: outcome.NewMeter()}
	return d.last, nil
}

// stored is what an upload that has gone well has stored.
func (d *digest) stored() outcome.Stored {
	d.last.mu.Lock()
	defer d.last.mu.Unlock()
	return d.last.read.Stored()
}

// digestReader has a lock, since the connection may still hold it for a moment when the upload is over.
type digestReader struct {
	io.ReadCloser

	mu   sync.Mutex
	read *outcome.Meter
}

// Read reads and counts.
func (r *digestReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read.Add(p[:n])
	return n, err
}
