// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"encoding/json"
	"slices"
	"time"
)

// Name is that of the protocol, Version the number that each message has as v.
const (
	Name    = "scanyard.adapter/1"
	Version = 1
)

// Op is what is asked for.
type Op string

// The operations.
const (
	Describe       Op = "describe"
	SBOM           Op = "sbom"
	Match          Op = "match"
	DatabaseStatus Op = "db-status"
	DatabaseUpdate Op = "db-update"
	DatabaseDiff   Op = "db-diff"
	DatabaseDrop   Op = "db-drop"
	Cancel         Op = "cancel"
	Ping           Op = "ping"
)

// The types of answers. A request gets any number of progresses, and one result or error.
const (
	TypeProgress = "progress"
	TypeResult   = "result"
	TypeError    = "error"
)

// The formats of documents.
const (
	SPDX      = "spdx-json"
	CycloneDX = "cyclonedx-json"
)

// Request is a line to an adapter.
type Request struct {
	V  int    `json:"v"`
	ID string `json:"id"`
	Op Op     `json:"op"`
	// Deadline is when the answer is no longer wanted.
	Deadline *time.Time `json:"deadline,omitempty"`
	// Workdir is where the request's files go: relative to the adapter's own working directory, or absolute.
	Workdir string          `json:"workdir,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// Answer is a line of an adapter.
type Answer struct {
	V    int    `json:"v"`
	ID   string `json:"id"`
	Type string `json:"type"`
	// Done of Total, and Message, are of a progress.
	Done    int64           `json:"done,omitempty"`
	Total   int64           `json:"total,omitempty"`
	Message string          `json:"message,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Engine is what an adapter is around.
type Engine struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Description is the result of describe.
type Description struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Protocols []int             `json:"protocols"`
	Engine    Engine            `json:"engine"`
	SBOM      SBOMAbilities     `json:"sbom"`
	Match     MatchAbilities    `json:"match"`
	Database  DatabaseAbilities `json:"database"`
	Licences  []string          `json:"licences,omitempty"`
}

// SBOMAbilities are what an adapter can do with images. Without formats it makes no SBOMs.
type SBOMAbilities struct {
	Formats    []string `json:"formats"`
	LayerCache bool     `json:"layerCache"`
	// Parallel is how many requests one process takes at once.
	Parallel int `json:"parallel"`
}

// MatchAbilities are what an adapter can do with SBOMs. Without formats it matches none.
type MatchAbilities struct {
	Formats []string `json:"formats"`
	// Producers are the engines whose SBOMs are understood whole.
	Producers []string `json:"producers"`
	Parallel  int      `json:"parallel"`
	// Keys: the adapter tells the keys of packages. Diff: it compares databases.
	Keys bool `json:"keys"`
	Diff bool `json:"diff"`
}

// DatabaseAbilities are which databases an adapter reads. Without media types it has none.
type DatabaseAbilities struct {
	Schema     string   `json:"schema"`
	MediaTypes []string `json:"mediaTypes"`
}

// Image is where an adapter finds an image: at the worker's proxy, or as an OCI layout in a directory.
type Image struct {
	// URL is that of the proxy, Reference the name of the repository there, Token good for this request only.
	URL       string `json:"url,omitempty"`
	Reference string `json:"reference,omitempty"`
	Token     string `json:"token,omitempty"`
	CAFile    string `json:"caFile,omitempty"`
	Layout    string `json:"layout,omitempty"`
	// Digest is that of the manifest.
	Digest string `json:"digest"`
}

// Layer is a layer of the image that is asked about.
type Layer struct {
	Digest string `json:"digest"`
	DiffID string `json:"diffID"`
	Bytes  int64  `json:"bytes,omitempty"`
	// Cached: the worker knows that this analysis may be taken from the cache.
	Cached bool `json:"cached,omitempty"`
}

// Limits bound what an image may cost. 0: no bound of the request.
type Limits struct {
	CompressedBytes   int64 `json:"compressedBytes,omitempty"`
	UncompressedBytes int64 `json:"uncompressedBytes,omitempty"`
	Files             int64 `json:"files,omitempty"`
	// FileBytes is the most that a file may have which is looked into.
	FileBytes int64 `json:"fileBytes,omitempty"`
	// Ratio is that of a layer's uncompressed bytes to its compressed ones.
	Ratio int64 `json:"ratio,omitempty"`
}

// DefaultLimits are the bounds of hostile content.
func DefaultLimits() Limits {
	return Limits{CompressedBytes: 16 << 30, UncompressedBytes: 64 << 30, Files: 2_000_000, FileBytes: 512 << 20, Ratio: 200}
}

// SBOMParams ask for an SBOM.
type SBOMParams struct {
	Image    Image    `json:"image"`
	Platform string   `json:"platform,omitempty"`
	Layers   []Layer  `json:"layers,omitempty"`
	Formats  []string `json:"formats"`
	// Out names the files of the formats, below workdir.
	Out      map[string]string `json:"out"`
	CacheDir string            `json:"cacheDir,omitempty"`
	// CacheScope separates layer analyses of those who may not share them.
	CacheScope string   `json:"cacheScope,omitempty"`
	Scope      []string `json:"scope,omitempty"`
	Limits     Limits   `json:"limits"`
}

// CheckOutput holds the formats of a request to those that an adapter makes.
func (p SBOMParams) CheckOutput(made ...string) error {
	if len(p.Formats) == 0 {
		return Errorf(InvalidRequest, "formats must name one at least")
	}
	for _, format := range p.Formats {
		if !slices.Contains(made, format) {
			return Errorf(Unsupported, "there is no format %q", format)
		}
		if p.Out[format] == "" {
			return Errorf(InvalidRequest, "out must name a file for %s", format)
		}
	}
	return nil
}

// MayReuse tells whether the analysis of a layer may come from the cache.
func (p SBOMParams) MayReuse(digest string) bool {
	return slices.ContainsFunc(p.Layers, func(l Layer) bool { return l.Digest == digest && l.Cached })
}

// File is a document below workdir.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// OS is the distribution in an image.
type OS struct {
	Family  string `json:"family,omitempty"`
	Version string `json:"version,omitempty"`
	// EOL: the distribution gives no more fixes.
	EOL bool `json:"eol,omitempty"`
}

// How complete an SBOM is.
const (
	Full    = "Full"
	Partial = "Partial"
)

// SBOMResult is what an adapter has found in an image.
type SBOMResult struct {
	Files          map[string]File `json:"files"`
	Packages       int             `json:"packages"`
	OS             OS              `json:"os"`
	LayersAnalysed int             `json:"layersAnalysed"`
	LayersReused   int             `json:"layersReused"`
	BytesRead      int64           `json:"bytesRead"`
	// Completeness is Full or Partial; then Missing says what was not looked at.
	Completeness string   `json:"completeness"`
	Missing      []string `json:"missing,omitempty"`
	Warnings     []string `json:"warnings,omitempty"`
}

// Document is an SBOM that is to be matched.
type Document struct {
	Path   string `json:"path"`
	Format string `json:"format"`
	// Producer is the name of the engine that made the document.
	Producer string `json:"producer,omitempty"`
}

// MatchedImage is the image of an SBOM.
type MatchedImage struct {
	Digest   string  `json:"digest,omitempty"`
	Platform string  `json:"platform,omitempty"`
	OS       OS      `json:"os"`
	Layers   []Layer `json:"layers,omitempty"`
}

// MatchParams ask for the findings of an SBOM.
type MatchParams struct {
	SBOM  Document     `json:"sbom"`
	Image MatchedImage `json:"image"`
	// DatabaseDir is the directory of one version; absent: the one that the process was told in --database, or has installed last.
	DatabaseDir string `json:"databaseDir,omitempty"`
	Out         string `json:"out"`
	KeysOut     string `json:"keysOut,omitempty"`
}

// MatchResult tells of the findings, which are in a file, one a line.
type MatchResult struct {
	Findings   int            `json:"findings"`
	BySeverity map[string]int `json:"bySeverity"`
	File       File           `json:"file"`
	// Keys is the number of packages in the file of keys, KeysFile that file where it was asked for.
	Keys     int          `json:"keys"`
	KeysFile *File        `json:"keysFile,omitempty"`
	Database DatabaseName `json:"database"`
	Warnings []string     `json:"warnings,omitempty"`
}

// DatabaseName tells a database from others of its adapter.
type DatabaseName struct {
	Version string    `json:"version"`
	BuiltAt time.Time `json:"builtAt"`
}

// PackageKeys are the keys under which a matcher could ask for a package: a line of the file of keys.
type PackageKeys struct {
	PURL string   `json:"purl"`
	Keys []string `json:"keys"`
}

// DatabaseParams name the directory of databases, or of one.
type DatabaseParams struct {
	Dir string `json:"dir"`
}

// Status is the result of db-status.
type Status struct {
	Present      bool       `json:"present"`
	Version      string     `json:"version,omitempty"`
	Schema       string     `json:"schema,omitempty"`
	BuiltAt      *time.Time `json:"builtAt,omitempty"`
	DownloadedAt *time.Time `json:"downloadedAt,omitempty"`
	NextUpdate   *time.Time `json:"nextUpdate,omitempty"`
	Records      int64      `json:"records,omitempty"`
	Bytes        int64      `json:"bytes,omitempty"`
}

// Source is where a database comes from: the worker's proxy, or a file.
type Source struct {
	// Reference is REPOSITORY@DIGEST at the URL.
	Reference string `json:"reference,omitempty"`
	URL       string `json:"url,omitempty"`
	Token     string `json:"token,omitempty"`
	CAFile    string `json:"caFile,omitempty"`
	File      string `json:"file,omitempty"`
}

// UpdateParams ask for a database.
type UpdateParams struct {
	Dir          string `json:"dir"`
	Source       Source `json:"source"`
	Force        bool   `json:"force,omitempty"`
	MinFreeBytes int64  `json:"minFreeBytes,omitempty"`
}

// UpdateResult tells of a database that is there. Dir is the directory of this version.
type UpdateResult struct {
	Changed bool      `json:"changed"`
	Version string    `json:"version"`
	BuiltAt time.Time `json:"builtAt"`
	Dir     string    `json:"dir"`
}

// DiffParams ask what differs between two databases.
type DiffParams struct {
	FromIndex string `json:"fromIndex,omitempty"`
	FromDir   string `json:"fromDir,omitempty"`
	ToDir     string `json:"toDir"`
	Out       string `json:"out"`
	IndexOut  string `json:"indexOut"`
}

// DiffResult tells how many keys differ.
type DiffResult struct {
	Comparable bool  `json:"comparable"`
	Changed    int64 `json:"changed"`
	Total      int64 `json:"total"`
}

// CancelParams name the request that is no longer wanted.
type CancelParams struct {
	Request string `json:"request"`
}
