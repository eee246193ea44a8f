// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/database"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
	"github.com/scanyard/scanyard/registry/internal/adapter/source"
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
	usual database.Usual
	mutex sync.Mutex
	last  string
	open  *opened
}

func (d *databases) get(dir string) (*opened, error) {
	dir = d.usual.Or(dir)
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
	o.add(all.Advisories)
	return o, nil
}

func (o *opened) add(advisories []Advisory) {
	for _, a := range advisories {
		key := protocol.Key(a.Ecosystem, a.Package)
		o.byKey[key] = append(o.byKey[key], a)
	}
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
	if err := source.HasSpace(params.Dir, params.MinFreeBytes); err != nil {
		return nil, err
	}
	artifact, err := source.Database(ctx, params.Source, maxDatabase, MediaType)
	if err != nil {
		return nil, err
	}
	var text []byte
	if err := artifact.Read(func(content io.Reader) (err error) {
		text, err = io.ReadAll(content)
		return err
	}); err != nil {
		return nil, err
	}
	all, err := parseAdvisories(text)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(params.Dir, artifact.Version)
	if o, err := openDatabase(dir); err == nil && !params.Force {
		e.database.usual.Installed(dir)
		return protocol.UpdateResult{Version: artifact.Version, BuiltAt: o.BuiltAt, Dir: dir}, nil
	}
	said, err := json.Marshal(metadata{Version: artifact.Version, BuiltAt: all.BuiltAt, DownloadedAt: e.now().UTC()})
	if err != nil {
		return nil, fmt.Errorf("make database: %w", err)
	}
	if err := source.Install(dir, func(aside string) error {
		const permissions = 0o600
		return errors.Join(
			os.WriteFile(filepath.Join(aside, advisoriesFile), text, permissions), os.WriteFile(filepath.Join(aside, metadataFile), said, permissions),
		)
	}); err != nil {
		return nil, err
	}
	e.database.usual.Installed(dir)
	return protocol.UpdateResult{Changed: true, Version: artifact.Version, BuiltAt: all.BuiltAt, Dir: dir}, nil
}

// indexOf hashes what a database says of each key.
func indexOf(_ context.Context, dir string) (protocol.Index, error) {
	o, err := openDatabase(dir)
	if err != nil {
		return nil, err
	}
	return o.index()
}

func (o *opened) index() (protocol.Index, error) {
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

func drop(_ context.Context, call serve.Call) (any, error) {
	var params protocol.DatabaseParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	return struct{}{}, source.Drop(params.Dir, metadataFile)
}
