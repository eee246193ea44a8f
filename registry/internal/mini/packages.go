// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

// The types of packages, as in a package URL.
const (
	typeDeb = "deb"
	typeApk = "apk"
	typeNpm = "npm"
	typeGo  = "golang"
)

// pkg is a package as its own files tell of it.
type pkg struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Arch    string `json:"arch,omitempty"`
	// Source is the package that this one was built from, SourceVersion its version where that differs.
	Source        string `json:"source,omitempty"`
	SourceVersion string `json:"sourceVersion,omitempty"`
	Licence       string `json:"licence,omitempty"`
}

type parser func(text []byte) (found, error)

// parserOf gives the reader of a file; nil: the file says nothing.
func parserOf(name string) parser {
	switch {
	case name == "var/lib/dpkg/status", path.Dir(name) == "var/lib/dpkg/status.d" && !strings.HasSuffix(name, ".md5sums"):
		return parseDpkg
	case name == "lib/apk/db/installed", name == "usr/lib/apk/db/installed":
		return parseApk
	case name == "etc/os-release", name == "usr/lib/os-release":
		return parseRelease
	case path.Base(name) == "package-lock.json":
		return parseLock
	}
	return nil
}

// paragraphs reads fields of the form "Name: value", in paragraphs that empty lines end. Lines that begin with a space go on.
func paragraphs(text []byte, separator string) []map[string]string {
	var list []map[string]string
	fields := map[string]string{}
	end := func() {
		if len(fields) > 0 {
			list, fields = append(list, fields), map[string]string{}
		}
	}
	for line := range strings.Lines(strings.ToValidUTF8(string(text), "\uFFFD")) {
		line = strings.TrimRight(line, "\r\n")
		switch name, value, isField := strings.Cut(line, separator); {
		case strings.TrimSpace(line) == "":
			end()
		case strings.HasPrefix(line, " "), strings.HasPrefix(line, "\t"), !isField:
		default:
			if _, twice := fields[name]; !twice {
				fields[name] = strings.TrimSpace(value)
			}
		}
	}
	end()
	return list
}

// parseDpkg reads the packages that are installed.
func parseDpkg(text []byte) (found, error) {
	var f found
	for _, p := range paragraphs(text, ":") {
		status := strings.Fields(p["Status"])
		if p["Package"] == "" || p["Version"] == "" || len(status) > 0 && status[len(status)-1] != "installed" {
			continue
		}
		entry := pkg{Type: typeDeb, Name: p["Package"], Version: p["Version"], Arch: p["Architecture"]}
		if name, rest, _ := strings.Cut(p["Source"], " "); name != "" {
			entry.Source, entry.SourceVersion = name, strings.Trim(rest, "()")
		}
		f.Packages = append(f.Packages, entry)
	}
	return f, nil
}

// parseApk reads the packages of an apk database.
func parseApk(text []byte) (found, error) {
	var f found
	for _, p := range paragraphs(text, ":") {
		if p["P"] == "" || p["V"] == "" {
			continue
		}
		f.Packages = append(f.Packages, pkg{Type: typeApk, Name: p["P"], Version: p["V"], Arch: p["A"], Source: p["o"], Licence: p["L"]})
	}
	return f, nil
}

func parseRelease(text []byte) (found, error) {
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, isValue := strings.Cut(strings.TrimSpace(line), "=")
		if isValue {
			values[name] = strings.Trim(value, `"'`)
		}
	}
	if values["ID"] == "" {
		return found{}, errors.New("there is no ID")
	}
	return found{OS: &protocol.OS{Family: strings.ToLower(values["ID"]), Version: values["VERSION_ID"]}}, nil
}

type lockEntry struct {
	Name         string               `json:"name"`
	Version      string               `json:"version"`
	Dev          bool                 `json:"dev"`
	Link         bool                 `json:"link"`
	Dependencies map[string]lockEntry `json:"dependencies"`
}

// parseLock reads package-lock.json of versions 1 to 3. Packages for development only are left out.
func parseLock(text []byte) (found, error) {
	var lock struct {
		Packages     map[string]lockEntry `json:"packages"`
		Dependencies map[string]lockEntry `json:"dependencies"`
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return found{}, errors.New("it is not JSON of this form")
	}
	versions := map[pkg]bool{}
	add := func(name string, e lockEntry) {
		if name != "" && e.Version != "" && !e.Dev && !e.Link {
			versions[pkg{Type: typeNpm, Name: name, Version: e.Version}] = true
		}
	}
	const modules = "node_modules/"
	for place, entry := range lock.Packages {
		if i := strings.LastIndex(place, modules); i >= 0 {
			if entry.Name == "" {
				entry.Name = place[i+len(modules):]
			}
			add(entry.Name, entry)
		}
	}
	if lock.Packages == nil {
		walkLock(lock.Dependencies, add)
	}
	return found{Packages: slices.SortedFunc(maps.Keys(versions), comparePackages)}, nil
}

func walkLock(entries map[string]lockEntry, add func(string, lockEntry)) {
	for name, entry := range entries {
		add(name, entry)
		walkLock(entry.Dependencies, add)
	}
}

// modulesOf gives the modules of a Go program, and its standard library.
func modulesOf(info *debug.BuildInfo) []pkg {
	var list []pkg
	if v := strings.TrimPrefix(info.GoVersion, "go"); v != "" {
		v, _, _ = strings.Cut(v, " ")
		list = append(list, pkg{Type: typeGo, Name: "stdlib", Version: "v" + v})
	}
	add := func(m *debug.Module) {
		for m.Replace != nil {
			m = m.Replace
		}
		if m.Path != "" && m.Version != "" && m.Version != "(devel)" {
			list = append(list, pkg{Type: typeGo, Name: m.Path, Version: m.Version})
		}
	}
	add(&info.Main)
	for _, m := range info.Deps {
		add(m)
	}
	slices.SortFunc(list, comparePackages)
	return slices.Compact(list)
}

func comparePackages(a, b pkg) int {
	for _, pair := range [][2]string{{a.Type, b.Type}, {a.Name, b.Name}, {a.Version, b.Version}, {a.Arch, b.Arch}} {
		if c := strings.Compare(pair[0], pair[1]); c != 0 {
			return c
		}
	}
	return 0
}

// purl makes the package URL of a package in a distribution.
func (p pkg) purl(os protocol.OS) string {
	escape := func(s string) string { return strings.ReplaceAll(url.PathEscape(s), "+", "%2B") }
	qualifiers := url.Values{}
	text := "pkg:" + p.Type + "/"
	switch p.Type {
	case typeDeb, typeApk:
		family := os.Family
		if family == "" {
			family = map[string]string{typeDeb: "debian", typeApk: "alpine"}[p.Type]
		}
		text += escape(family) + "/" + escape(p.Name)
		if p.Arch != "" {
			qualifiers.Set("arch", p.Arch)
		}
		if os.Version != "" {
			qualifiers.Set("distro", family+"-"+os.Version)
		}
	default:
		var parts []string
		for part := range strings.SplitSeq(p.Name, "/") {
			parts = append(parts, strings.ReplaceAll(escape(part), "@", "%40"))
		}
		text += strings.Join(parts, "/")
	}
	text += "@" + escape(p.Version)
	if len(qualifiers) > 0 {
		text += "?" + qualifiers.Encode()
	}
	return text
}
