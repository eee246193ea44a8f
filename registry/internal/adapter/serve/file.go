// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

const filePermissions = 0o600

// WriteFile makes a file of the request and tells its sum.
func (c Call) WriteFile(name string, write func(w io.Writer) error) (file protocol.File, err error) {
	path, err := c.Path(name)
	if err != nil {
		return protocol.File{}, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, filePermissions)
	if err != nil {
		return protocol.File{}, fmt.Errorf("make document: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := &summed{hash: sha256.New()}
	buffer := bufio.NewWriter(io.MultiWriter(f, sum))
	if err := write(buffer); err != nil {
		return protocol.File{}, fmt.Errorf("write document: %w", err)
	}
	if err := buffer.Flush(); err != nil {
		return protocol.File{}, fmt.Errorf("write document: %w", err)
	}
	return protocol.File{Path: name, SHA256: hex.EncodeToString(sum.hash.Sum(nil)), Bytes: sum.bytes}, nil
}

// summed counts and sums what is written.
type summed struct {
	hash  hash.Hash
	bytes int64
}

func (s *summed) Write(p []byte) (int, error) {
	s.bytes += int64(len(p))
	return s.hash.Write(p)
}
