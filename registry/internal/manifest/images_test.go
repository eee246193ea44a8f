// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/registry/internal/manifest"
	"github.com/scanyard/scanyard/registry/internal/platform"
)

const (
	ociIndex     = "application/vnd.oci.image.index.v1+json"
	ociManifest  = "application/vnd.oci.image.manifest.v1+json"
	ociConfig    = "application/vnd.oci.image.config.v1+json"
	dockerList   = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerImage  = "application/vnd.docker.distribution.manifest.v2+json"
	dockerConfig = "application/vnd.docker.container.image.v1+json"
	layer        = "application/vnd.oci.image.layer.v1.tar"
)

// store is a registry: documents by digest.
type store map[string]manifest.Document

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (s store) put(contentType, body string) string {
	digest := digestOf(body)
	s[digest] = manifest.Document{ContentType: contentType, Body: []byte(body)}
	return digest
}

func (s store) get(_ manifest.Part, digest string) (manifest.Document, bool, error) {
	document, found := s[digest]
	return document, found, nil
}

// of makes the JSON of pairs of names and values, where values are JSON.
func of(pairs ...string) string {
	var members []string
	for i := 0; i < len(pairs); i += 2 {
		members = append(members, fmt.Sprintf("%q:%s", pairs[i], pairs[i+1]))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func quoted(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

func blob(mediaType string, size int64, further ...string) string {
	return of(append([]string{"mediaType", quoted(mediaType), "digest", quoted(digestOf(mediaType)), "size", strconv.FormatInt(size, 10)}, further...)...)
}

// image puts a manifest with a config into the store, and gives the digest.
func (s store) image(config string, layers ...string) string {
	return s.manifest(ociConfig, s.put("", config), layers...)
}

func (s store) manifest(configType, configDigest string, layers ...string) string {
	return s.put(ociManifest, of("schemaVersion", "2", "mediaType", quoted(ociManifest),
		"config", of("mediaType", quoted(configType), "digest", quoted(configDigest), "size", "1"), "layers", "["+strings.Join(layers, ",")+"]"))
}

func entry(digest, os, architecture string, further ...string) string {
	pairs := []string{"mediaType", quoted(ociManifest), "digest", quoted(digest), "size", "100"}
	if os != "" {
		pairs = append(pairs, "platform", of("os", quoted(os), "architecture", quoted(architecture)))
	}
	return of(append(pairs, further...)...)
}

func (s store) index(entries ...string) string {
	return s.put(ociIndex, of("schemaVersion", "2", "mediaType", quoted(ociIndex), "manifests", "["+strings.Join(entries, ",")+"]"))
}

func config(os, architecture string, further ...string) string {
	return of(append([]string{"os", quoted(os), "architecture", quoted(architecture)}, further...)...)
}

// told writes an answer as "platform flags…; Reason(platform)…; Warning:count…".
func told(a manifest.Answer) string {
	var images, skipped, warnings []string
	for _, i := range a.Images {
		images = append(images, strings.Join(append([]string{i.Platform}, i.Flags...), "+"))
	}
	for _, s := range a.Skipped {
		text := string(s.Reason)
		if s.Platform != "" {
			text += "(" + s.Platform + ")"
		}
		skipped = append(skipped, text)
	}
	for _, w := range a.Warnings {
		warnings = append(warnings, fmt.Sprintf("%s:%d", w.Code, w.Count))
	}
	return strings.TrimRight(strings.Join([]string{strings.Join(images, " "), strings.Join(skipped, " "), strings.Join(warnings, " ")}, "; "), "; ")
}

func TestImages(t *testing.T) {
	amd64 := config("linux", "amd64")
	one := blob(layer+"+gzip", 10)
	for name, test := range map[string]struct {
		make      func(s store) string
		platforms string
		want      string
	}{
		"Index": {func(s store) string {
			return s.index(entry(s.image(amd64, one), "linux", "amd64"), entry(s.image(config("linux", "riscv64"), one), "linux", "riscv64"),
				entry(digestOf("x"), "unknown", "unknown", "annotations", `{"vnd.docker.reference.type":"attestation-manifest"}`))
		}, "linux/riscv64", "linux/riscv64; PlatformNotSelected(linux/amd64) Attestation"},
		"IndexWithoutPlatforms": {func(s store) string { return s.index(entry(s.image(config("linux", "mips64le"), one), "", "")) }, "", "linux/mips64le"},
		"IndexOfDocker": {func(s store) string {
			return s.put(dockerList+"; charset=utf-8", of("schemaVersion", "2", "mediaType", quoted(dockerList), "manifests", "["+entry(s.image(amd64, one), "linux", "amd64")+"]"))
		}, "", "linux/amd64"},
		"EmptyConfig":     {func(s store) string { return s.manifest("application/vnd.oci.empty.v1+json", s.put("", "{}"), one) }, "", "; Artifact"},
		"TwoCompressions": {func(s store) string { return s.image(amd64, blob(layer+"+zstd", 1), blob(layer, 2)) }, "linux/amd64", "linux/amd64"},
		"NoLayers":        {func(s store) string { return s.image(amd64) }, "", "linux/amd64+NoLayers"},
		"Signature": {func(s store) string {
			return s.image(amd64, blob("application/vnd.dev.cosign.simplesigning.v1+json", 1))
		}, "", "; Artifact"},
		"UnknownLayer": {func(s store) string { return s.image(amd64, one, blob("application/x-more", 1)) }, "", "linux/amd64+UnknownLayers"},
		"ForeignLayer": {func(s store) string {
			return s.image(amd64, blob("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", 1), blob("application/x-more", 1))
		}, "", "linux/amd64+ForeignLayers+UnknownLayers"},
		"EncryptedLayer": {func(s store) string { return s.image(amd64, one, blob(layer+"+gzip+encrypted", 1)) }, "", "; EncryptedLayers; EncryptedLayers:1"},
		"BytesConfig":    {func(s store) string { return s.manifest("application/octet-stream", s.put("", amd64), one) }, "", "linux/amd64"},
		"BytesConfigAndMore": {func(s store) string {
			return s.manifest("application/octet-stream", s.put("", amd64), one, blob("application/x-more", 1))
		}, "", "; Artifact"},
		"BytesConfigNothing": {func(s store) string { return s.manifest("", s.put("", amd64)) }, "", "; Artifact"},
		"DockerImage": {func(s store) string {
			return s.put(dockerImage, of("schemaVersion", "2", "mediaType", quoted(dockerImage),
				"config", of("mediaType", quoted(dockerConfig), "digest", quoted(s.put("", amd64)), "size", "2"), "layers", "["+blob("application/vnd.docker.image.rootfs.diff.tar.gzip", 1)+"]"))
		}, "", "linux/amd64"},
		"TooLarge":          {func(s store) string { return s.image(amd64, blob(layer, 600), blob(layer, 401)) }, "", "; ImageTooLarge; ImageTooLarge:1"},
		"TooLargeForNumber": {func(s store) string { return s.image(amd64, blob(layer, 1<<63-1), blob(layer, 1<<63-1)) }, "", "; ImageTooLarge; ImageTooLarge:1"},
		"ByStructure": {func(s store) string {
			return s.put("", of("config", of("mediaType", quoted(ociConfig), "digest", quoted(s.put("", amd64)), "size", "2"), "layers", "["+one+"]"))
		}, "", "linux/amd64"},
		"BySentType": {func(s store) string {
			return s.put(ociIndex+" ; a=b", of("manifests", "["+entry(s.image(amd64, one), "linux", "amd64")+"]"))
		}, "", "linux/amd64"},
		"SchemaVersion1": {func(s store) string { return s.put("application/json", of("schemaVersion", "1", "fsLayers", "[]")) }, "", "; SchemaVersion1; SchemaVersion1:1"},
		"Schema1ByType": {func(s store) string {
			return s.put("application/vnd.docker.distribution.manifest.v1+prettyjws", of("name", `"x"`))
		}, "", "; SchemaVersion1; SchemaVersion1:1"},
		"Ambiguous": {func(s store) string { return s.put(ociIndex, of("manifests", "[]", "layers", "[]")) }, "", "; AmbiguousManifest; AmbiguousManifest:1"},
		"NullIsNothing": {func(s store) string {
			return s.put(ociManifest, of("manifests", "null", "layers", "[]", "config", blob(ociConfig, 1)))
		}, "", "; ConfigMissing; ConfigMissing:1"},
		"Mismatch": {func(s store) string {
			return s.put(ociIndex, of("mediaType", quoted(dockerImage), "config", "{}", "layers", "[]"))
		}, "", "; MediaTypeMismatch; MediaTypeMismatch:1"},
		"UnknownMediaType": {func(s store) string { return s.put(ociIndex, of("mediaType", `"application/x"`, "manifests", "[]")) }, "", "; UnknownMediaType; UnknownMediaType:1"},
		"Neither":          {func(s store) string { return s.put("text/plain", `{"a":1}`) }, "", "; InvalidManifest; InvalidManifest:1"},
		"OtherMembers": {func(s store) string {
			return s.put("", of("mediaType", quoted(ociIndex), "layers", "[]", "config", "{}"))
		}, "", "; InvalidManifest; InvalidManifest:1"},
		"NoObject":   {func(s store) string { return s.put(ociIndex, `[]`) }, "", "; InvalidManifest; InvalidManifest:1"},
		"TwoObjects": {func(s store) string { return s.put(ociIndex, `{"manifests":[]}{}`) }, "", "; InvalidManifest; InvalidManifest:1"},
		"CaseCounts": {func(s store) string { return s.put("", `{"Manifests":[]}`) }, "", "; InvalidManifest; InvalidManifest:1"},
		"TooDeepJSON": {func(s store) string {
			return s.put("", `{"manifests":[],"a":`+strings.Repeat("[", 64)+strings.Repeat("]", 64)+`}`)
		}, "", "; InvalidManifest; InvalidManifest:1"},
		"ManifestsNoList":  {func(s store) string { return s.put("", `{"manifests":{}}`) }, "", "; InvalidManifest; InvalidManifest:1"},
		"Empty":            {func(s store) string { return s.index() }, "", ""},
		"ReferrerDocument": {func(s store) string { return s.put("", of("layers", "[]", "subject", "{}", "artifactType", `"x"`)) }, "", "; Referrer"},
		"ArtifactDocument": {func(s store) string { return s.put("", of("layers", "[]", "artifactType", `"x"`)) }, "", "; Artifact"},
		"WrongDigest":      {func(s store) string { s[digestOf("x")] = manifest.Document{Body: []byte("{}")}; return digestOf("x") }, "", "; DigestMismatch; DigestMismatch:1"},
		"TooLargeDocument": {func(s store) string { return s.put("", `{"a":"`+strings.Repeat("x", manifest.MaxDocument)+`"}`) }, "", "; ManifestTooLarge; ManifestTooLarge:1"},
		"Missing":          {func(store) string { return digestOf("x") }, "", "; ManifestMissing; ManifestMissing:1"},
		"BadEntries": {func(s store) string {
			return s.index("1", "{}", of("digest", quoted(digestOf("x"))), of("digest", quoted(digestOf("x")), "size", "-1"), of("digest", quoted(digestOf("x")), "size", `"1"`),
				of("digest", `"sha256:x"`, "size", "1"), entry(digestOf("x"), "linux", "arm", "artifactType", `"x"`), blob("application/x", 1), blob("application/vnd.docker.distribution.manifest.v1+json", 1),
				entry(digestOf("y"), "linux", "armhf"), of("mediaType", quoted(ociManifest), "digest", quoted(digestOf("z")), "size", strconv.Itoa(manifest.MaxDocument+1)))
		}, "", "; InvalidDescriptor InvalidDescriptor InvalidDescriptor InvalidDescriptor InvalidDescriptor InvalidDescriptor Artifact(linux/arm/v7) UnknownMediaType SchemaVersion1 ManifestMissing(linux/arm/v7) ManifestTooLarge; InvalidDescriptor:6 ManifestMissing:1 ManifestTooLarge:1 SchemaVersion1:1 UnknownMediaType:1"},
		"EachDigestOnce": {func(s store) string {
			digest := s.image(amd64, one)
			return s.index(entry(digest, "linux", "amd64"), entry(digest, "linux", "arm64"), s.nested(s.index(entry(digest, "linux", "amd64"))))
		}, "", "linux/amd64"},
		"Nested": {func(s store) string {
			index := s.index(entry(s.image(amd64, one), "linux", "amd64"))
			for range 3 {
				index = s.index(s.nested(index))
			}
			return index
		}, "", "linux/amd64"},
		"NestedTooDeep": {func(s store) string {
			index := s.index(entry(s.image(amd64, one), "linux", "amd64"))
			for range 4 {
				index = s.index(s.nested(index))
			}
			return index
		}, "", "; NestingTooDeep; NestingTooDeep:1"},
		"NestedTooDeepUntyped": {func(s store) string {
			index := s.index()
			for range 4 {
				index = s.index(of("digest", quoted(index), "size", "1"))
			}
			return index
		}, "", "; NestingTooDeep; NestingTooDeep:1"},
		"ConfigMissing": {func(s store) string { return s.manifest(ociConfig, digestOf("x"), one) }, "", "; ConfigMissing; ConfigMissing:1"},
		"ConfigInvalid": {func(s store) string { return s.manifest(ociConfig, s.put("", "[]"), one) }, "", "; InvalidConfig; InvalidConfig:1"},
		"ConfigOther": {func(s store) string {
			s[digestOf("x")] = manifest.Document{Body: []byte("{}")}
			return s.manifest(ociConfig, digestOf("x"), one)
		}, "", "; DigestMismatch; DigestMismatch:1"},
		"ConfigTooLarge": {func(s store) string {
			return s.manifest(ociConfig, s.put("", `{"a":"`+strings.Repeat("x", manifest.MaxDocument)+`"}`), one)
		}, "", "; ConfigTooLarge; ConfigTooLarge:1"},
		"ConfigMissingKnown": {func(s store) string {
			return s.index(entry(s.manifest(ociConfig, digestOf("x"), one), "linux", "arm64"))
		}, "linux/arm64", "linux/arm64; ; ConfigMissing:1"},
		"ConfigNotSelected":  {func(s store) string { return s.image(config("linux", "x86_64"), one) }, "linux/arm64", "; PlatformNotSelected(linux/amd64)"},
		"ConfigContradicts":  {func(s store) string { return s.index(entry(s.image(config("linux", "arm64"), one), "linux", "amd64")) }, "linux/amd64", "linux/amd64; ; ConfigPlatformMismatch:1"},
		"ConfigAgrees":       {func(s store) string { return s.index(entry(s.image(config("Linux", "x86_64"), one), "linux", "amd64")) }, "linux/amd64", "linux/amd64"},
		"NoPlatform":         {func(s store) string { return s.image("{}", one) }, "", "unknown/unknown; ; NoPlatform:1"},
		"NoPlatformFiltered": {func(s store) string { return s.image("{}", one) }, "linux/amd64", "; NoPlatform; NoPlatform:1"},
		"LayersMissing":      {func(s store) string { return s.put(ociManifest, of("config", blob(ociConfig, 1))) }, "", "; InvalidManifest; InvalidManifest:1"},
		"LayerWithoutSize": {func(s store) string {
			return s.put(ociManifest, of("config", blob(ociConfig, 1), "layers", `[{"digest":`+quoted(digestOf("x"))+`}]`))
		}, "", "; InvalidManifest; InvalidManifest:1"},
		// What is known of the platform of a broken index is told.
		"NestedIndexIsNoList": {func(s store) string {
			return s.index(entry(s.put(ociIndex, of("mediaType", quoted(ociIndex), "manifests", "{}")), "linux", "arm64"))
		}, "linux/arm64", "; InvalidManifest(linux/arm64); InvalidManifest:1"},
		"EntriesAreNoObjects": {func(s store) string {
			return s.put(ociIndex, of("mediaType", quoted(ociIndex), "manifests", "[null,3,\"a\",{}]"))
		}, "", "; InvalidDescriptor InvalidDescriptor InvalidDescriptor InvalidDescriptor; InvalidDescriptor:4"},
		"NullMembers": {func(s store) string {
			return s.put(ociManifest, of("mediaType", "null", "subject", "null", "manifests", "null", "config", of("mediaType", quoted(ociConfig),
				"digest", quoted(s.put("", amd64)), "size", "1"), "layers", "["+one+"]"))
		}, "", "linux/amd64"},
		"SizeIsNoWholeNumber": {func(s store) string {
			return s.index(of("mediaType", quoted(ociManifest), "digest", quoted(digestOf("x")), "size", "1.5"))
		}, "", "; InvalidDescriptor; InvalidDescriptor:1"},
		"TooMany": {func(s store) string {
			entries := []string{entry(s.image(amd64, one), "linux", "amd64")}
			for range 257 {
				entries = append(entries, entry(digestOf("x"), "linux", "arm64"))
			}
			return s.index(entries...)
		}, "linux/amd64", "linux/amd64; " + strings.Repeat("PlatformNotSelected(linux/arm64) ", 255) + "TooManyManifests(linux/arm64) TooManyManifests(linux/arm64); TooManyManifests:2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := store{}
			top := test.make(s)
			var platforms platform.Filter
			if test.platforms != "" {
				var err error
				if platforms, err = platform.NewFilter(strings.Fields(test.platforms)); err != nil {
					t.Fatal(err)
				}
			}
			a, err := manifest.Images(top, manifest.Limits{Platforms: platforms, MaxImageBytes: 1000}, s.get)
			if err != nil {
				t.Fatal(err)
			}
			if got := told(a); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// nested is an entry for an index.
func (s store) nested(digest string) string {
	return of("mediaType", quoted(ociIndex), "digest", quoted(digest), "size", strconv.Itoa(len(s[digest].Body)))
}

func TestImageDetails(t *testing.T) {
	for written, want := range map[string]string{"2025-01-02T03:04:05.678+02:00": "2025-01-02T03:04:05.678+02:00", "1985-01-01T00:00:00Z": "", "yesterday": "", "0001-01-01T00:00:00Z": ""} {
		s := store{}
		configText := config("windows", "amd64", "os.version", `"10.0.1"`, "created", quoted(written))
		top := s.image(configText, blob(layer, 3), blob(layer+"+gzip", 4))
		a, err := manifest.Images(top, manifest.Limits{MaxImageBytes: 1000}, s.get)
		if err != nil || len(a.Images) != 1 {
			t.Fatal(a, err)
		}
		got, err := json.Marshal(a.Images[0])
		if err != nil {
			t.Fatal(err)
		}
		expected := of("digest", quoted(top), "platform", `"windows/amd64:10.0.1"`, "config", quoted(digestOf(configText)), "layers", "2", "compressedBytes", "7")
		expected = strings.TrimSuffix(expected, "}")
		if want != "" {
			expected += `,"created":` + quoted(want)
		}
		if string(got) != expected+`,"flags":[]}` {
			t.Errorf("%s: %s", written, got)
		}
	}
}

func TestSHA512(t *testing.T) {
	body := `{"manifests":[]}`
	sum := sha512.Sum512([]byte(body))
	digest := "sha512:" + hex.EncodeToString(sum[:])
	a, err := manifest.Images(digest, manifest.Limits{}, store{digest: {Body: []byte(body)}}.get)
	if err != nil || told(a) != "" {
		t.Error(told(a), err)
	}
}

func TestErrorsOfTheRegistryEndTheWalk(t *testing.T) {
	away := errors.New("away")
	s := store{}
	top := s.index(entry(digestOf("x"), "linux", "amd64"))
	_, err := manifest.Images(top, manifest.Limits{}, func(_ manifest.Part, digest string) (manifest.Document, bool, error) {
		if digest == top {
			return s.get(manifest.Manifests, digest)
		}
		return manifest.Document{}, false, away
	})
	if !errors.Is(err, away) {
		t.Error(err)
	}
}

func TestImageDetailsAreBounded(t *testing.T) {
	s := store{}
	top := s.put(ociIndex, `{"manifests":[`+strings.Repeat("{},", 20_000)+"1]}")
	a, err := manifest.Images(top, manifest.Limits{}, s.get)
	if err != nil || len(a.Skipped) != 10_000 || a.Warnings[0] != (manifest.Warning{Code: "InvalidDescriptor", Count: 20_001}) {
		t.Error(len(a.Skipped), a.Warnings, err)
	}
}

func FuzzImages(f *testing.F) {
	f.Add(`{"manifests":[{"digest":"sha256:x","size":1}]}`)
	f.Add(`{"config":{},"layers":[]}`)
	f.Fuzz(func(t *testing.T, body string) {
		s := store{}
		top := s.put("", body)
		a, err := manifest.Images(top, manifest.Limits{MaxImageBytes: 1000}, s.get)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(a); err != nil {
			t.Fatal(err)
		}
	})
}
