// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Cache keeps what an engine has found in layers: a file for each, below a directory of the adapter.
type Cache struct {
	// Dir is the worker's cacheDir; "" keeps nothing.
	Dir string
	// Adapter is the name of the adapter, Parts are all else that an analysis depends on but the layer: versions, scope, who may share.
	Adapter string
	Parts   []string
}

func (c Cache) path(l ImageLayer) string {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{c.Adapter}, append(c.Parts, l.Digest, l.DiffID)...), "\x00")))
	key := hex.EncodeToString(sum[:])
	return filepath.Join(c.Dir, c.Adapter, key[:2], key+".json")
}

// Get reads the analysis of a layer; false: there is none that is whole. A file begins with the sum of the rest.
func (c Cache) Get(l ImageLayer, into any) bool {
	if c.Dir == "" || l.DiffID == "" {
		return false
	}
	text, err := os.ReadFile(c.path(l))
	if err != nil {
		return false // read as absent, whatever the reason
	}
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	sum := sha256.Sum256(rest)
	return string(head) == hex.EncodeToString(sum[:]) && json.Unmarshal(rest, into) == nil
}

// Put stores the analysis of a layer whose sums were right: beside its place, and then moved there, so that a reader sees a whole file or
// none. Without a diffID nothing is kept.
func (c Cache) Put(l ImageLayer, value any) error {
	if c.Dir == "" || l.DiffID == "" {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode analysis: %w", err)
	}
	sum := sha256.Sum256(text)
	place := c.path(l)
	if err := os.MkdirAll(filepath.Dir(place), directory); err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(place), ".new-*")
	if err != nil {
		return fmt.Errorf("make cache: %w", err)
	}
	_, err = f.Write(append([]byte(hex.EncodeToString(sum[:])+"\n"), text...))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), place)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write cache: %w", err), os.Remove(f.Name()))
	}
	return nil
}
