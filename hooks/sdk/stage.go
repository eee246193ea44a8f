// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/scanyard/scanyard/apis/outcome"
)

// bufferLimit is the size up to which an output is kept in memory instead of being made twice.
const bufferLimit = 4 << 20

// ErrNotRepeatable says that an output was different when it was made again: its source has changed in between, or the hook
// is not deterministic.
var ErrNotRepeatable = errors.New("the output differs from what was counted before; the findings changed meanwhile, or the hook is not deterministic")

// Produce writes an output. It may be called several times and must write the same bytes each time.
type Produce func(ctx context.Context, w io.Writer) error

// Staged is an output of known size that can be read any number of times without being held in memory.
type Staged struct {
	ctx     context.Context //nolint:containedctx // lives as long as the upload it is made for
	produce Produce
	size    int64
	sum     [sha256.Size]byte
	small   []byte // the whole output, unless it is large
}

// Stage makes an output once, to know its size.
func Stage(ctx context.Context, produce Produce) (*Staged, error) {
	m := &measure{hash: sha256.New()}
	if err := produce(ctx, m); err != nil {
		return nil, err
	}
	s := &Staged{ctx: ctx, produce: produce, size: m.size}
	m.hash.Sum(s.sum[:0])
	if m.size <= bufferLimit {
		s.small = m.buffer.Bytes()
	}
	return s, nil
}

// Size is the output's length in bytes.
func (s *Staged) Size() int64 { return s.size }

// Stored is the size and digest of the output.
func (s *Staged) Stored() outcome.Stored {
	return outcome.Stored{Size: s.size, SHA256: hex.EncodeToString(s.sum[:])}
}

// Open reads the output from its beginning. The last bytes come only after the whole was compared with the counted output, so a
// reader that needs all Size bytes never takes a different output for this one.
func (s *Staged) Open() (io.ReadCloser, error) {
	if s.size <= bufferLimit {
		return io.NopCloser(bytes.NewReader(s.small)), nil
	}
	ctx, cancel := context.WithCancel(s.ctx)
	r, w := io.Pipe()
	go func() {
		held := &holdBack{to: w, hash: sha256.New()}
		err := s.produce(ctx, held)
		if err == nil {
			err = held.release(s.sum)
		}
		// Without an error this is the end of the stream. A pipe closes without errors of its own.
		_ = w.CloseWithError(err)
	}()
	return &stream{PipeReader: r, cancel: cancel}, nil
}

// stream stops producing an output that is not read any more.
type stream struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close stops producing the output.
func (s *stream) Close() error {
	// In this order, so that a reader sees the close and not its effect on the source.
	err := s.PipeReader.Close()
	s.cancel()
	return err
}

// measure counts and keeps what fits.
type measure struct {
	buffer bytes.Buffer
	size   int64
	hash   hash.Hash
}

func (m *measure) Write(p []byte) (int, error) {
	m.size += int64(len(p))
	if m.size <= bufferLimit {
		m.buffer.Write(p)
	} else {
		m.buffer = bytes.Buffer{}
	}
	return m.hash.Write(p)
}

// holdBack passes everything on but the last write.
type holdBack struct {
	to      io.Writer
	hash    hash.Hash
	pending []byte
}

func (h *holdBack) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(h.pending) > 0 {
		if _, err := h.to.Write(h.pending); err != nil {
			return 0, err
		}
	}
	h.pending = append(h.pending[:0], p...)
	return h.hash.Write(p)
}

func (h *holdBack) release(want [sha256.Size]byte) error {
	if !bytes.Equal(h.hash.Sum(nil), want[:]) {
		return ErrNotRepeatable
	}
	if _, err := h.to.Write(h.pending); err != nil {
		return fmt.Errorf("pass output on: %w", err)
	}
	return nil
}
