// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"slices"
	"strings"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/platform"
)

var (
	// wordsOfImages are the variables of an expression that a name does not tell.
	wordsOfImages = []string{"digest", "created", "hasCreated", "platforms"}
	// wordsOfConfigs are those for which manifests and configs have to be read.
	wordsOfConfigs = []string{"created", "hasCreated", "platforms"}
)

// Pin is an image that repositories names by digest, perhaps under a tag.
type Pin struct{ Tag, Digest string }

// Demand is what has to be asked of a registry before Select can judge a repository.
type Demand struct {
	// Selected and Rule are as in Answer, Name is the name under which the repository is stored.
	Selected   bool
	Rule, Name string
	// List: the tags have to be listed. Else Tags are all that are asked for. Pins are asked for beside both.
	List bool
	Tags []string
	Pins []Pin
	// Images: platforms and dates of the images of a tag have to be known before Select. Else they are of use afterwards only.
	Images bool
	// Platforms are those that are taken.
	Platforms platform.Filter
}

// Names gives the repositories of a registry that are named without a pattern, as they are stored. catalog: the others have to be looked
// for in the catalogue. Demand tells of each name whether the filter takes it.
func (c *Compiled) Names(registry string) (names []string, catalog bool) {
	for _, e := range c.entries {
		if strings.ContainsAny(e.name, "*?") {
			catalog = true
			continue
		}
		names = append(names, spellings(registry, e.name)[0])
	}
	slices.Sort(names)
	return slices.Compact(names), catalog || c.all
}

// Demand tells what to ask for a repository of a registry.
func (c *Compiled) Demand(registry, name string) Demand {
	s := newSelection(Repository{Registry: registry, Name: name})
	d := Demand{Selected: s.begin(c), Rule: s.answer.Rule, Name: s.name, List: s.whole, Platforms: s.platforms}
	if !d.Selected {
		return d
	}
	for _, e := range s.entries {
		switch {
		case e.digest != "":
			d.Pins = append(d.Pins, Pin{Tag: e.tag, Digest: e.digest})
		case strings.ContainsAny(e.tag, "*?"):
			d.List = true
		case e.tag != "":
			d.Tags = append(d.Tags, e.tag)
		}
	}
	byDate := s.tags.newest > 0 && s.tags.newestBy == registryv1alpha1.NewestByCreated
	// newest counts what is left by the platforms.
	byPlatform := s.tags.newest > 0 && len(s.platforms) > 0
	d.Images = byDate || byPlatform || s.tags.maxAge > 0 || s.tags.expression.asks(wordsOfConfigs...)
	return d
}

// ByName judges tags by what their names alone decide: those that are left out need no request.
func (c *Compiled) ByName(r Repository) Answer { return c.answer(r, true) }
