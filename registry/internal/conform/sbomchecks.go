// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/proxy"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
)

// makesSBOMs skips a check for adapters that make none.
func makesSBOMs(b *bench) string {
	if len(b.said.SBOM.Formats) == 0 {
		return "the adapter makes no SBOMs"
	}
	return ""
}

// request is an sbom to be asked for.
type request struct {
	image  imagetest.Image
	source proxy.Source
	change func(*protocol.SBOMParams)
}

// params gives those of a request: the image is at the proxy until the end of the check.
func (b *bench) params(ctx context.Context, r request) protocol.SBOMParams {
	if r.source == nil {
		r.source = imagetest.Images{r.image}
	}
	grant := b.proxy.Grant(ctx, proxy.Content{Source: r.source, Manifests: []string{r.image.Digest}, Blobs: r.image.Sizes()})
	p := protocol.SBOMParams{
		Image:    protocol.Image{URL: b.proxy.URL(), Reference: grant.Reference(), Token: grant.Token, Digest: r.image.Digest},
		Platform: "linux/amd64", Formats: b.said.SBOM.Formats, Out: map[string]string{}, CacheDir: b.cache, Scope: []string{"os", "lang"},
		Limits: protocol.DefaultLimits(),
	}
	for _, format := range p.Formats {
		p.Out[format] = format + ".json"
	}
	for _, l := range r.image.Layers {
		p.Layers = append(p.Layers, protocol.Layer{Digest: l.Digest, DiffID: l.DiffID, Bytes: l.Bytes})
	}
	if r.change != nil {
		r.change(&p)
	}
	return p
}

// look asks for the SBOM of an image, and reads the documents.
func (b *bench) look(ctx context.Context, s *session, r request) (protocol.SBOMResult, map[string][]byte, error) {
	var result protocol.SBOMResult
	p := b.params(ctx, r)
	if err := s.ask(protocol.SBOM, p, &result); err != nil {
		return result, nil, err
	}
	documents := map[string][]byte{}
	for _, format := range p.Formats {
		content, err := b.read(result.Files[format])
		if err != nil {
			return result, nil, fmt.Errorf("document %s: %w", format, err)
		}
		documents[format] = content
	}
	return result, documents, nil
}

// read takes a document, which must be what the adapter says.
func (b *bench) read(f protocol.File) ([]byte, error) {
	if !filepath.IsLocal(f.Path) {
		return nil, fmt.Errorf("%q does not lie below workdir", f.Path)
	}
	content, err := os.ReadFile(filepath.Join(b.work, f.Path))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	if f.Bytes != int64(len(content)) || f.SHA256 != hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("it has %d bytes and the sum %x, and not %d and %s", len(content), sum, f.Bytes, f.SHA256)
	}
	return content, nil
}

// looking runs a check on the known image.
func looking(run func(ctx context.Context, b *bench, s *session, image imagetest.Image) error) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		image, err := imagetest.Known()
		if err != nil {
			return err
		}
		s, err := b.open()
		if err != nil {
			return err
		}
		return errors.Join(run(ctx, b, s, image), s.fault())
	}
}

// slow is a source whose blobs never come.
type slow struct{ imagetest.Images }

// Blob waits for the end of the request.
func (slow) Blob(ctx context.Context, _, _ string) (io.ReadCloser, int64, error) {
	<-ctx.Done()
	return nil, 0, ctx.Err()
}

// liar is a source whose blobs have other content.
type liar struct{ imagetest.Images }

// Blob turns the last byte of a blob.
func (l liar) Blob(ctx context.Context, repository, digest string) (io.ReadCloser, int64, error) {
	body, size, err := l.Images.Blob(ctx, repository, digest)
	if err != nil {
		return nil, 0, err
	}
	content, err := io.ReadAll(body)
	if err != nil || len(content) == 0 {
		return nil, 0, errors.Join(err, errors.New("a blob is empty"))
	}
	content[len(content)-1] ^= 0xff
	return io.NopCloser(bytes.NewReader(content)), size, nil
}

var sbomChecks = []check{
	{
		name: "the SBOM of an image is made in all formats", needs: makesSBOMs,
		run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
			_, documents, err := b.look(ctx, s, request{image: i})
			if err == nil && len(documents) != len(b.said.SBOM.Formats) {
				return errors.New("a format is missing")
			}
			return err
		}),
	},
	{name: "the SPDX document is valid", needs: makesSBOMs, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		_, documents, err := b.look(ctx, s, request{image: i})
		if err != nil {
			return err
		}
		return validSPDX(documents[protocol.SPDX])
	})},
	{name: "the CycloneDX document is valid", needs: func(b *bench) string {
		if !slices.Contains(b.said.SBOM.Formats, protocol.CycloneDX) {
			return "the adapter makes no CycloneDX"
		}
		return ""
	}, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		_, documents, err := b.look(ctx, s, request{image: i})
		if err != nil {
			return err
		}
		return validCycloneDX(documents[protocol.CycloneDX])
	})},
	{name: "the SBOM knows packages of the image", needs: makesSBOMs, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		result, documents, err := b.look(ctx, s, request{image: i})
		if err != nil {
			return err
		}
		if result.Packages == 0 || !bytes.Contains(documents[protocol.SPDX], []byte("pkg:")) {
			return errors.New("there is no package with a package URL: the image has packages of Debian and of npm")
		}
		return nil
	})},
	{
		name: "the result says how complete the SBOM is", needs: makesSBOMs,
		run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
			result, _, err := b.look(ctx, s, request{image: i})
			if err == nil && result.Completeness != protocol.Full && (result.Completeness != protocol.Partial || len(result.Missing) == 0) {
				return fmt.Errorf("completeness is %q, and missing %v", result.Completeness, result.Missing)
			}
			return err
		}),
	},
	{name: "equal images have equal documents", needs: makesSBOMs, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		_, one, err := b.look(ctx, s, request{image: i})
		if err != nil {
			return err
		}
		again, err := b.open()
		if err != nil {
			return err
		}
		_, two, err := b.look(ctx, again, request{image: i, change: func(p *protocol.SBOMParams) { p.CacheDir = "" }})
		if err != nil {
			return err
		}
		for format := range one {
			if !bytes.Equal(one[format], two[format]) {
				return fmt.Errorf("%s differs", format)
			}
		}
		return nil
	})},
	{name: "SBOMs one after the other do not mix", needs: makesSBOMs, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		other, err := imagetest.Build(imagetest.Spec{Created: imagetest.Created})
		if err != nil {
			return err
		}
		full, _, err := b.look(ctx, s, request{image: i})
		if err != nil {
			return err
		}
		empty, _, err := b.look(ctx, s, request{image: other})
		if err == nil && (empty.Packages != 0 || full.Packages == 0) {
			return fmt.Errorf("the image without layers has %d packages after one that has %d", empty.Packages, full.Packages)
		}
		return err
	})},
	{name: "cancel ends a request", needs: makesSBOMs, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		id, answers, err := s.begin(protocol.SBOM, nil, b.params(ctx, request{image: i, source: slow{imagetest.Images{i}}}))
		if err != nil {
			return err
		}
		if err := s.ask(protocol.Cancel, protocol.CancelParams{Request: id}, &struct{}{}); err != nil {
			return err
		}
		return wantAnswer(s, answers, protocol.Cancelled)
	})},
	{name: "a deadline ends a request", needs: makesSBOMs, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		past := time.Unix(0, 0).UTC()
		_, answers, err := s.begin(protocol.SBOM, &past, b.params(ctx, request{image: i, source: slow{imagetest.Images{i}}}))
		if err != nil {
			return err
		}
		return wantAnswer(s, answers, protocol.Timeout)
	})},
	{name: "the end of input lets a request end", needs: makesSBOMs, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		_, answers, err := s.begin(protocol.SBOM, nil, b.params(ctx, request{image: i}))
		if err != nil {
			return err
		}
		if err := s.close(); err != nil {
			return err
		}
		// How long an SBOM takes is the machine's: the answer is waited for, and then the end.
		a, err := s.hear(answers, s.patience)
		if err != nil {
			return err
		}
		if a.Error != nil {
			return a.Error
		}
		return s.exited(s.patience)
	})},
	{
		name: "a token that is not good is Unauthorized", needs: makesSBOMs,
		run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
			_, _, err := b.look(ctx, s, request{image: i, change: func(p *protocol.SBOMParams) { p.Image.Token = "wrong" }})
			return wantError(err, protocol.Unauthorized)
		}),
	},
	{name: "an image that is not there is NotFound", needs: makesSBOMs, run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		_, _, err := b.look(ctx, s, request{image: i, change: func(p *protocol.SBOMParams) { p.Image.Digest = imagetest.Digest(nil) }})
		return wantError(err, protocol.NotFound)
	})},
	{
		name: "a blob that does not fit its digest makes no SBOM", needs: makesSBOMs,
		run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
			_, _, err := b.look(ctx, s, request{image: i, source: liar{imagetest.Images{i}}})
			return wantError(err, protocol.InvalidInput, protocol.Unavailable, protocol.NotFound)
		}),
	},
	{name: "a bound of compressed bytes is kept to", needs: makesSBOMs, run: bounded(func(l *protocol.Limits) { l.CompressedBytes = 10 }, protocol.TooLarge)},
	{
		name: "a bound of uncompressed bytes is kept to", needs: makesSBOMs,
		run: bounded(func(l *protocol.Limits) { l.UncompressedBytes = 100 }, protocol.TooLarge),
	},
	{name: "a bound of files is kept to", needs: makesSBOMs, run: bounded(func(l *protocol.Limits) { l.Files = 1 }, protocol.TooManyFiles)},
	{
		name: "a document outside of workdir is refused", needs: makesSBOMs,
		run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
			for _, name := range []string{"../outside.json", filepath.Join(b.root, "outside.json")} {
				_, _, err := b.look(ctx, s, request{image: i, change: func(p *protocol.SBOMParams) {
					p.Out = map[string]string{protocol.SPDX: name}
					p.Formats = []string{protocol.SPDX}
				}})
				if err := wantError(err, protocol.InvalidRequest); err != nil {
					return err
				}
			}
			return nil
		}),
	},
	{
		name: "nothing is written outside of workdir and cacheDir", needs: makesSBOMs,
		run: looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
			before, err := b.outside()
			if err != nil {
				return err
			}
			if _, _, err := b.look(ctx, s, request{image: i}); err != nil {
				return err
			}
			after, err := b.outside()
			if err == nil && !slices.Equal(before, after) {
				return fmt.Errorf("before: %s; after: %s", strings.Join(before, " "), strings.Join(after, " "))
			}
			return err
		}),
	},
	{name: "nobody is connected to but the proxy", needs: makesSBOMs, run: func(ctx context.Context, b *bench) error {
		end, err := b.listen(ctx)
		if err != nil {
			return err
		}
		image, err := imagetest.Known()
		if err != nil {
			end()
			return err
		}
		// A layer says that it lies elsewhere.
		away := []byte(fmt.Sprintf(`,"urls":["http://%s/layer"]}]`, b.stranger))
		image.Manifest = bytes.Replace(image.Manifest, []byte("}]"), away, 1)
		image.Digest = imagetest.Digest(image.Manifest)
		s, err := b.open()
		if err == nil {
			_, _, err = b.look(ctx, s, request{image: image})
		}
		end()
		if n := b.strangers.Load(); n > 0 {
			return fmt.Errorf("%d connections were made to an address that the image names", n)
		}
		return err
	}},
}

// wantAnswer waits for an error of a code.
func wantAnswer(s *session, answers <-chan protocol.Answer, code protocol.Code) error {
	a, err := s.hear(answers, s.patience)
	if err != nil {
		return err
	}
	if a.Error == nil {
		return fmt.Errorf("there was a result, and not the error %s", code)
	}
	return errors.Join(wantError(a.Error, code), alive(s))
}

// bounded runs a check on a bound.
func bounded(set func(*protocol.Limits), code protocol.Code) func(context.Context, *bench) error {
	return looking(func(ctx context.Context, b *bench, s *session, i imagetest.Image) error {
		_, _, err := b.look(ctx, s, request{image: i, change: func(p *protocol.SBOMParams) { set(&p.Limits) }})
		return errors.Join(wantError(err, code), alive(s))
	})
}

// hostileChecks are one for each hostile image.
func hostileChecks() []check {
	list, err := imagetest.Hostiles()
	if err != nil {
		return []check{{name: "hostile images", run: func(context.Context, *bench) error { return err }}}
	}
	var all []check
	for _, h := range list {
		all = append(all, check{name: "an image is survived: " + h.Name, needs: makesSBOMs, run: func(ctx context.Context, b *bench) error {
			s, err := b.open()
			if err != nil {
				return err
			}
			before, err := b.outside()
			if err != nil {
				return err
			}
			if err := survive(ctx, b, s, h); err != nil {
				return err
			}
			after, err := b.outside()
			if err == nil && !slices.Equal(before, after) {
				return fmt.Errorf("something was written outside: %s", strings.Join(after, " "))
			}
			return errors.Join(err, alive(s))
		}})
	}
	return all
}

// survive asks for the SBOM of a hostile image.
func survive(ctx context.Context, b *bench, s *session, h imagetest.Hostile) error {
	image, err := imagetest.Build(h.Spec)
	if err != nil {
		return err
	}
	_, _, err = b.look(ctx, s, request{image: image})
	refused, told := errors.AsType[*protocol.Error](err)
	switch {
	case err == nil && !h.Readable:
		return errors.New("the image is broken, and an SBOM was made")
	case told && refused.Retryable:
		return fmt.Errorf("the image will never be another: the error must not be retryable: %w", refused)
	case told:
		return nil
	}
	return err
}
