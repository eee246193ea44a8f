// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/scanyard/scanyard/registry/internal/platform"
)

const (
	// maxEntries are the entries of all indexes of a reference, maxLevels the indexes below each other.
	maxEntries = 256
	maxLevels  = 3
	// maxSkipped bounds what is told of an index that is full of entries without digests. All are counted.
	maxSkipped = 10_000
	// Dates before are those of reproducible builds.
	firstYear = 1990

	mediaTypeOCIConfig    = "application/vnd.oci.image.config.v1+json"
	mediaTypeDockerConfig = "application/vnd.docker.container.image.v1+json"
	mediaTypeBytes        = "application/octet-stream"

	// annotationAttestation marks what BuildKit puts beside an image in its index.
	annotationAttestation = "vnd.docker.reference.type"
)

// The flags of an image.
const (
	FlagForeignLayers = "ForeignLayers"
	FlagNoLayers      = "NoLayers"
	FlagUnknownLayers = "UnknownLayers"
)

// Image is one manifest with a file system for one platform.
type Image struct {
	Digest string `json:"digest"`
	// Platform is canonical.
	Platform string `json:"platform"`
	// Config is the digest of the config.
	Config string `json:"config"`
	Layers int    `json:"layers"`
	// CompressedBytes is the sum of the sizes of the layers.
	CompressedBytes int64 `json:"compressedBytes"`
	// Created is the date of the config as it is written there, if from 1990 on.
	Created string `json:"created,omitempty"`
	// Flags are sorted.
	Flags []string `json:"flags"`
	// Content is what the preview does not tell.
	Content Content `json:"-"`
}

// Skipped is what is not an image of ours.
type Skipped struct {
	// Digest is "" for an entry without one.
	Digest   string `json:"digest"`
	Reason   Reason `json:"reason"`
	Platform string `json:"platform,omitempty"`
}

// Warning is something odd, counted by its code.
type Warning struct {
	Code  string `json:"code"`
	Count int    `json:"count"`
}

// Answer is what a reference holds. Images and skipped are in the order of visiting, warnings in that of their codes.
type Answer struct {
	Images   []Image   `json:"images"`
	Skipped  []Skipped `json:"skipped"`
	Warnings []Warning `json:"warnings"`
}

// Limits are what is taken.
type Limits struct {
	Platforms platform.Filter
	// MaxImageBytes bounds the sum of the sizes of an image's layers.
	MaxImageBytes int64
}

// Part is a part of a repository: registries serve documents and blobs apart.
type Part string

// The parts of a repository. A config is a blob.
const (
	Manifests Part = "manifests"
	Blobs     Part = "blobs"
)

// Get gives the document of a digest from a part of the repository; false: there is none. An error ends the walk.
type Get func(part Part, digest string) (Document, bool, error)

// Images walks from the top, an index or a manifest, to the images of the selected platforms. The error is that of get.
func Images(top string, limits Limits, get Get) (Answer, error) {
	w := &walk{limits: limits, get: get, visited: map[string]bool{}, warnings: map[string]int{}, answer: Answer{Images: []Image{}, Skipped: []Skipped{}}}
	if err := w.visit(top, platform.Platform{}, 0); err != nil {
		return Answer{}, err
	}
	w.answer.Warnings = []Warning{}
	for _, code := range slices.Sorted(maps.Keys(w.warnings)) {
		w.answer.Warnings = append(w.answer.Warnings, Warning{Code: code, Count: w.warnings[code]})
	}
	return w.answer, nil
}

// walk is one reference while it is looked at.
type walk struct {
	limits   Limits
	get      Get
	answer   Answer
	warnings map[string]int
	visited  map[string]bool
	entries  int
}

func (w *walk) skip(digest string, reason Reason, p platform.Platform) {
	s := Skipped{Digest: digest, Reason: reason}
	if p.Known() {
		s.Platform = p.Canonical().String()
	}
	if len(w.answer.Skipped) < maxSkipped {
		w.answer.Skipped = append(w.answer.Skipped, s)
	}
	switch reason {
	case PlatformNotSelected, Attestation, Artifact, Referrer:
	default:
		w.warnings[string(reason)]++
	}
}

// visit looks at an index or a manifest. The platform is that of the entry that led here; level counts the indexes above.
func (w *walk) visit(digest string, p platform.Platform, level int) error {
	w.visited[digest] = true
	document, found, err := w.get(Manifests, digest)
	if err != nil {
		return err
	}
	if !found {
		w.skip(digest, ManifestMissing, p)
		return nil
	}
	o, k, reason := examine(document, digest)
	switch {
	case reason != "":
		w.skip(digest, reason, p)
	case k == kindManifest:
		return w.manifest(digest, o, p)
	case level > maxLevels:
		w.skip(digest, NestingTooDeep, p)
	default:
		return w.index(digest, o, p, level)
	}
	return nil
}

func (w *walk) index(digest string, o object, p platform.Platform, level int) error {
	entries, isList := o.list("manifests")
	if !isList {
		w.skip(digest, InvalidManifest, p)
		return nil
	}
	for _, text := range entries {
		d, p, reason := w.entry(text, level+1)
		switch {
		case reason != "":
			w.skip(d.digest, reason, p)
		case !w.visited[d.digest]:
			if err := w.visit(d.digest, p, level+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry reads an entry of an index. The reason says why the entry is not visited.
func (w *walk) entry(text json.RawMessage, level int) (descriptor, platform.Platform, Reason) {
	d, valid := parseDescriptor(text)
	p := readPlatform(d.member("platform"))
	if !valid {
		return d, p, InvalidDescriptor
	}
	if w.entries++; w.entries > maxEntries {
		return d, p, TooManyManifests
	}
	switch k := kindOf(d.mediaType); {
	case d.member("annotations").has(annotationAttestation):
		return d, p, Attestation
	case d.words("artifactType") != "":
		return d, p, Artifact
	case k == kindSchema1:
		return d, p, SchemaVersion1
	case k == kindUnknown:
		return d, p, UnknownMediaType
	case p.Known() && !w.limits.Platforms.Selects(p):
		return d, p, PlatformNotSelected
	case k == kindIndex && level > maxLevels:
		return d, p, NestingTooDeep
	case d.size > MaxDocument:
		return d, p, ManifestTooLarge
	}
	return d, p, ""
}

// readPlatform reads the members that entries of indexes and configs share.
func readPlatform(o object) platform.Platform {
	return platform.Platform{OS: o.words("os"), Architecture: o.words("architecture"), Variant: o.words("variant"), OSVersion: o.words("os.version")}
}

func (w *walk) manifest(digest string, o object, p platform.Platform) error {
	config, layers, valid := blobs(o)
	if !valid {
		w.skip(digest, InvalidManifest, p)
		return nil
	}
	flags, reason := examineLayers(config.mediaType, layers)
	if reason != "" {
		w.skip(digest, reason, p)
		return nil
	}
	image := Image{Digest: digest, Config: config.digest, Layers: len(layers), CompressedBytes: sum(layers), Flags: flags}
	if image.CompressedBytes > w.limits.MaxImageBytes {
		w.skip(digest, ImageTooLarge, p)
		return nil
	}
	content, reason, err := w.config(config)
	if err != nil {
		return err
	}
	if reason != "" && !p.Known() {
		w.skip(digest, reason, p)
		return nil
	}
	if reason != "" {
		w.warnings[string(reason)]++
	}
	image.Content = contentOf(layers, content)
	image.Content.MediaType = o.words("mediaType")
	w.place(image, p, content)
	return nil
}

// place finds the platform of an image, and takes the image where the platform is selected.
func (w *walk) place(image Image, p platform.Platform, content object) {
	said := readPlatform(content)
	switch {
	case !p.Known():
		p = said
	case p.Contradicts(said):
		w.warnings[ConfigPlatformMismatch]++
	}
	switch {
	case p.Known() && !w.limits.Platforms.Selects(p):
		w.skip(image.Digest, PlatformNotSelected, p)
		return
	case !p.Known() && len(w.limits.Platforms) > 0:
		w.skip(image.Digest, NoPlatform, p)
		return
	case !p.Known():
		w.warnings[string(NoPlatform)]++
		p = platform.Platform{OS: platform.Unknown, Architecture: platform.Unknown}
	}
	image.Platform = p.Canonical().String()
	if created := content.words("created"); dated(created) {
		image.Created = created
	}
	w.answer.Images = append(w.answer.Images, image)
}

func dated(text string) bool {
	date, err := time.Parse(time.RFC3339Nano, text)
	return err == nil && date.UTC().Year() >= firstYear
}

// blobs reads the descriptors of a manifest.
func blobs(o object) (config descriptor, layers []descriptor, valid bool) {
	list, isList := o.list("layers")
	config, valid = parseDescriptor(o["config"])
	if !isList || !valid {
		return config, nil, false
	}
	for _, text := range list {
		layer, valid := parseDescriptor(text)
		if !valid {
			return config, nil, false
		}
		layers = append(layers, layer)
	}
	return config, layers, true
}

// rootFS are the media types of layers of a file system; true: the layer lies elsewhere.
var rootFS = map[string]bool{
	"application/vnd.oci.image.layer.v1.tar":                       false,
	"application/vnd.oci.image.layer.v1.tar+gzip":                  false,
	"application/vnd.oci.image.layer.v1.tar+zstd":                  false,
	"application/vnd.oci.image.layer.nondistributable.v1.tar":      true,
	"application/vnd.oci.image.layer.nondistributable.v1.tar+gzip": true,
	"application/vnd.oci.image.layer.nondistributable.v1.tar+zstd": true,
	"application/vnd.docker.image.rootfs.diff.tar":                 false,
	"application/vnd.docker.image.rootfs.diff.tar.gzip":            false,
	"application/vnd.docker.image.rootfs.diff.tar.zstd":            false,
	"application/vnd.docker.image.rootfs.foreign.diff.tar":         true,
	"application/vnd.docker.image.rootfs.foreign.diff.tar.gzip":    true,
	"application/vnd.docker.image.rootfs.foreign.diff.tar.zstd":    true,
}

const encryptedSuffix = "+encrypted"

// examineLayers tells whether a manifest is an image, and its flags.
func examineLayers(configType string, layers []descriptor) ([]string, Reason) {
	files, encrypted, flags := 0, false, map[string]bool{}
	for _, layer := range layers {
		mediaType, sealed := strings.CutSuffix(layer.mediaType, encryptedSuffix)
		encrypted = encrypted || sealed
		foreign, known := rootFS[mediaType]
		if !known {
			flags[FlagUnknownLayers] = true
			continue
		}
		files++
		if foreign {
			flags[FlagForeignLayers] = true
		}
	}
	switch configType {
	case mediaTypeOCIConfig, mediaTypeDockerConfig:
		if len(layers) == 0 {
			flags[FlagNoLayers] = true
		} else if files == 0 {
			return nil, Artifact
		}
	case "", mediaTypeBytes:
		if files == 0 || files < len(layers) {
			return nil, Artifact
		}
	default:
		return nil, Artifact
	}
	if encrypted {
		return nil, EncryptedLayers
	}
	return append([]string{}, slices.Sorted(maps.Keys(flags))...), ""
}

// sum adds sizes, which are those of strangers: it ends at the largest number.
func sum(layers []descriptor) int64 {
	var total int64
	for _, layer := range layers {
		if layer.size > math.MaxInt64-total {
			return math.MaxInt64
		}
		total += layer.size
	}
	return total
}

// config reads the config of an image. The reason says why there is none.
func (w *walk) config(d descriptor) (object, Reason, error) {
	if d.size > MaxDocument {
		return nil, ConfigTooLarge, nil
	}
	document, found, err := w.get(Blobs, d.digest)
	switch {
	case err != nil:
		return nil, "", err
	case !found:
		return nil, ConfigMissing, nil
	case len(document.Body) > MaxDocument:
		return nil, ConfigTooLarge, nil
	case !hasDigest(document.Body, d.digest):
		return nil, DigestMismatch, nil
	}
	content := parseObject(document.Body)
	if content == nil {
		return nil, InvalidConfig, nil
	}
	return content, "", nil
}
