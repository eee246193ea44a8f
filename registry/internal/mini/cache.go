// SPDX-License-Identifier: Apache-2.0

package mini

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

const directory = 0o700

// cacheKey names an analysis by all that it depends on, and by who may share it.
func cacheKey(scope, digest, diffID string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{Name, version, schema, scope, digest, diffID}, "\x00")))
	return hex.EncodeToString(sum[:])
}

func cachePath(dir, key string) string { return filepath.Join(dir, Name, key[:2], key+".json") }

// readCache gives an analysis; nil: there is none that is whole. A file begins with the sum of the rest.
func readCache(dir, key string) *analysis {
	if dir == "" {
		return nil
	}
	text, err := os.ReadFile(cachePath(dir, key))
	if err != nil {
		return nil // read as absent, whatever the reason
	}
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	sum := sha256.Sum256(rest)
	var a analysis
	if string(head) != hex.EncodeToString(sum[:]) || json.Unmarshal(rest, &a) != nil {
		return nil
	}
	return &a
}

// writeCache stores an analysis beside its place, and moves it there: a reader sees a whole file or none.
func writeCache(dir, key string, a *analysis) (err error) {
	if dir == "" {
		return nil
	}
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode analysis: %w", err)
	}
	sum := sha256.Sum256(text)
	place := cachePath(dir, key)
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
