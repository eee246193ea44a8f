// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/proxy"
	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/manifest"
)

// Database is one version of what an adapter matches with.
type Database struct {
	Name, Version, Schema string
	BuiltAt, DownloadedAt time.Time
	Records               int64
	Dir                   string
}

// DatabaseRequest asks for the database of a reference, or of a file.
type DatabaseRequest struct {
	Adapter string
	Client  Client
	// Repository, and Reference, a tag or a digest.
	Repository, Reference string
	File                  string
	// AllowOlder takes a database that was built before the one in use, Force one that is in use already.
	AllowOlder, Force bool
	Deadline          time.Time
}

// Diff is what differs from the version before.
type Diff struct {
	From           string
	Changed, Total int64
	// Hashes is a file of sorted 64-bit hashes of keys, little endian. It lies beside the database.
	Hashes string
}

// DatabaseResult tells of the database that is in use now.
type DatabaseResult struct {
	Changed  bool
	Database Database
	// Diff is nil where there was no version before, or the two cannot be compared.
	Diff *Diff
}

const (
	currentFile = "current.json"
	indexFile   = "keys.index"
	changedFile = "keys.changed"
)

// Database tells the one in use; false: there is none.
func (e *Engine) Database(name string) (Database, bool) {
	r, found := e.adapters[name]
	if !found {
		return Database{}, false
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.database, r.keeper != nil
}

// lease gives a place at the process of the database in use.
func (r *running) lease() (*adapter.Lease, Database, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.keeper == nil {
		return nil, Database{}, protocol.Errorf(protocol.DatabaseMissing, "adapter %s has no database", r.adapter.Name)
	}
	lease, err := r.keeper.Take()
	return lease, r.database, err
}

// use takes a database into use. The process of the one before ends its requests.
func (e *Engine) use(r *running, d Database) error {
	o := e.processOptions(r.adapter, e.options.MatchMemory)
	o.Read = []string{d.Dir}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.number++
	before := r.keeper
	r.keeper = adapter.NewKeeper(o, e.path(workDir, r.adapter.Name, "match-"+strconv.Itoa(r.number)), adapter.DefaultBounds(), e.options.Now)
	r.database = d
	if before != nil {
		return before.Close()
	}
	return nil
}

// adopt takes the database into use that an earlier worker has left. One that is damaged is not there.
func (e *Engine) adopt(ctx context.Context, r *running) error {
	if len(r.description.Database.MediaTypes) == 0 {
		return nil
	}
	if err := os.MkdirAll(e.path(databasesDir, r.adapter.Name), directory); err != nil {
		return fmt.Errorf("make databases: %w", err)
	}
	text, err := os.ReadFile(e.path(databasesDir, r.adapter.Name, currentFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var d Database
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err == nil {
		_, err = e.status(ctx, r, d.Dir)
	}
	if err != nil {
		e.options.Log.Warn("the database that was in use is damaged, and will be fetched anew", "adapter", r.adapter.Name, "error", err)
		return nil
	}
	return e.use(r, d)
}

// ask gives a request of databases to a process of its own.
func (e *Engine) ask(ctx context.Context, r *running, op protocol.Op, params, result any, readable ...string) error {
	r.mutex.Lock()
	r.number++
	number := r.number
	r.mutex.Unlock()
	o := e.processOptions(r.adapter, e.options.MatchMemory)
	o.Read, o.Write = readable, []string{e.path(databasesDir, r.adapter.Name)}
	k := adapter.NewKeeper(o, e.path(workDir, r.adapter.Name, "database-"+strconv.Itoa(number)), adapter.DefaultBounds(), e.options.Now)
	lease, err := k.Take()
	if err != nil {
		return err
	}
	err = lease.Do(ctx, op, e.path(databasesDir, r.adapter.Name), params, result, nil)
	return errors.Join(err, k.Close(), lease.End())
}

func (e *Engine) status(ctx context.Context, r *running, dir string) (Database, error) {
	var s protocol.Status
	if err := e.ask(ctx, r, protocol.DatabaseStatus, protocol.DatabaseParams{Dir: dir}, &s); err != nil {
		return Database{}, err
	}
	if !s.Present {
		return Database{}, protocol.Errorf(protocol.DatabaseMissing, "there is no database in %s", dir)
	}
	d := Database{Name: r.adapter.Name, Version: s.Version, Schema: s.Schema, Records: s.Records, Dir: dir}
	if s.BuiltAt != nil {
		d.BuiltAt = *s.BuiltAt
	}
	if s.DownloadedAt != nil {
		d.DownloadedAt = *s.DownloadedAt
	}
	return d, nil
}

// UpdateDatabase fetches the database of a reference, where that has changed, and takes it into use.
func (e *Engine) UpdateDatabase(ctx context.Context, q DatabaseRequest) (*DatabaseResult, error) {
	r, err := e.find(q.Adapter)
	if err != nil {
		return nil, err
	}
	if !q.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, q.Deadline)
		defer cancel()
	}
	r.updating.Lock()
	defer r.updating.Unlock()
	now, has := e.Database(q.Adapter)
	params := protocol.UpdateParams{
		Dir: e.path(databasesDir, q.Adapter), Source: protocol.Source{File: q.File}, Force: q.Force, MinFreeBytes: leastFree,
	}
	var grant *proxy.Grant
	if q.File == "" {
		digest, err := e.resolve(ctx, q)
		if err != nil {
			return nil, err
		}
		if has && digest == now.Version && !q.Force {
			return &DatabaseResult{Database: now}, nil
		}
		if grant, err = e.grantDatabase(ctx, r, q, digest); err != nil {
			return nil, err
		}
		defer grant.Close()
		params.Source = protocol.Source{URL: e.proxy.URL(), Reference: grant.Reference() + "@" + digest, Token: grant.Token}
	}
	var said protocol.UpdateResult
	var readable []string
	if q.File != "" {
		readable = append(readable, q.File)
	}
	if err := e.ask(ctx, r, protocol.DatabaseUpdate, params, &said, readable...); err != nil {
		if grant != nil {
			err = because(grant, err)
		}
		return nil, err
	}
	next, err := e.status(ctx, r, said.Dir)
	if err != nil {
		return nil, err
	}
	if has && next.Version == now.Version && !q.Force {
		return &DatabaseResult{Database: now}, nil
	}
	return e.replace(ctx, r, q, now, has, next)
}

// replace compares the new database with the one in use, and takes it into use.
func (e *Engine) replace(ctx context.Context, r *running, q DatabaseRequest, now Database, has bool, next Database) (*DatabaseResult, error) {
	if has && next.BuiltAt.Before(now.BuiltAt) && !q.AllowOlder {
		refused := &protocol.Error{Code: protocol.DatabaseRollback, Message: fmt.Sprintf(
			"the database was built at %s, and the one in use at %s", next.BuiltAt.Format(time.RFC3339), now.BuiltAt.Format(time.RFC3339))}
		return nil, errors.Join(refused, e.drop(ctx, r, next))
	}
	result := &DatabaseResult{Changed: true, Database: next}
	var err error
	if r.description.Match.Diff {
		if result.Diff, err = e.diff(ctx, r, now, has, next); err != nil {
			return nil, err
		}
	}
	if err := e.use(r, next); err != nil {
		return nil, err
	}
	if err := e.remember(r, next); err != nil {
		return nil, err
	}
	// Requests may still be on their way to the process of the one before: it stays until the next update.
	old := r.before
	r.before = now
	if old.Dir != "" && old.Dir != next.Dir && old.Dir != now.Dir {
		return result, e.drop(ctx, r, old)
	}
	return result, nil
}

// resolve finds the digest of a reference.
func (e *Engine) resolve(ctx context.Context, q DatabaseRequest) (string, error) {
	if strings.Contains(q.Reference, ":") {
		return q.Reference, nil
	}
	pointer, found, err := q.Client.Tag(ctx, q.Repository, q.Reference, distribution.Pointer{})
	if err != nil {
		return "", fmt.Errorf("ask for database: %w", err)
	}
	if !found {
		return "", protocol.Errorf(protocol.NotFound, "there is no database %s:%s", q.Repository, q.Reference)
	}
	return pointer.Digest, nil
}

// grantDatabase reads the manifest of a database, so that only what it names can be read.
func (e *Engine) grantDatabase(ctx context.Context, r *running, q DatabaseRequest, digest string) (*proxy.Grant, error) {
	document, found, err := q.Client.Manifest(ctx, q.Repository, digest)
	if err != nil {
		return nil, fmt.Errorf("read manifest of database: %w", err)
	}
	var m struct {
		Config struct{ Digest string }
		Layers []struct {
			MediaType, Digest string
			Size              int64
		}
	}
	if !found || len(document.Body) > manifest.MaxDocument || json.Unmarshal(document.Body, &m) != nil {
		return nil, protocol.Errorf(protocol.DatabaseCorrupt, "the manifest of the database cannot be read")
	}
	content := proxy.Content{Source: q.Client, Repository: q.Repository, Manifests: []string{digest}, Blobs: map[string]int64{m.Config.Digest: proxy.AnySize}}
	for _, l := range m.Layers {
		if slices.Contains(r.description.Database.MediaTypes, l.MediaType) {
			content.Blobs[l.Digest] = l.Size
		}
	}
	return e.proxy.Grant(ctx, content), nil
}

// diff compares two databases, and keeps the index of the new one beside it.
func (e *Engine) diff(ctx context.Context, r *running, now Database, has bool, next Database) (*Diff, error) {
	name := func(file string) string { return filepath.Join(filepath.Base(next.Dir), file) }
	params := protocol.DiffParams{ToDir: next.Dir, Out: name(changedFile), IndexOut: name(indexFile)}
	if has {
		params.FromDir = now.Dir
		if _, err := os.Stat(filepath.Join(now.Dir, indexFile)); err == nil {
			params.FromIndex = filepath.Join(now.Dir, indexFile)
		}
	}
	var said protocol.DiffResult
	if err := e.ask(ctx, r, protocol.DatabaseDiff, params, &said); err != nil {
		return nil, err
	}
	if !has || !said.Comparable {
		return nil, nil // two databases that cannot be compared have no difference to tell, which is not an error
	}
	return &Diff{From: now.Version, Changed: said.Changed, Total: said.Total, Hashes: filepath.Join(next.Dir, changedFile)}, nil
}

func (e *Engine) drop(ctx context.Context, r *running, d Database) error {
	return e.ask(ctx, r, protocol.DatabaseDrop, protocol.DatabaseParams{Dir: d.Dir}, &struct{}{})
}

// remember tells the next worker which database is in use.
func (e *Engine) remember(r *running, d Database) error {
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode database: %w", err)
	}
	const permissions = 0o600
	place := e.path(databasesDir, r.adapter.Name, currentFile)
	if err := os.WriteFile(place+".new", text, permissions); err != nil {
		return fmt.Errorf("write database in use: %w", err)
	}
	if err := os.Rename(place+".new", place); err != nil {
		return fmt.Errorf("write database in use: %w", err)
	}
	return nil
}

// place gives a process a file of the worker: linked where that goes, else copied.
func place(from, to string) (err error) {
	if os.Link(from, to) == nil {
		return nil
	}
	source, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read SBOM: %w", err)
	}
	defer source.Close() //nolint:errcheck // what was only read
	target, err := os.Create(to)
	if err != nil {
		return fmt.Errorf("place SBOM: %w", err)
	}
	_, err = io.Copy(target, source)
	if err = errors.Join(err, target.Close()); err != nil {
		return fmt.Errorf("place SBOM: %w", err)
	}
	return nil
}
