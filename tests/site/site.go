// SPDX-License-Identifier: Apache-2.0

package site

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// Broken returns what is wrong with the links of pages: those to files and anchors that are not there, and what a page would load from another
// server. Pages are named by their paths in the site, and files are all others there.
func Broken(pages map[string]*Page, files map[string]bool) []string {
	var all []string
	for _, from := range slices.Sorted(maps.Keys(pages)) {
		for _, link := range pages[from].Links {
			if problem := broken(pages, files, from, link); problem != "" {
				all = append(all, fmt.Sprintf("%s: link %q %s", from, link, problem))
			}
		}
	}
	return all
}

func broken(pages map[string]*Page, files map[string]bool, from, link string) string {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return err.Error()
	case u.IsAbs() || u.Host != "":
		return ""
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	target, ok := pages[to]
	switch {
	case !ok && files[to]:
		return ""
	case !ok:
		return "leads nowhere"
	case u.Fragment != "" && !target.IDs[u.Fragment]:
		return "names an anchor that is not there"
	}
	return ""
}

// Index is the script that the pages search in: a list of path, title, heading and text of each section.
func Index(pages map[string]*Page) ([]byte, error) {
	var all [][4]string
	for _, at := range slices.Sorted(maps.Keys(pages)) {
		p := pages[at]
		for _, s := range p.Sections {
			to, heading := at, s.Heading
			if s.ID != "" && heading != p.Title {
				to += "#" + s.ID
			}
			if heading == "" {
				heading = p.Title
			}
			all = append(all, [4]string{to, p.Title, heading, s.Text})
		}
	}
	return script("scanyardIndex", all)
}

// Versions is the script that pages know the versions by, newest first, after the one of the working tree.
func Versions(names []string) ([]byte, error) { return script("scanyardVersions", names) }

// script is a value as a script: unlike JSON, a page that was opened from a disk may load it.
func script(name string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return []byte("window." + name + "=" + string(text) + ";\n"), nil
}

// Released are the tags of releases that the site shows, newest first: the newest of each minor version, without those before a release.
func Released(tags []string) []string {
	tags = slices.DeleteFunc(slices.Clone(tags), func(t string) bool {
		return !semver.IsValid(t) || semver.Prerelease(t) != "" || strings.Count(t, ".") != 2
	})
	semver.Sort(tags)
	slices.Reverse(tags)
	return slices.CompactFunc(tags, func(a, b string) bool { return semver.MajorMinor(a) == semver.MajorMinor(b) })
}

// Front is the page at the top of the site, which leads to a version.
func Front(version string) []byte {
	return []byte(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Scanyard</title>
<meta http-equiv="refresh" content="0; url=` + version + `/index.html">
<a href="` + version + `/index.html">The documentation of Scanyard</a></html>
`)
}
