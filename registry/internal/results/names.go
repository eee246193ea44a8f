// SPDX-License-Identifier: Apache-2.0

package results

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	slugLength  = 40
	hashDigits  = 20
	shortDigest = 12
	labelLength = 63
	// labelDigest are the hex digits of a digest in a label.
	labelDigest = 56
	// catalog is the slug of the Repository that stands for the catalogue.
	catalog = "catalog"

	labelPrefix = "registry.scanyard.io/"
)

// The labels of Images, Repositories, SBOMs and VulnerabilityReports.
const (
	LabelImage             = labelPrefix + "image"
	LabelDigest            = labelPrefix + "digest"
	LabelRegistry          = labelPrefix + "registry"
	LabelRegistryNamespace = labelPrefix + "registry-namespace"
	LabelRepository        = labelPrefix + "repository"
)

// ImageID is what an Image is.
type ImageID struct{ Repository, Tag, Digest, Platform string }

// ImageName is the name of an Image, of its SBOM and of its VulnerabilityReport.
func ImageName(registryUID string, id ImageID) string {
	tag := id.Tag
	if tag == "" {
		_, tag, _ = strings.Cut(id.Digest, ":")
		tag = tag[:min(len(tag), shortDigest)]
	}
	return name(lastPart(id.Repository)+"-"+tag+"-"+architecture(id.Platform), registryUID, id.Repository, id.Tag, id.Digest, id.Platform)
}

// RepositoryName is the name of a Repository; that of the catalogue has no repository.
func RepositoryName(registryUID, repository string) string {
	readable := repository
	if readable == "" {
		readable = catalog
	}
	return name(readable, registryUID, repository)
}

// name makes a name of a readable part and of what it is a function of.
func name(readable string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	hash := hex.EncodeToString(sum[:])[:hashDigits]
	if s := slug(readable); s != "" {
		return s + "-" + hash
	}
	return hash
}

// slug is what of a text can stand in a name.
func slug(text string) string {
	s := []byte(strings.ToLower(text))
	for i, c := range s {
		if !isAlphanumeric(c) && c != '.' {
			s[i] = '-'
		}
	}
	s = s[:min(len(s), slugLength)]
	// A dot must stand between letters or digits.
	for i, c := range s {
		if c == '.' && (i == 0 || i == len(s)-1 || !isAlphanumeric(s[i-1]) || !isAlphanumeric(s[i+1])) {
			s[i] = '-'
		}
	}
	return strings.Trim(string(s), "-")
}

func isAlphanumeric(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

func lastPart(repository string) string { return repository[strings.LastIndexByte(repository, '/')+1:] }

func architecture(platform string) string {
	parts := strings.Split(platform, "/")
	if len(parts) < 2 {
		return platform
	}
	architecture, _, _ := strings.Cut(parts[1], ":")
	return architecture
}

// Labels are those of an Image; of a Repository those that are not empty.
func Labels(registry, namespace, repository, tag, digest string) map[string]string {
	labels := map[string]string{}
	set := func(key, value string) {
		if v := labelValue(value); v != "" {
			labels[key] = v
		}
	}
	set(LabelRegistry, registry)
	set(LabelRegistryNamespace, namespace)
	set(LabelRepository, repository)
	if digest != "" {
		set(LabelImage, lastPart(repository)+"_"+tag)
		algorithm, hash, _ := strings.Cut(digest, ":")
		set(LabelDigest, algorithm+"-"+hash[:min(len(hash), labelDigest)])
	}
	return labels
}

// labelValue is what of a text can stand in a label.
func labelValue(text string) string {
	s := []byte(text)
	for i, c := range s {
		if !isAlphanumeric(c) && (c < 'A' || c > 'Z') && c != '-' && c != '_' && c != '.' {
			s[i] = '_'
		}
	}
	return strings.Trim(string(s[:min(len(s), labelLength)]), "-_.")
}
