// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"regexp"
	"strings"
)

const maxName = 255

var (
	// The grammar of names and digests is that of the OCI Distribution Specification and of the OCI Image Specification.
	namePattern   = regexp.MustCompile(`\A[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*\z`)
	tagPattern    = regexp.MustCompile(`\A[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\z`)
	digestPattern = regexp.MustCompile(`\Asha256:[0-9a-f]{64}\z`)
	// referrerPattern is the fallback tag of referrers, and those of signatures, attestations and SBOMs.
	referrerPattern = regexp.MustCompile(`\A(?:sha256|sha512)-[0-9a-f]{64}(?:\.[a-z0-9]+)?\z`)
	tagGlobPattern  = regexp.MustCompile(`\A[A-Za-z0-9_*?][A-Za-z0-9._*?-]{0,127}\z`)
)

// dockerHub are the hosts that mean Docker Hub.
var dockerHub = map[string]bool{"docker.io": true, "index.docker.io": true, "registry-1.docker.io": true}

// official is where Docker Hub has the repositories that people write without a slash.
const official = "library/"

// spellings gives the name under which a repository is stored, first, and another one that people write for it.
func spellings(registry, name string) []string {
	if !dockerHub[strings.ToLower(registry)] || name == "" {
		return []string{name}
	}
	if short, found := strings.CutPrefix(name, official); found {
		return []string{name, short}
	}
	if !strings.Contains(name, "/") {
		return []string{official + name, name}
	}
	return []string{name}
}

func validName(name string) bool { return len(name) <= maxName && namePattern.MatchString(name) }

// entry is one of repositories: a pattern of names, and what of them. Without tags and digest it is the whole repository.
type entry struct {
	names globs
	tags  globs
	// name and tag are what names and tags were made of.
	name, tag, digest string
}

// parseEntry reads name, name:tag, name@sha256:… or name:tag@sha256:….
func parseEntry(text string) (e entry, valid bool) {
	name, digest, pinned := strings.Cut(text, "@")
	tag, tagged := "", false
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name, tag, tagged = name[:i], name[i+1:], true
	}
	if pinned && (!digestPattern.MatchString(digest) || strings.ContainsAny(tag, "*?")) || tagged && !tagGlobPattern.MatchString(tag) {
		return entry{}, false
	}
	// A pattern is sound where a name can fit it.
	if !validName(strings.NewReplacer("*", "a", "?", "a").Replace(name)) {
		return entry{}, false
	}
	e = entry{names: nameGlobs(name), name: name, tag: tag, digest: digest}
	if tagged {
		e.tags = tagGlobs(tag)
	}
	return e, true
}
