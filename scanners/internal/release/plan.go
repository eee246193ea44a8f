// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Wishes are what the maintainer asks for.
type Wishes struct {
	Version Version
	// Registry is registry and prefix of the names of images and charts, such as registry.example.com/scanyard. Empty pushes nothing.
	Registry string
	// Platforms are those that is built for; Images and Charts pick some. Empty means all, "none" none.
	Platforms, Images, Charts []string
}

// Facts are what was found in the repository.
type Facts struct {
	// Head is the commit that is checked out, Tagged the commit that the version's tag names, if there is one.
	Head, Tagged string
	// Changed are files that differ from the commit.
	Changed []string
	// Changelog is the text of CHANGELOG.md, Today the date of its new section.
	Changelog, Today string
	Images           []ImageFact
	Charts           []string
}

// ImageFact is a recipe of an image. Remedy says what to do if it has no lock.
type ImageFact struct {
	Name, Remedy string
	Locked       bool
}

// Plan is what a release is made of.
type Plan struct {
	Version  Version
	Commit   string
	Registry string
	// Changelog is the new text of CHANGELOG.md, which is to be committed first. Empty if the version has its section.
	Changelog string
	// Tag says that the commit is to be tagged.
	Tag bool
	// Notes are what the changelog tells of the version.
	Notes    string
	Archives []Archive
	Images   []string
	// ImagePlatforms are those that images are built for; none means all that a recipe has.
	ImagePlatforms []string
	Charts         []string
	// LeftOut says of images that are not built why.
	LeftOut []string
}

// Archive is the command line for a platform.
type Archive struct {
	Platform string
	// File and SBOM are names below the release's folder.
	File, SBOM string
}

// Platforms are those that the command line is built for.
func Platforms() []string {
	return []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}
}

// home is the registry that the charts name images of unless they are told otherwise.
const home = "docker.io/scanyard"

// Make decides about a release, or says all that is in the way.
func Make(w Wishes, f Facts) (Plan, error) {
	p := Plan{Version: w.Version, Commit: f.Head, Registry: w.Registry}
	var problems []error
	if len(f.Changed) > 0 {
		problems = append(problems, fmt.Errorf("the working tree differs from the commit: %s; a release is made from a commit", some(f.Changed)))
	}
	switch {
	case f.Tagged == "":
		p.Tag = true
	case f.Tagged != f.Head:
		problems = append(problems, fmt.Errorf(
			"%s is the tag of commit %s, and %s is checked out: check the tag out, or give another VERSION", w.Version, short(f.Tagged), short(f.Head),
		))
	}
	problems = append(problems, p.tell(f))
	problems = append(problems, registryProblem(w.Registry))
	platforms, err := picked("platform", w.Platforms, Platforms())
	problems = append(problems, err)
	for _, platform := range platforms {
		base := fmt.Sprintf("scanyard_%s_%s", w.Version.Number(), strings.ReplaceAll(platform, "/", "_"))
		p.Archives = append(p.Archives, Archive{Platform: platform, File: base + ".tar.gz", SBOM: base + ".cdx.json"})
	}
	if len(w.Platforms) > 0 {
		p.ImagePlatforms = slices.DeleteFunc(slices.Clone(platforms), func(platform string) bool { return !strings.HasPrefix(platform, "linux/") })
	}
	problems = append(problems, p.pickImages(w.Images, f.Images))
	p.Charts, err = picked("chart", w.Charts, f.Charts)
	return p, errors.Join(append(problems, err)...)
}

// tell finds what the changelog tells of the version.
func (p *Plan) tell(f Facts) error {
	text, ok := notes(f.Changelog, p.Version)
	if ok {
		p.Notes = text
		return nil
	}
	if f.Tagged != "" {
		return fmt.Errorf("CHANGELOG.md of tag %s has no section %s", p.Version, p.Version.Number())
	}
	changed, err := settle(f.Changelog, p.Version, f.Today)
	if err != nil {
		return err
	}
	p.Changelog = changed
	p.Notes, _ = notes(changed, p.Version)
	return nil
}

func (p *Plan) pickImages(wanted []string, all []ImageFact) error {
	var names []string
	for _, i := range all {
		switch {
		case i.Locked || slices.Contains(wanted, i.Name):
			names = append(names, i.Name)
		case len(wanted) == 0:
			p.LeftOut = append(p.LeftOut, fmt.Sprintf("%s: it was never locked: %s", i.Name, i.Remedy))
		}
	}
	var err error
	p.Images, err = picked("image", wanted, names)
	for _, i := range all {
		if !i.Locked && slices.Contains(p.Images, i.Name) {
			err = errors.Join(err, fmt.Errorf("image %s was never locked: %s", i.Name, i.Remedy))
		}
	}
	return err
}

// picked returns those that are wanted, in the order of all. Nothing wanted is all, and "none" is none.
func picked(what string, wanted, all []string) ([]string, error) {
	switch {
	case len(wanted) == 0:
		return all, nil
	case slices.Equal(wanted, []string{"none"}):
		return nil, nil
	}
	for _, w := range wanted {
		if !slices.Contains(all, w) {
			return nil, fmt.Errorf("%s %q is not known; known are %s", what, w, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !slices.Contains(wanted, s) }), nil
}

func registryProblem(registry string) error {
	if strings.Contains(registry, "://") || strings.HasSuffix(registry, "/") {
		return fmt.Errorf("REGISTRY %q must be a registry and a prefix, without scheme and without a slash at its end: registry.example.com/scanyard", registry)
	}
	return nil
}

// ImageName is the full name of an image.
func (p Plan) ImageName(image string) string {
	return p.registry() + "/" + image + ":" + p.Version.Number()
}

// ChartName is the full name of a chart as an OCI artifact. Charts have a folder of their own: a chart and an image may have one name.
func (p Plan) ChartName(chart string) string {
	return p.registry() + "/charts/" + chart + ":" + p.Version.Number()
}

// ChartFile is the file of a packed chart below the release's folder.
func (p Plan) ChartFile(chart string) string {
	return path.Join("charts", chart+"-"+p.Version.Number()+".tgz")
}

func (p Plan) registry() string {
	if p.Registry == "" {
		return home
	}
	return p.Registry
}

// Steps is what is done, a line each.
func (p Plan) Steps(signed bool) []string {
	var all []string
	if p.Changelog != "" {
		all = append(all, fmt.Sprintf("make \"Unreleased\" of CHANGELOG.md the section %s, and commit that", p.Version.Number()))
	}
	for _, a := range p.Archives {
		all = append(all, fmt.Sprintf("build %s and its SBOM", a.File))
	}
	for _, i := range p.Images {
		all = append(all, "build image "+p.ImageName(i))
	}
	for _, c := range p.Charts {
		all = append(all, "pack chart "+p.ChartFile(c))
	}
	last := "write release notes, digests and SHA256SUMS"
	if signed {
		last += ", and sign them"
	}
	all = append(all, last)
	if p.Tag {
		all = append(all, fmt.Sprintf("tag the commit as %s", p.Version))
	}
	if p.Registry == "" {
		return append(all, "push nothing, since REGISTRY is not given")
	}
	what := "push"
	if signed {
		what = "push and sign"
	}
	return append(all, fmt.Sprintf("%s %d images and %d charts to %s", what, len(p.Images), len(p.Charts), p.Registry))
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

// some names the first of many.
func some(all []string) string {
	const most = 5
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}
