// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// entry is an analysis in the cache.
type entry struct {
	path  string
	bytes int64
	used  time.Time
}

// Evict removes the analyses that were not used for the longest time, until the rest has at most CacheBytes. Adapters write beside a place
// and rename, and take what is not there for unknown: nobody is disturbed.
func (e *Engine) Evict(ctx context.Context) error {
	if e.options.CacheBytes <= 0 {
		return nil
	}
	var entries []entry
	total := int64(0)
	err := filepath.WalkDir(e.path(layersDir), func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		entries, total = append(entries, entry{path: path, bytes: info.Size(), used: usedAt(info)}), total+info.Size()
		return nil
	})
	if err != nil {
		return fmt.Errorf("look at cache: %w", err)
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	for _, old := range entries {
		if total <= e.options.CacheBytes {
			return nil
		}
		if err := ignoreGone(os.Remove(old.path)); err != nil {
			return fmt.Errorf("evict: %w", err)
		}
		total -= old.bytes
	}
	return nil
}

// ignoreGone forgives what somebody else has removed.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
