// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"io"
	"regexp"
	"strings"
)

// Reason is why a document is not an image of ours.
type Reason string

// The reasons. PlatformNotSelected, Attestation, Artifact and Referrer are usual; all others are warnings too.
const (
	ManifestMissing     Reason = "ManifestMissing"
	ManifestTooLarge    Reason = "ManifestTooLarge"
	DigestMismatch      Reason = "DigestMismatch"
	InvalidManifest     Reason = "InvalidManifest"
	SchemaVersion1      Reason = "SchemaVersion1"
	AmbiguousManifest   Reason = "AmbiguousManifest"
	MediaTypeMismatch   Reason = "MediaTypeMismatch"
	UnknownMediaType    Reason = "UnknownMediaType"
	Referrer            Reason = "Referrer"
	Artifact            Reason = "Artifact"
	InvalidDescriptor   Reason = "InvalidDescriptor"
	TooManyManifests    Reason = "TooManyManifests"
	Attestation         Reason = "Attestation"
	PlatformNotSelected Reason = "PlatformNotSelected"
	NestingTooDeep      Reason = "NestingTooDeep"
	EncryptedLayers     Reason = "EncryptedLayers"
	ImageTooLarge       Reason = "ImageTooLarge"
	ConfigMissing       Reason = "ConfigMissing"
	ConfigTooLarge      Reason = "ConfigTooLarge"
	InvalidConfig       Reason = "InvalidConfig"
	NoPlatform          Reason = "NoPlatform"
)

// ConfigPlatformMismatch is a warning that is not a reason: the platform of the index wins.
const ConfigPlatformMismatch = "ConfigPlatformMismatch"

// MaxDocument is the most that a manifest, an index or a config may have, in bytes.
const MaxDocument = 4 << 20

// maxDepth is how deep JSON may be nested.
const maxDepth = 64

// Document is what a registry answered. Body is at most MaxDocument+1 bytes long; a longer one is cut there.
type Document struct {
	ContentType string
	Body        []byte
}

type kind string

const (
	kindIndex    kind = "index"
	kindManifest kind = "manifest"
	kindSchema1  kind = "schema 1"
	kindUnknown  kind = "unknown"
)

// kinds are the media types of documents, by the OCI Image Specification and by Docker's registry API.
var kinds = map[string]kind{
	"application/vnd.oci.image.index.v1+json":                   kindIndex,
	"application/vnd.docker.distribution.manifest.list.v2+json": kindIndex,
	"application/vnd.oci.image.manifest.v1+json":                kindManifest,
	"application/vnd.docker.distribution.manifest.v2+json":      kindManifest,
	"application/vnd.docker.distribution.manifest.v1+json":      kindSchema1,
	"application/vnd.docker.distribution.manifest.v1+prettyjws": kindSchema1,
}

// kindOf gives the kind of a media type: "" where there is none, kindUnknown where the type is another one.
func kindOf(mediaType string) kind {
	if mediaType == "" {
		return ""
	}
	if k, found := kinds[mediaType]; found {
		return k
	}
	return kindUnknown
}

var digestPattern = regexp.MustCompile(`\A(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})\z`)

func hasDigest(body []byte, digest string) bool {
	algorithm, want, _ := strings.Cut(digest, ":")
	switch algorithm {
	case "sha256":
		sum := sha256.Sum256(body)
		return hex.EncodeToString(sum[:]) == want
	case "sha512":
		sum := sha512.Sum512(body)
		return hex.EncodeToString(sum[:]) == want
	}
	return false
}

// object is a JSON object whose names are taken as they are written. A null is not a member.
type object map[string]json.RawMessage

// parseObject reads one JSON object and nothing after it; nil: the text is none, or nested too deep.
func parseObject(text []byte) object {
	if !shallow(text) {
		return nil
	}
	var o object
	if json.Unmarshal(text, &o) != nil {
		return nil
	}
	for name, value := range o {
		if string(value) == "null" {
			delete(o, name)
		}
	}
	return o
}

// shallow tells whether no part of a JSON text is nested deeper than maxDepth.
func shallow(text []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for depth := 0; ; {
		token, err := decoder.Token()
		if err != nil {
			return err == io.EOF
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			if depth++; depth > maxDepth {
				return false
			}
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}

func (o object) has(name string) bool { _, found := o[name]; return found }

// text reads a member that is a string; "" where there is none.
func (o object) text(name string) (text string, isText bool) {
	value, found := o[name]
	if !found {
		return "", true
	}
	return text, json.Unmarshal(value, &text) == nil
}

// words reads a member that is a string, and takes anything else for none.
func (o object) words(name string) string {
	text, _ := o.text(name)
	return text
}

// list reads a member that is a list.
func (o object) list(name string) (list []json.RawMessage, isList bool) {
	value, found := o[name]
	return list, found && json.Unmarshal(value, &list) == nil
}

// member reads a member that is an object; nil where there is none.
func (o object) member(name string) object { return parseObject(o[name]) }

// descriptor is what points to a document or a blob.
type descriptor struct {
	object

	mediaType, digest string
	size              int64
}

// parseDescriptor reads a descriptor; valid: the descriptor has a digest and a size. A digest is read even where the rest is wrong.
func parseDescriptor(text json.RawMessage) (d descriptor, valid bool) {
	d.object = parseObject(text)
	d.mediaType, d.digest = d.words("mediaType"), d.words("digest")
	err := json.Unmarshal(d.object["size"], &d.size)
	return d, d.has("size") && err == nil && d.size >= 0 && digestPattern.MatchString(d.digest)
}

// examine reads an index or a manifest. The reason says why the document is neither.
func examine(document Document, digest string) (object, kind, Reason) {
	if len(document.Body) > MaxDocument {
		return nil, "", ManifestTooLarge
	}
	if !hasDigest(document.Body, digest) {
		return nil, "", DigestMismatch
	}
	o := parseObject(document.Body)
	if o == nil {
		return nil, "", InvalidManifest
	}
	mediaType, isText := o.text("mediaType")
	if !isText {
		return nil, "", InvalidManifest
	}
	sent, _, _ := strings.Cut(document.ContentType, ";")
	k, reason := kindOfDocument(o, kindOf(mediaType), kindOf(strings.ToLower(strings.TrimSpace(sent))))
	switch {
	case reason != "":
		return nil, "", reason
	case o.has("subject"):
		return nil, "", Referrer
	case o.words("artifactType") != "":
		return nil, "", Artifact
	}
	return o, k, ""
}

// kindOfDocument finds the kind by what the document says, by what the registry says, and by what is in the document.
func kindOfDocument(o object, said, sent kind) (kind, Reason) {
	index, manifest := o.has("manifests"), o.has("config") || o.has("layers")
	k := said
	if k == "" && sent != kindUnknown {
		k = sent
	}
	switch {
	case schemaVersion(o) == 1, k == kindSchema1:
		return "", SchemaVersion1
	case index && manifest:
		return "", AmbiguousManifest
	case said == kindUnknown:
		return "", UnknownMediaType
	case said != "" && sent != "" && sent != kindUnknown && said != sent:
		return "", MediaTypeMismatch
	case k == "" && index, k == kindIndex && index:
		return kindIndex, ""
	case k == "" && manifest, k == kindManifest && manifest:
		return kindManifest, ""
	}
	return "", InvalidManifest
}

func schemaVersion(o object) float64 {
	var version float64
	if json.Unmarshal(o["schemaVersion"], &version) != nil {
		return 0
	}
	return version
}
