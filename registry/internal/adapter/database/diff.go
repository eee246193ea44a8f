// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

// Everything is the key of what concerns all packages. It is not a key of a package.
var Everything = protocol.Key("meta", "everything")

// Indexer walks a database, and hashes what it says of each key.
type Indexer func(ctx context.Context, dir string) (protocol.Index, error)

// Diff answers db-diff.
func (index Indexer) Diff(ctx context.Context, call serve.Call) (any, error) {
	var params protocol.DiffParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	to, err := index(ctx, params.ToDir)
	if err != nil {
		return nil, err
	}
	result := protocol.DiffResult{Total: int64(len(to))}
	if _, err := call.WriteFile(params.IndexOut, to.Write); err != nil {
		return nil, err
	}
	var from protocol.Index
	switch {
	case params.FromIndex != "":
		from, err = readIndex(params.FromIndex)
	case params.FromDir != "":
		from, err = index(ctx, params.FromDir)
	default:
		return result, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return result, nil //nolint:nilerr // an index that is lost makes the databases incomparable
	}
	changed := from.Changed(to)
	if slices.Contains(changed, protocol.KeyHash(Everything)) {
		return result, nil
	}
	if _, err := call.WriteFile(params.Out, func(w io.Writer) error { return protocol.WriteHashes(w, changed) }); err != nil {
		return nil, err
	}
	result.Comparable, result.Changed = true, int64(len(changed))
	return result, nil
}

func readIndex(name string) (protocol.Index, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	defer f.Close() //nolint:errcheck // what was only read
	index, err := protocol.ReadIndex(f)
	if err == nil && len(index) == 0 {
		return nil, errors.New("read index: the file is empty")
	}
	return index, err
}

// Sum hashes parts that cannot run into each other.
type Sum struct{ hash hash.Hash }

// NewSum makes a Sum of nothing.
func NewSum() Sum { return Sum{sha256.New()} }

// Add takes parts, in order.
func (s Sum) Add(parts ...[]byte) {
	var size [8]byte
	for _, part := range parts {
		binary.LittleEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = s.hash.Write(size[:]) // a hash takes everything
		_, _ = s.hash.Write(part)
	}
}

// Value is that of an entry of an index.
func (s Sum) Value() uint64 {
	sum := s.hash.Sum(nil)
	return binary.BigEndian.Uint64(sum[:8])
}
