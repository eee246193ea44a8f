// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
)

// group is an image with all its tags.
type group struct {
	tags    []candidate
	date    time.Time
	version *semver.Version
	name    string
}

// takeNewest gives the tags of the newest images, and says of the others that they are not.
func (s *selection) takeNewest() []candidate {
	if s.tags == nil || s.tags.newest == 0 {
		return s.rest
	}
	groups := byImage(s.rest)
	order := map[registryv1alpha1.NewestBy]func(a, b *group) int{
		registryv1alpha1.NewestByCreated: func(a, b *group) int { return cmp.Or(a.date.Compare(b.date), byVersion(a, b), byName(a, b)) },
		registryv1alpha1.NewestBySemVer:  func(a, b *group) int { return cmp.Or(byVersion(a, b), a.date.Compare(b.date), byName(a, b)) },
		registryv1alpha1.NewestByName:    byName,
	}[s.tags.newestBy]
	slices.SortFunc(groups, func(a, b *group) int { return order(b, a) })
	var taken []candidate
	for i, g := range groups {
		if i < s.tags.newest {
			taken = append(taken, g.tags...)
			continue
		}
		for _, t := range g.tags {
			s.answer.Skipped[t.Name] = NotNewest
		}
	}
	return taken
}

// byName orders by the greatest tag. No two groups have the same one.
func byName(a, b *group) int { return strings.Compare(a.name, b.name) }

// byVersion orders by the highest version. A group without one comes before those with one.
func byVersion(a, b *group) int {
	switch {
	case a.version == nil && b.version == nil:
		return 0
	case a.version == nil:
		return -1
	case b.version == nil:
		return 1
	}
	return a.version.Compare(b.version)
}

// byImage puts tags of one digest together. A tag whose digest is not known is by itself.
func byImage(candidates []candidate) []*group {
	var groups []*group
	byDigest := map[string]*group{}
	for _, t := range candidates {
		g := byDigest[t.Digest]
		if t.Digest == "" || g == nil {
			g = &group{}
			groups = append(groups, g)
			byDigest[t.Digest] = g
		}
		g.add(t)
	}
	return groups
}

func (g *group) add(t candidate) {
	g.tags = append(g.tags, t)
	if t.date.After(g.date) {
		g.date = t.date
	}
	if t.version != nil && (g.version == nil || t.version.GreaterThan(g.version)) {
		g.version = t.version
	}
	g.name = max(g.name, t.Name)
}
