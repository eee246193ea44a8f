// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	trivydb "github.com/aquasecurity/trivy-db/pkg/db"
	"github.com/aquasecurity/trivy-db/pkg/metadata"
	bolt "go.etcd.io/bbolt"

	"github.com/scanyard/scanyard/registry/internal/adapter/database"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
	"github.com/scanyard/scanyard/registry/internal/adapter/source"
)

const (
	databaseFile = "trivy.db"
	metadataFile = "metadata.json"
	// versionFile says which artifact a directory was made of: Trivy's own metadata does not.
	versionFile = "scanyard.json"
	// schema is that of the database, as describe tells it.
	schema = "2"
	// maxCompressed and maxDatabase are the most that a database may have.
	maxCompressed = 2 << 30
	maxDatabase   = 16 << 30

	permissions = 0o600
	// lockTimeout is how long the lock of a database is waited for. Nobody writes to one.
	lockTimeout = 5 * time.Second
)

// Buckets of the database that hold no advisories.
const (
	vulnerabilityBucket = "vulnerability"
	sourceBucket        = "data-source"
)

// installed is what is stored beside a database.
type installed struct {
	Version string `json:"version"`
	Records int64  `json:"records"`
	// BuiltAt, NextUpdate and DownloadedAt are Trivy's.
	BuiltAt      time.Time `json:"builtAt"`
	NextUpdate   time.Time `json:"nextUpdate"`
	DownloadedAt time.Time `json:"downloadedAt"`
}

// describeDatabase reads what is stored beside a database.
func describeDatabase(dir string) (installed, error) {
	var i installed
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

// databases is the one that is open: Trivy keeps it in a global.
type databases struct {
	usual database.Usual
	// using is held by those who read, and alone by who opens another one.
	using sync.RWMutex
	dir   string
	open  installed
}

// use opens a database, or joins those who read it. The caller calls release.
func (d *databases) use(dir string) (i installed, release func(), err error) {
	dir = d.usual.Or(dir)
	for {
		d.using.RLock()
		if d.dir == dir && dir != "" {
			return d.open, d.using.RUnlock, nil
		}
		d.using.RUnlock()
		if err := d.change(dir); err != nil {
			return i, nil, err
		}
	}
}

// change closes the database that is open, and opens another one.
func (d *databases) change(dir string) error {
	d.using.Lock()
	defer d.using.Unlock()
	if d.dir == dir && dir != "" {
		return nil
	}
	i, err := describeDatabase(dir)
	if err != nil {
		return err
	}
	if err := d.close(); err != nil {
		return err
	}
	if err := trivydb.Init(dir, trivydb.WithBoltOptions(&bolt.Options{ReadOnly: true, Timeout: lockTimeout})); err != nil {
		return protocol.Errorf(protocol.DatabaseCorrupt, "open database: %v", err)
	}
	d.dir, d.open = dir, i
	return nil
}

func (d *databases) close() error {
	if d.dir == "" {
		return nil
	}
	d.dir = ""
	if err := trivydb.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

func status(_ context.Context, call serve.Call) (any, error) {
	var params protocol.DatabaseParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	i, err := describeDatabase(params.Dir)
	if protocol.CodeOf(err) == protocol.DatabaseMissing {
		return protocol.Status{}, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(params.Dir, databaseFile))
	if err != nil {
		return nil, protocol.Errorf(protocol.DatabaseCorrupt, "the database has no %s", databaseFile)
	}
	return protocol.Status{
		Present: true, Version: i.Version, Schema: schema, BuiltAt: &i.BuiltAt, DownloadedAt: &i.DownloadedAt, NextUpdate: &i.NextUpdate,
		Records: i.Records, Bytes: info.Size(),
	}, nil
}

// update makes the directory of a new version: complete, or not there.
func (e *engine) update(ctx context.Context, call serve.Call) (any, error) {
	var params protocol.UpdateParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	if err := source.HasSpace(params.Dir, params.MinFreeBytes); err != nil {
		return nil, err
	}
	artifact, err := source.Database(ctx, params.Source, maxCompressed, MediaType)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(params.Dir, artifact.Version)
	if i, err := describeDatabase(dir); err == nil && !params.Force {
		e.databases.usual.Installed(dir)
		return protocol.UpdateResult{Version: i.Version, BuiltAt: i.BuiltAt, Dir: dir}, nil
	}
	var i installed
	if err := source.Install(dir, func(aside string) (err error) {
		if err := artifact.Read(func(content io.Reader) error { return unpack(ctx, content, aside) }); err != nil {
			return err
		}
		i, err = check(aside)
		if err != nil {
			return err
		}
		i.Version, i.DownloadedAt = artifact.Version, e.now().UTC()
		text, err := json.Marshal(i)
		if err != nil {
			return fmt.Errorf("make database: %w", err)
		}
		return os.WriteFile(filepath.Join(aside, versionFile), text, permissions)
	}); err != nil {
		return nil, err
	}
	e.databases.usual.Installed(dir)
	return protocol.UpdateResult{Changed: true, Version: i.Version, BuiltAt: i.BuiltAt, Dir: dir}, nil
}

// unpack takes the two files of a database out of its layer.
func unpack(ctx context.Context, content io.Reader, dir string) error {
	plain, err := gzip.NewReader(content)
	if err != nil {
		return protocol.Errorf(protocol.DatabaseCorrupt, "the layer of the database is not gzip: %v", err)
	}
	reader := tar.NewReader(plain)
	left := int64(maxDatabase)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return protocol.Errorf(protocol.DatabaseCorrupt, "read the archive of the database: %v", err)
		}
		name, valid := source.Name(header.Name)
		if !valid || header.Typeflag != tar.TypeReg || name != databaseFile && name != metadataFile {
			continue
		}
		if left -= header.Size; left < 0 {
			return protocol.Errorf(protocol.TooLarge, "the database has more than %d bytes", int64(maxDatabase))
		}
		if err := keep(ctx, filepath.Join(dir, name), reader); err != nil {
			return err
		}
	}
}

func keep(ctx context.Context, name string, r io.Reader) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, permissions)
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	from := &remembered{r: r}
	_, err = io.Copy(f, from)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case from.err != nil:
		return protocol.Errorf(protocol.DatabaseCorrupt, "read the archive of the database: %v", from.err)
	case err != nil:
		return fmt.Errorf("make database: %w", err)
	}
	return nil
}

// check reads what is in a new database.
func check(dir string) (installed, error) {
	m, err := metadata.NewClient(dir).Get()
	if err != nil {
		return installed{}, protocol.Errorf(protocol.DatabaseCorrupt, "the artifact has no %s that can be read", metadataFile)
	}
	if got := strconv.Itoa(m.Version); got != schema {
		return installed{}, protocol.Errorf(protocol.DatabaseSchema, "the database has the schema %s, and %s is known", got, schema)
	}
	i := installed{BuiltAt: m.UpdatedAt.UTC(), NextUpdate: m.NextUpdate.UTC()}
	err = view(dir, func(tx *bolt.Tx) error {
		bucket := tx.Bucket([]byte(vulnerabilityBucket))
		if bucket == nil {
			return protocol.Errorf(protocol.DatabaseCorrupt, "the database has no bucket %q", vulnerabilityBucket)
		}
		i.Records = int64(bucket.Stats().KeyN)
		return nil
	})
	return i, err
}

// view reads a database that need not be the one that is open.
func view(dir string, read func(tx *bolt.Tx) error) (err error) {
	name := filepath.Join(dir, databaseFile)
	if _, err := os.Stat(name); err != nil {
		return protocol.Errorf(protocol.DatabaseMissing, "there is no %s", databaseFile)
	}
	opened, err := bolt.Open(name, permissions, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err != nil {
		return protocol.Errorf(protocol.DatabaseCorrupt, "open database: %v", err)
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	return opened.View(read)
}

func (e *engine) drop(_ context.Context, call serve.Call) (any, error) {
	var params protocol.DatabaseParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	e.databases.using.Lock()
	defer e.databases.using.Unlock()
	if e.databases.dir == params.Dir {
		if err := e.databases.close(); err != nil {
			return nil, err
		}
	}
	return struct{}{}, source.Drop(params.Dir, versionFile)
}
