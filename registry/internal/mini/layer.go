// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/source"
)

const (
	// maxText is the largest file of text that is read.
	maxText = 64 << 20
	// maxProgram is the largest program that is looked into: it is held in memory.
	maxProgram = 256 << 20
	// maxWarnings is how many are kept.
	maxWarnings = protocol.MaxWarningsKept
)

// analysis is what is known of a layer. It is stored in the cache.
type analysis struct {
	Files map[string]found `json:"files"`
	// Removed are paths that the layer takes from those below; Opaque are directories whose former content is gone.
	Removed  []string `json:"removed,omitempty"`
	Opaque   []string `json:"opaque,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// found is a file that says something.
type found struct {
	Packages []pkg        `json:"packages,omitempty"`
	OS       *protocol.OS `json:"os,omitempty"`
}

// walk reads an archive. A name is a name only: nothing is written.
func walk(ctx context.Context, r io.Reader, b *source.Budget) (*analysis, error) {
	a := &analysis{Files: map[string]found{}}
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read archive: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := b.File(); err != nil {
			return nil, err
		}
		name, valid := source.Name(header.Name)
		if !valid {
			a.warn("a path has more than 4096 bytes, or leads out of the image, and was passed over")
			continue
		}
		if a.hide(name) || header.Typeflag != tar.TypeReg {
			continue
		}
		if err := a.file(name, header, archive, b.Limits.FileBytes); err != nil {
			return nil, err
		}
	}
}

// hide notes what a whiteout takes away; true: the entry is one.
func (a *analysis) hide(name string) bool {
	removed, emptied := source.Whiteout(name)
	switch {
	case removed != "":
		a.Removed = append(a.Removed, removed)
	case emptied != "":
		a.Opaque = append(a.Opaque, emptied)
	default:
		return false
	}
	return true
}

func (a *analysis) warn(text string) {
	if len(a.Warnings) < maxWarnings && !slices.Contains(a.Warnings, text) {
		a.Warnings = append(a.Warnings, text)
	}
}

// file looks into a file that may say something. What cannot be understood is a warning.
func (a *analysis) file(name string, header *tar.Header, content io.Reader, most int64) error {
	parse := parserOf(name)
	program := parse == nil && header.FileInfo().Mode()&0o111 != 0 && header.Size > 4
	if parse == nil && !program {
		return nil
	}
	limit := int64(maxText)
	if program {
		limit = maxProgram
	}
	if most > 0 {
		limit = min(limit, most)
	}
	if header.Size > limit {
		a.warn("a file is too large to be looked into")
		return nil
	}
	if program {
		return a.program(name, content)
	}
	text, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("read file: %w", err)
	}
	f, err := parse(text)
	if err != nil {
		a.warn(fmt.Sprintf("%s cannot be understood: %v", name, err))
		return nil
	}
	a.Files[name] = f
	return nil
}

// program reads the modules of a Go program.
func (a *analysis) program(name string, content io.Reader) error {
	magic := make([]byte, 4)
	if _, err := io.ReadFull(content, magic); err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	if string(magic) != "\x7fELF" {
		return nil
	}
	rest, err := io.ReadAll(content)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(append(magic, rest...)))
	if err != nil {
		return nil //nolint:nilerr // a program of another language has no build information
	}
	a.Files[name] = found{Packages: modulesOf(info)}
	return nil
}
