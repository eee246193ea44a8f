// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

// everything is the key of what concerns all packages: which sources of data there are. It is not a key of a package.
var everything = protocol.Key("meta", sourceBucket)

// summing hashes parts that cannot run into each other.
type summing struct{ hash.Hash }

func (s summing) add(parts ...[]byte) {
	var size [8]byte
	for _, part := range parts {
		binary.LittleEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = s.Write(size[:]) // a hash takes everything
		_, _ = s.Write(part)
	}
}

func (s summing) value() uint64 {
	sum := s.Sum(nil)
	return binary.BigEndian.Uint64(sum[:8])
}

// indexing walks a database in order.
type indexing struct {
	ctx   context.Context //nolint:containedctx // of one walk
	index protocol.Index
}

func indexOf(ctx context.Context, dir string) (protocol.Index, error) {
	i := &indexing{ctx: ctx}
	err := view(dir, func(tx *bolt.Tx) error { return tx.ForEach(i.bucket) })
	if err != nil {
		return nil, err
	}
	return i.index.Sorted(), nil
}

func (i *indexing) add(key string, value uint64) {
	i.index = append(i.index, protocol.IndexEntry{Key: protocol.KeyHash(key), Value: value})
}

// bucket takes one at the root: the details of vulnerabilities, the sources, or the advisories of a distribution or an ecosystem.
func (i *indexing) bucket(name []byte, b *bolt.Bucket) error {
	switch string(name) {
	case vulnerabilityBucket:
		return b.ForEach(func(id, content []byte) error {
			sum := summing{sha256.New()}
			sum.add(id, content)
			i.add(protocol.Key("vuln", string(id)), sum.value())
			return i.ctx.Err()
		})
	case sourceBucket:
		sum := summing{sha256.New()}
		if err := whole(sum, b); err != nil {
			return err
		}
		i.add(everything, sum.value())
		return nil
	}
	kind := kindOf(string(name))
	return b.ForEachBucket(func(pkg []byte) error {
		sum := summing{sha256.New()}
		sum.add(name, pkg)
		if err := whole(sum, b.Bucket(pkg)); err != nil {
			return err
		}
		value := sum.value()
		for _, key := range keysOfBucket(kind, string(name), string(pkg)) {
			i.add(key, value)
		}
		return i.ctx.Err()
	})
}

// whole sums all that is in a bucket, and in those below.
func whole(sum summing, b *bolt.Bucket) error {
	return b.ForEach(func(key, value []byte) error {
		sum.add(key, value)
		if value != nil {
			return nil
		}
		return whole(sum, b.Bucket(key))
	})
}

func diff(ctx context.Context, call serve.Call) (any, error) {
	var params protocol.DiffParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	to, err := indexOf(ctx, params.ToDir)
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
		from, err = indexOf(ctx, params.FromDir)
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
	if slices.Contains(changed, protocol.KeyHash(everything)) {
		return result, nil
	}
	if _, err := call.WriteFile(params.Out, func(w io.Writer) error { return protocol.WriteHashes(w, changed) }); err != nil {
		return nil, err
	}
	result.Comparable, result.Changed = true, int64(len(changed))
	return result, nil
}

func readIndex(name string) (_ protocol.Index, err error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	if len(content) == 0 {
		return nil, errors.New("read index: the file is empty")
	}
	return protocol.ReadIndex(bytes.NewReader(content))
}
