// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

const (
	advisoriesFile = "advisories.json"
	metadataFile   = "metadata.json"
	// maxDatabase is the most that a file of advisories may have.
	maxDatabase = 64 << 20
)

// Advisories is a database: a JSON file.
type Advisories struct {
	Schema     string     `json:"schema"`
	BuiltAt    time.Time  `json:"builtAt"`
	Advisories []Advisory `json:"advisories"`
}

// Advisory says which versions of a package have a vulnerability.
type Advisory struct {
	ID      string   `json:"id"`
	Aliases []string `json:"aliases,omitempty"`
	// Ecosystem is a distribution, npm, or go. Release is that of a distribution; "": all.
	Ecosystem string `json:"ecosystem"`
	Release   string `json:"release,omitempty"`
	Package   string `json:"package"`
	// Ranges of versions that are affected; none: all are.
	Ranges   []Range  `json:"ranges,omitempty"`
	Status   string   `json:"status,omitempty"`
	Severity string   `json:"severity"`
	Score    float64  `json:"score,omitempty"`
	Vector   string   `json:"vector,omitempty"`
	CWEs     []string `json:"cwes,omitempty"`
	Title    string   `json:"title,omitempty"`
	URL      string   `json:"url,omitempty"`
	// Source and Licence say where the facts are from.
	Source  string `json:"source"`
	Licence string `json:"licence"`
}

// Range is from a version that has the vulnerability to the first one that has not; "" is open.
type Range struct {
	Introduced string `json:"introduced,omitempty"`
	Fixed      string `json:"fixed,omitempty"`
}

// metadata is stored beside the advisories.
type metadata struct {
	Version      string    `json:"version"`
	BuiltAt      time.Time `json:"builtAt"`
	DownloadedAt time.Time `json:"downloadedAt"`
}

// opened is a database in memory.
type opened struct {
	metadata

	// byKey are the advisories under the key of their package.
	byKey map[string][]Advisory
	count int
}

// databases keeps the one that was opened last.
type databases struct {
	dir   string
	mutex sync.Mutex
	last  string
	open  *opened
}

func (d *databases) get(dir string) (*opened, error) {
	if dir == "" {
		dir = d.dir
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.open != nil && d.last == dir {
		return d.open, nil
	}
	o, err := openDatabase(dir)
	if err != nil {
		return nil, err
	}
	d.last, d.open = dir, o
	return o, nil
}

func openDatabase(dir string) (*opened, error) {
	if dir == "" {
		return nil, protocol.Errorf(protocol.DatabaseMissing, "there is no database")
	}
	text, err := os.ReadFile(filepath.Join(dir, advisoriesFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, protocol.Errorf(protocol.DatabaseMissing, "there is no database")
	}
	if err != nil {
		return nil, fmt.Errorf("read database: %w", err)
	}
	all, err := parseAdvisories(text)
	if err != nil {
		return nil, err
	}
	o := &opened{byKey: map[string][]Advisory{}, count: len(all.Advisories)}
	said, err := os.ReadFile(filepath.Join(dir, metadataFile))
	if err != nil || json.Unmarshal(said, &o.metadata) != nil {
		return nil, protocol.Errorf(protocol.DatabaseCorrupt, "the database has no metadata")
	}
	for _, a := range all.Advisories {
		key := protocol.Key(a.Ecosystem, a.Package)
		o.byKey[key] = append(o.byKey[key], a)
	}
	return o, nil
}

func parseAdvisories(text []byte) (*Advisories, error) {
	var a Advisories
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&a); err != nil {
		return nil, protocol.Errorf(protocol.DatabaseCorrupt, "the file of advisories cannot be read: %v", err)
	}
	if a.Schema != schema {
		return nil, protocol.Errorf(protocol.DatabaseSchema, "the database has the schema %q, and %q is known", a.Schema, schema)
	}
	return &a, nil
}

func (e *engine) status(_ context.Context, call serve.Call) (any, error) {
	var params protocol.DatabaseParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	o, err := openDatabase(params.Dir)
	if protocol.CodeOf(err) == protocol.DatabaseMissing {
		return protocol.Status{}, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(params.Dir, advisoriesFile))
	if err != nil {
		return nil, fmt.Errorf("look at database: %w", err)
	}
	return protocol.Status{
		Present: true, Version: o.Version, Schema: schema, BuiltAt: &o.BuiltAt, DownloadedAt: &o.DownloadedAt, Records: int64(o.count), Bytes: info.Size(),
	}, nil
}

// update makes the directory of a new version: complete, or not there.
func (e *engine) update(ctx context.Context, call serve.Call) (any, error) {
	var params protocol.UpdateParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	if err := hasSpace(params.Dir, params.MinFreeBytes); err != nil {
		return nil, err
	}
	version, text, err := fetch(ctx, params.Source)
	if err != nil {
		return nil, err
	}
	all, err := parseAdvisories(text)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(params.Dir, version)
	if o, err := openDatabase(dir); err == nil && !params.Force {
		return protocol.UpdateResult{Version: version, BuiltAt: o.BuiltAt, Dir: dir}, nil
	}
	if err := install(dir, text, metadata{Version: version, BuiltAt: all.BuiltAt, DownloadedAt: e.now().UTC()}); err != nil {
		return nil, err
	}
	return protocol.UpdateResult{Changed: true, Version: version, BuiltAt: all.BuiltAt, Dir: dir}, nil
}

func hasSpace(dir string, needed int64) error {
	var stat syscall.Statfs_t
	if needed <= 0 {
		return nil
	}
	if err := syscall.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("look at disk: %w", err)
	}
	if free := int64(stat.Bavail) * stat.Bsize; free < needed {
		return protocol.Errorf(protocol.DiskFull, "%d bytes are free, and %d are needed", free, needed)
	}
	return nil
}

func install(dir string, text []byte, m metadata) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), directory); err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	aside, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()
	said, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	const permissions = 0o600
	if err := errors.Join(
		os.WriteFile(filepath.Join(aside, advisoriesFile), text, permissions), os.WriteFile(filepath.Join(aside, metadataFile), said, permissions),
		os.RemoveAll(dir),
	); err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	if err := os.Rename(aside, dir); err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	return nil
}

// fetch gives the version and the advisories of a source.
func fetch(ctx context.Context, s protocol.Source) (version string, text []byte, err error) {
	if s.File != "" {
		if text, err = os.ReadFile(s.File); err != nil {
			return "", nil, protocol.Errorf(protocol.NotFound, "read database: %v", err)
		}
		sum := sha256.Sum256(text)
		return "sha256:" + hex.EncodeToString(sum[:]), text, nil
	}
	name, digest, pinned := strings.Cut(s.Reference, "@")
	if !pinned || s.URL == "" {
		return "", nil, protocol.Errorf(protocol.InvalidRequest, "a source needs url and reference NAME@DIGEST, or a file")
	}
	from := &remote{base: s.URL + "/v2/" + name + "/", token: s.Token, client: &http.Client{}}
	var m imageManifest
	if err := document(ctx, from, "manifests", digest, &m); err != nil {
		return "", nil, err
	}
	i := slices.IndexFunc(m.Layers, func(d descriptor) bool { return d.MediaType == MediaType })
	if i < 0 {
		return "", nil, protocol.Errorf(protocol.DatabaseSchema, "the artifact has no layer of the type %s", MediaType)
	}
	layer := m.Layers[i]
	if layer.Size > maxDatabase {
		return "", nil, protocol.Errorf(protocol.TooLarge, "the database has more than 64 MiB")
	}
	body, err := from.open(ctx, "blobs", layer.Digest)
	if err != nil {
		return "", nil, err
	}
	defer body.Close()
	sum := hashOf(layer.Digest)
	if sum == nil {
		return "", nil, protocol.Errorf(protocol.DatabaseCorrupt, "%q is no digest", layer.Digest)
	}
	text, err = io.ReadAll(io.TeeReader(io.LimitReader(body, layer.Size), sum))
	if err != nil {
		return "", nil, protocol.Errorf(protocol.Unavailable, "read database: %v", err)
	}
	if !sum.matches() {
		return "", nil, protocol.Errorf(protocol.DatabaseCorrupt, "the database does not have the digest %s", layer.Digest)
	}
	return digest, text, nil
}

// indexOf hashes what a database says of each key.
func indexOf(dir string) (protocol.Index, error) {
	o, err := openDatabase(dir)
	if err != nil {
		return nil, err
	}
	texts := map[string][]string{}
	for key, list := range o.byKey {
		for _, a := range list {
			text, err := json.Marshal(a)
			if err != nil {
				return nil, fmt.Errorf("encode advisory: %w", err)
			}
			texts[key] = append(texts[key], string(text))
			for _, id := range append([]string{a.ID}, a.Aliases...) {
				of := protocol.Key("vuln", id)
				texts[of] = append(texts[of], string(text))
			}
		}
	}
	values := map[string]string{}
	for key, list := range texts {
		slices.Sort(list)
		values[key] = strings.Join(list, "\n")
	}
	return protocol.NewIndex(values), nil
}

func diff(_ context.Context, call serve.Call) (any, error) {
	var params protocol.DiffParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	to, err := indexOf(params.ToDir)
	if err != nil {
		return nil, err
	}
	result := protocol.DiffResult{Total: int64(len(to))}
	if _, err := call.WriteFile(params.IndexOut, to.Write); err != nil {
		return nil, err
	}
	var from protocol.Index
	switch {
	case params.FromIndex != "":
		from, err = readIndex(params.FromIndex)
	case params.FromDir != "":
		from, err = indexOf(params.FromDir)
	default:
		return result, nil
	}
	if err != nil {
		return result, nil //nolint:nilerr // an index that is lost makes the databases incomparable
	}
	changed := from.Changed(to)
	if _, err := call.WriteFile(params.Out, func(w io.Writer) error { return protocol.WriteHashes(w, changed) }); err != nil {
		return nil, err
	}
	result.Comparable, result.Changed = true, int64(len(changed))
	return result, nil
}

func readIndex(name string) (protocol.Index, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	defer f.Close() //nolint:errcheck // what was only read
	return protocol.ReadIndex(f)
}

func drop(_ context.Context, call serve.Call) (any, error) {
	var params protocol.DatabaseParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	// Only what is a database is removed.
	if _, err := os.Stat(filepath.Join(params.Dir, metadataFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("drop database: %w", err)
	} else if err == nil {
		if err := os.RemoveAll(params.Dir); err != nil {
			return nil, fmt.Errorf("drop database: %w", err)
		}
	}
	return struct{}{}, nil
}
