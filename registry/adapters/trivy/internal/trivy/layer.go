// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/aquasecurity/trivy/pkg/fanal/analyzer"
	ftypes "github.com/aquasecurity/trivy/pkg/fanal/types"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/source"
)

// missingJava is what an SBOM without the Java database lacks.
const missingJava = "java-db"

// archives of Java would be looked up by their sums in the Java database.
var javaArchives = []string{".jar", ".war", ".ear", ".par"}

// analysis is what is known of a layer. It is stored in the cache.
type analysis struct {
	Blob     ftypes.BlobInfo `json:"blob"`
	Missing  []string        `json:"missing,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
}

func (a *analysis) warn(text string) {
	if len(a.Warnings) < protocol.MaxWarningsKept && !slices.Contains(a.Warnings, text) {
		a.Warnings = append(a.Warnings, text)
	}
}

// walk is one pass over a layer.
type walk struct {
	*analysers

	budget  *source.Budget
	found   *analysis
	result  *analyzer.AnalysisResult
	files   *analyzer.CompositeFS
	running *errgroup.Group
	// ctx ends with the first analyser that fails.
	limit *semaphore.Weighted
	dir   string
}

var options = analyzer.AnalysisOptions{Offline: true}

// analyse looks at the archive of a layer.
func (a *analysers) analyse(ctx context.Context, archive io.Reader, l source.ImageLayer, b *source.Budget, dir string) (found *analysis, err error) {
	files, err := a.group.PostAnalyzerFS()
	if err != nil {
		return nil, local(err)
	}
	defer func() { err = errors.Join(err, files.Cleanup()) }()
	running, soon := errgroup.WithContext(ctx)
	w := &walk{
		analysers: a, budget: b, found: &analysis{}, result: analyzer.NewAnalysisResult(), files: files,
		running: running, limit: semaphore.NewWeighted(atOnce), dir: dir,
	}
	walkErr := w.archive(soon, archive)
	if err := running.Wait(); err != nil {
		return nil, explain(ctx, err)
	}
	if walkErr != nil {
		return nil, walkErr
	}
	if err := a.group.PostAnalyze(ctx, files, w.result, options); err != nil {
		return nil, explain(ctx, err)
	}
	w.result.Sort()
	r, blob := w.result, &w.found.Blob
	blob.SchemaVersion, blob.Digest, blob.DiffID = ftypes.BlobJSONSchemaVersion, l.Digest, l.DiffID
	blob.OS, blob.Repository, blob.PackageInfos, blob.Applications = r.OS, r.Repository, r.PackageInfos, r.Applications
	blob.Licenses, blob.BuildInfo = r.Licenses, r.BuildInfo
	if err := a.handlers.PostHandle(ctx, r, blob); err != nil {
		return nil, explain(ctx, err)
	}
	return w.found.stored()
}

// stored gives an analysis as it comes from the cache: documents must not depend on where it came from.
func (a *analysis) stored() (*analysis, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("encode analysis: %w", err)
	}
	again := &analysis{}
	if err := json.Unmarshal(text, again); err != nil {
		return nil, fmt.Errorf("decode analysis: %w", err)
	}
	return again, nil
}

// explain tells an analyser that cannot go on from a request that is over, and from a disk that is full.
func explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case isFull(err):
		return local(err)
	}
	return protocol.Errorf(protocol.InvalidInput, "analyse layer: %v", err)
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// local is an error of this machine and not of the image.
func local(err error) error {
	if isFull(err) {
		return protocol.Errorf(protocol.DiskFull, "%v", err)
	}
	return protocol.Errorf(protocol.Internal, "%v", err)
}

// archive reads the entries. Names are names only; links have no content.
func (w *walk) archive(ctx context.Context, r io.Reader) error {
	reader := tar.NewReader(r)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.budget.File(); err != nil {
			return err
		}
		name, valid := source.Name(header.Name)
		if !valid {
			w.found.warn("a path has more than 4096 bytes, or leads out of the image, and was passed over")
			continue
		}
		switch removed, emptied := source.Whiteout(name); {
		case removed != "":
			w.found.Blob.WhiteoutFiles = append(w.found.Blob.WhiteoutFiles, removed)
		case emptied != "":
			w.found.Blob.OpaqueDirs = append(w.found.Blob.OpaqueDirs, emptied)
		case header.Typeflag == tar.TypeReg:
			if err := w.file(ctx, name, header, reader); err != nil {
				return err
			}
		}
	}
}

// file gives a file to the analysers that want it.
func (w *walk) file(ctx context.Context, name string, header *tar.Header, r io.Reader) error {
	info := header.FileInfo()
	if slices.Contains(javaArchives, strings.ToLower(path.Ext(name))) && !slices.Contains(w.found.Missing, missingJava) {
		w.found.Missing = append(w.found.Missing, missingJava)
	}
	c := &content{r: r, size: header.Size, most: w.budget.Limits.FileBytes, dir: w.dir}
	err := w.give(ctx, name, info, c)
	closeErr := c.close()
	switch {
	case errors.Is(err, errTooLarge):
		w.found.warn("a file is too large to be looked into")
	case c.broken != nil:
		return c.broken
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return local(err)
	}
	return closeErr
}

func (w *walk) give(ctx context.Context, name string, info tarInfo, c *content) error {
	if err := w.group.AnalyzeFile(ctx, w.running, w.limit, w.result, "", name, info, c.open, nil, options); err != nil {
		return fmt.Errorf("analyse file: %w", err)
	}
	wanted := w.group.RequiredPostAnalyzers(name, info)
	if len(wanted) == 0 {
		return nil
	}
	place, err := w.files.CopyFileToTemp(c.open, info)
	if err != nil {
		return fmt.Errorf("keep file: %w", err)
	}
	if w.files.CreateLink(wanted, "", name, place) != nil {
		w.found.warn("a file has a name that analysers cannot take, and was passed over")
	}
	return nil
}
