// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
)

func cachesLayers(b *bench) string {
	if makesSBOMs(b) != "" || !b.said.SBOM.LayerCache {
		return "the adapter has no cache of layers"
	}
	return ""
}

// cached says that all layers may come from the cache.
func cached(p *protocol.SBOMParams) {
	for i := range p.Layers {
		p.Layers[i].Cached = true
	}
}

var cacheChecks = []check{
	{
		name: "a layer that is known is not read again", needs: cachesLayers,
		run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
			first, one, err := b.look(ctx, s, request{image: i, change: cached})
			if err != nil {
				return err
			}
			second, two, err := b.look(ctx, s, request{image: i, change: cached})
			if err != nil {
				return err
			}
			if second.LayersReused != len(i.Layers) || second.BytesRead >= first.BytesRead || first.LayersAnalysed != len(i.Layers) {
				return fmt.Errorf("first %+v, then %+v", first, second)
			}
			if !bytes.Equal(one[protocol.SPDX], two[protocol.SPDX]) {
				return errors.New("the document from the cache differs")
			}
			return nil
		}),
	},
	{
		name: "a layer that may not come from the cache is read", needs: cachesLayers,
		run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
			if _, _, err := b.look(ctx, s, request{image: i}); err != nil {
				return err
			}
			second, _, err := b.look(ctx, s, request{image: i})
			if err == nil && second.LayersReused != 0 {
				return errors.New("a layer without cached: true was taken from the cache")
			}
			return err
		}),
	},
	{name: "scopes do not share layers", needs: cachesLayers, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		for _, scope := range []string{"one", "other"} {
			result, _, err := b.look(ctx, s, request{image: i, change: func(p *protocol.SBOMParams) {
				cached(p)
				p.CacheScope = scope
			}})
			if err != nil {
				return err
			}
			if result.LayersReused != 0 {
				return fmt.Errorf("scope %s was given what another has read", scope)
			}
		}
		return nil
	})},
	{
		name: "a diffID of other content poisons no cache", needs: cachesLayers,
		run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
			lying := imagetest.Alpine318()
			lying.DiffID = i.Layers[0].DiffID
			bad, err := imagetest.Build(imagetest.Spec{Layers: []imagetest.Layer{lying}, Created: imagetest.Created})
			if err != nil {
				return err
			}
			_, _, err = b.look(ctx, s, request{image: bad, change: cached})
			if err := wantError(err, protocol.InvalidInput); err != nil {
				return err
			}
			result, _, err := b.look(ctx, s, request{image: i, change: cached})
			if err == nil && result.LayersReused != 0 {
				return errors.New("the liar's layer was taken for the base image's")
			}
			return err
		}),
	},
	{
		name: "a cache that is damaged is read as empty", needs: cachesLayers,
		run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
			_, one, err := b.look(ctx, s, request{image: i, change: cached})
			if err != nil {
				return err
			}
			if err := damage(b.cache); err != nil {
				return err
			}
			_, two, err := b.look(ctx, s, request{image: i, change: cached})
			if err == nil && !bytes.Equal(one[protocol.SPDX], two[protocol.SPDX]) {
				return errors.New("the document differs afterwards")
			}
			return err
		}),
	},
	{name: "two processes share a cache", needs: cachesLayers, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		other, err := b.open()
		if err != nil {
			return err
		}
		var errs [2]error
		var group sync.WaitGroup
		for n, one := range []*session{s, other} {
			group.Go(func() {
				_, _, errs[n] = b.look(ctx, one, request{image: i, change: func(p *protocol.SBOMParams) {
					cached(p)
					for format := range p.Out {
						p.Out[format] = fmt.Sprintf("%d-%s.json", n, format)
					}
				}})
			})
		}
		group.Wait()
		return errors.Join(errs[0], errs[1], other.fault())
	})},
	{name: "SIGKILL leaves a cache that works", needs: cachesLayers, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		want, one, err := b.look(ctx, s, request{image: i, change: func(p *protocol.SBOMParams) { p.CacheDir = "" }})
		if err != nil {
			return err
		}
		for range 5 {
			victim, err := b.open()
			if err != nil {
				return err
			}
			if err := alive(victim); err != nil {
				return err
			}
			if _, _, err := victim.begin(protocol.SBOM, nil, b.params(ctx, request{image: i, change: cached})); err != nil {
				return err
			}
			victim.kill()
		}
		got, two, err := b.look(ctx, s, request{image: i, change: cached})
		if err == nil && (got.Packages != want.Packages || !bytes.Equal(one[protocol.SPDX], two[protocol.SPDX])) {
			return errors.New("the document differs afterwards")
		}
		return err
	})},
}

// damage cuts every second file of a directory, and fills the others with other bytes.
func damage(dir string) error {
	n := 0
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // the directory is of this check, and its adapter has ended its request
		if err != nil {
			return fmt.Errorf("damage cache: %w", err)
		}
		if n++; n%2 == 0 {
			content = content[:len(content)/2]
		} else {
			content = bytes.ReplaceAll(content, []byte("e"), []byte("\x00"))
		}
		const permissions = 0o600
		return os.WriteFile(path, content, permissions) //nolint:gosec // as above
	})
}
