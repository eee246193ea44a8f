// SPDX-License-Identifier: Apache-2.0

package database

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
	"github.com/scanyard/scanyard/registry/internal/adapter/source"
)

const (
	// versionFile says which artifact a directory was made of.
	versionFile = "scanyard.json"
	// maxCompressed and maxDatabase are the most bytes that a database may have.
	maxCompressed = 2 << 30
	maxDatabase   = 16 << 30

	permissions = 0o600
)

// Installed is what is stored beside a database.
type Installed struct {
	// Version is the digest of the artifact.
	Version string `json:"version"`
	// Records is the number of vulnerabilities.
	Records int64 `json:"records"`
	// BuiltAt and NextUpdate are those of the engine, NextUpdate where it tells one.
	BuiltAt      time.Time `json:"builtAt"`
	NextUpdate   time.Time `json:"nextUpdate,omitzero"`
	DownloadedAt time.Time `json:"downloadedAt"`
}

// Describe reads what is stored beside a database. Errors have the codes DatabaseMissing and DatabaseCorrupt.
func Describe(dir string) (Installed, error) {
	var i Installed
	if dir == "" {
		return i, protocol.Errorf(protocol.DatabaseMissing, "there is no database")
	}
	text, err := os.ReadFile(filepath.Join(dir, versionFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return i, protocol.Errorf(protocol.DatabaseMissing, "there is no database")
	case err != nil:
		return i, fmt.Errorf("read database: %w", err)
	}
	if err := json.Unmarshal(text, &i); err != nil {
		return i, protocol.Errorf(protocol.DatabaseCorrupt, "the database has no %s that can be read", versionFile)
	}
	return i, nil
}

// Drop removes the directory of a database, and no other one.
func Drop(dir string) error { return source.Drop(dir, versionFile) }

// Kind is what an engine knows of its databases. Its methods are handlers of the protocol.
type Kind struct {
	// Files are those that are taken out of an artifact; the first holds the data.
	Files []string
	// Schema is told by db-status, MediaTypes are those of an artifact's layer.
	Schema     string
	MediaTypes []string
	// Check reads the files of a new database, and makes them ready: builtAt, records, and nextUpdate where it is known.
	Check func(ctx context.Context, dir string) (Installed, error)
	Index Indexer
	// Usual hears of what is installed.
	Usual *Usual
	Now   func() time.Time
}

// Status answers db-status.
func (k Kind) Status(_ context.Context, call serve.Call) (any, error) {
	var params protocol.DatabaseParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	i, err := Describe(params.Dir)
	if protocol.CodeOf(err) == protocol.DatabaseMissing {
		return protocol.Status{}, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(params.Dir, k.Files[0]))
	if err != nil {
		return nil, protocol.Errorf(protocol.DatabaseCorrupt, "the database has no %s", k.Files[0])
	}
	status := protocol.Status{
		Present: true, Version: i.Version, Schema: k.Schema, BuiltAt: &i.BuiltAt, DownloadedAt: &i.DownloadedAt, Records: i.Records, Bytes: info.Size(),
	}
	if !i.NextUpdate.IsZero() {
		status.NextUpdate = &i.NextUpdate
	}
	return status, nil
}

// Update answers db-update: it makes the directory of a new version, complete or not there.
func (k Kind) Update(ctx context.Context, call serve.Call) (any, error) {
	var params protocol.UpdateParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	if err := source.HasSpace(params.Dir, params.MinFreeBytes); err != nil {
		return nil, err
	}
	artifact, err := source.Database(ctx, params.Source, maxCompressed, k.MediaTypes...)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(params.Dir, artifact.Version)
	if i, err := Describe(dir); err == nil && !params.Force {
		k.Usual.Installed(dir)
		return protocol.UpdateResult{Version: i.Version, BuiltAt: i.BuiltAt, Dir: dir}, nil
	}
	var i Installed
	if err := source.Install(dir, func(aside string) (err error) {
		if err := artifact.Read(func(content io.Reader) error { return k.unpack(ctx, content, aside) }); err != nil {
			return err
		}
		i, err = k.Check(ctx, aside)
		if err != nil {
			return err
		}
		i.Version, i.DownloadedAt = artifact.Version, k.Now().UTC()
		text, err := json.Marshal(i)
		if err != nil {
			return fmt.Errorf("make database: %w", err)
		}
		return os.WriteFile(filepath.Join(aside, versionFile), text, permissions)
	}); err != nil {
		return nil, err
	}
	k.Usual.Installed(dir)
	return protocol.UpdateResult{Changed: true, Version: i.Version, BuiltAt: i.BuiltAt, Dir: dir}, nil
}

// unpack takes the files of a database out of its layer.
func (k Kind) unpack(ctx context.Context, content io.Reader, dir string) error {
	plain, end, err := source.Decompress(content)
	if err != nil {
		return protocol.Errorf(protocol.DatabaseCorrupt, "the layer of the database cannot be read: %v", err)
	}
	defer end()
	reader := tar.NewReader(plain)
	left := int64(maxDatabase)
	for found := 0; ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) && found == 0 {
			return protocol.Errorf(protocol.DatabaseCorrupt, "the archive of the database has no %s", k.Files[0])
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return protocol.Errorf(protocol.DatabaseCorrupt, "read the archive of the database: %v", err)
		}
		name, valid := source.Name(header.Name)
		if !valid || header.Typeflag != tar.TypeReg || !slices.Contains(k.Files, name) {
			continue
		}
		if left -= header.Size; left < 0 {
			return protocol.Errorf(protocol.TooLarge, "the database has more than %d bytes", int64(maxDatabase))
		}
		if err := keep(ctx, filepath.Join(dir, name), reader); err != nil {
			return err
		}
		found++
	}
}

func keep(ctx context.Context, name string, r io.Reader) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, permissions)
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	from := &source.Remembered{R: r}
	_, err = io.Copy(f, from)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case from.Err != nil:
		return protocol.Errorf(protocol.DatabaseCorrupt, "read the archive of the database: %v", from.Err)
	case err != nil:
		return fmt.Errorf("make database: %w", err)
	}
	return nil
}
