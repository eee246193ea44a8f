// SPDX-License-Identifier: Apache-2.0

// Package platform reads platforms of images, os/arch[/variant][:os.version], and makes equal ones look alike.
package platform

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Unknown is what builders write for what has no operating system or architecture.
const Unknown = "unknown"

// Platform is what an image runs on. Only Canonical makes it comparable.
type Platform struct{ OS, Architecture, Variant, OSVersion string }

// architectures are the names of others for an architecture of OCI, with the variant that a name stands for.
var architectures = map[string]struct{ architecture, variant string }{
	"x86_64": {"amd64", ""}, "x86-64": {"amd64", ""}, "aarch64": {"arm64", ""}, "armhf": {"arm", "v7"}, "armel": {"arm", "v6"},
	"i386": {"386", ""}, "i486": {"386", ""}, "i586": {"386", ""}, "i686": {"386", ""},
}

// defaultVariants are those that are not written: what has none has this one.
var defaultVariants = map[string]string{"arm64": "v8", "amd64": "v1"}

// Parse reads os/arch[/variant][:os.version]. Parts that are missing are empty.
func Parse(text string) Platform {
	text, version, _ := strings.Cut(text, ":")
	parts := append(strings.SplitN(text, "/", 3), "", "")
	return Platform{OS: parts[0], Architecture: parts[1], Variant: parts[2], OSVersion: version}
}

// Known tells whether operating system and architecture are there and are not placeholders.
func (p Platform) Known() bool { return known(p.OS) && known(p.Architecture) }

func known(part string) bool { return part != "" && !strings.EqualFold(part, Unknown) }

// Contradicts tells whether two platforms name different operating systems or architectures. What is not known contradicts nothing.
func (p Platform) Contradicts(other Platform) bool {
	p, other = p.Canonical(), other.Canonical()
	differ := func(a, b string) bool { return known(a) && known(b) && a != b }
	return differ(p.OS, other.OS) || differ(p.Architecture, other.Architecture)
}

// Canonical is the platform in the one spelling that equal platforms share.
func (p Platform) Canonical() Platform {
	p.OS, p.Architecture, p.OSVersion = strings.ToLower(p.OS), strings.ToLower(p.Architecture), strings.ToLower(p.OSVersion)
	if p.OS == "macos" {
		p.OS = "darwin"
	}
	if other, found := architectures[p.Architecture]; found {
		p.Architecture = other.architecture
		if other.variant != "" {
			p.Variant = other.variant
		}
	}
	p.Variant = canonicalVariant(p.Architecture, p.Variant)
	if p.Architecture == "arm" && p.Variant == "" {
		p.Variant = "v7"
	}
	return p
}

// canonicalVariant is a variant of a canonical architecture as it is written; "" is the default one.
func canonicalVariant(architecture, variant string) string {
	variant = strings.ToLower(variant)
	if variant != "" && strings.Trim(variant, "0123456789") == "" {
		variant = "v" + variant
	}
	if variant == defaultVariants[architecture] {
		return ""
	}
	return variant
}

// String writes the platform as Parse reads it.
func (p Platform) String() string {
	text := p.OS
	if p.Architecture != "" {
		text += "/" + p.Architecture
	}
	if p.Variant != "" {
		text += "/" + p.Variant
	}
	if p.OSVersion != "" {
		text += ":" + p.OSVersion
	}
	return text
}

// Filter selects platforms. An empty one selects all.
type Filter []pattern

type pattern struct {
	os, architecture, variant string
	anyVariant                bool
}

// patternPattern is os/arch or os/arch/variant; * stands for a whole os or arch.
var patternPattern = regexp.MustCompile(`\A(?:\*|[A-Za-z0-9._-]+)/(?:\*|[A-Za-z0-9._-]+)(?:/[A-Za-z0-9._-]+)?\z`)

// NewFilter reads patterns os/arch[/variant], where os and arch may be *. The error names the first one that is none.
func NewFilter(texts []string) (Filter, error) {
	filter := make(Filter, 0, len(texts))
	for i, text := range texts {
		if name, _, _ := strings.Cut(text, ":"); !patternPattern.MatchString(name) {
			return nil, fmt.Errorf("platforms[%d]: %q is not a platform: write os/arch or os/arch/variant, such as linux/amd64", i, text)
		}
		p := Parse(text)
		canonical := Platform{OS: p.OS, Architecture: p.Architecture, Variant: p.Variant}.Canonical()
		carried := architectures[strings.ToLower(p.Architecture)].variant
		filter = append(filter, pattern{
			os: canonical.OS, architecture: canonical.Architecture, variant: orElse(carried, p.Variant), anyVariant: p.Variant == "" && carried == "",
		})
	}
	return filter, nil
}

func orElse(first, second string) string {
	if first != "" {
		return first
	}
	return second
}

// Selects tells whether the filter takes a platform. The version of the operating system is never compared.
func (f Filter) Selects(p Platform) bool {
	p = p.Canonical()
	return len(f) == 0 || slices.ContainsFunc(f, func(wanted pattern) bool { return wanted.fits(p) })
}

func (w pattern) fits(p Platform) bool {
	return (w.os == "*" || w.os == p.OS) && (w.architecture == "*" || w.architecture == p.Architecture) &&
		(w.anyVariant || canonicalVariant(p.Architecture, w.variant) == p.Variant)
}
