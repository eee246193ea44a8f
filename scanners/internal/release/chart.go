// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Library is the chart that others are built on. It is packed into them and not released by itself.
const Library = "scanyard-lib"

// Chart is a packed chart.
type Chart struct {
	Name, Version, Description string
	// Metadata is Chart.yaml as JSON, which is the configuration of the chart's OCI artifact.
	Metadata []byte
	// Package is the .tgz.
	Package []byte
}

// Files are the files of a chart's folder, by their paths in it.
type Files map[string][]byte

// PackChart packs a chart for a release: with its version; with its appVersion, if that is the version of the programs here and not
// that of a scanner; and with the images of the release's registry. The same files give the same bytes.
func PackChart(p Plan, files, library Files, date time.Time) (Chart, error) {
	before, err := readMetadata(files)
	if err != nil {
		return Chart{}, err
	}
	ignored, err := readIgnored(files[".helmignore"])
	if err != nil {
		return Chart{}, fmt.Errorf("chart %s: %w", before.Name, err)
	}
	packed := Files{}
	for name, content := range files {
		if !ignored.match(name) {
			packed[name] = p.place(name, content)
		}
	}
	packed["Chart.yaml"] = numbered(files["Chart.yaml"], before, p.Version)
	for _, d := range before.Dependencies {
		if d.Name != Library {
			return Chart{}, fmt.Errorf("chart %s: depends on %s; only the library chart is packed into others", before.Name, d.Name)
		}
		for name, content := range library {
			if name != "README.md.gotmpl" {
				packed["charts/"+Library+"/"+name] = p.place(name, content)
			}
		}
	}
	after, err := readMetadata(packed)
	if err != nil {
		return Chart{}, err
	}
	c := Chart{Name: after.Name, Version: after.Version, Description: after.Description}
	if c.Metadata, err = yaml.YAMLToJSON(packed["Chart.yaml"]); err != nil {
		return Chart{}, fmt.Errorf("chart %s: %w", c.Name, err)
	}
	c.Package, err = Archived(entries(c.Name, packed), date)
	return c, err
}

// entries are the files of a chart as its archive has them: Chart.yaml first, as Helm packs it.
func entries(chart string, files Files) []Entry {
	var all []Entry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		e := Entry{Name: path.Join(chart, name), Content: files[name]}
		if name == "Chart.yaml" {
			all = slices.Insert(all, 0, e)
			continue
		}
		all = append(all, e)
	}
	return all
}

type metadata struct {
	Name         string `json:"name"`
	Version      string `json:"version"`
	AppVersion   string `json:"appVersion"`
	Description  string `json:"description"`
	Dependencies []struct {
		Name string `json:"name"`
	} `json:"dependencies"`
}

func readMetadata(files Files) (metadata, error) {
	var m metadata
	if err := yaml.Unmarshal(files["Chart.yaml"], &m); err != nil {
		return m, fmt.Errorf("read Chart.yaml: %w", err)
	}
	if m.Name == "" || m.Version == "" {
		return m, errors.New("read Chart.yaml: name or version is missing")
	}
	return m, nil
}

var (
	versionLine    = regexp.MustCompile(`(?m)^version: .*$`)
	appVersionLine = regexp.MustCompile(`(?m)^appVersion: .*$`)
)

// numbered writes the release's version into Chart.yaml. Comments and order stay.
func numbered(text []byte, m metadata, v Version) []byte {
	text = versionLine.ReplaceAll(text, []byte(`version: "`+v.Number()+`"`))
	if m.AppVersion == m.Version {
		text = appVersionLine.ReplaceAll(text, []byte(`appVersion: "`+v.Number()+`"`))
	}
	return text
}

// place has a file name the images of the release's registry. Templates tell our images from others' by the end of their names.
func (p Plan) place(name string, content []byte) []byte {
	content = bytes.ReplaceAll(content, []byte(home+"/"), []byte(p.registry()+"/"))
	if strings.HasPrefix(name, "templates/") {
		content = bytes.ReplaceAll(content, []byte(`"own" "`+path.Base(home)+"/"), []byte(`"own" "`+path.Base(p.registry())+"/"))
	}
	return content
}

// ignored are the patterns of a .helmignore: names of folders with a slash at the end, and patterns of files' names.
type ignored []string

func readIgnored(text []byte) (ignored, error) {
	all := ignored{".helmignore"}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "!") || strings.Contains(strings.TrimSuffix(line, "/"), "/") {
			return nil, fmt.Errorf(".helmignore: pattern %q is not understood; names of files and folders are", line)
		}
		if _, err := path.Match(strings.TrimSuffix(line, "/"), ""); err != nil {
			return nil, fmt.Errorf(".helmignore: pattern %q: %w", line, err)
		}
		all = append(all, line)
	}
	return all, nil
}

func (all ignored) match(file string) bool {
	parts := strings.Split(file, "/")
	for _, pattern := range all {
		folder, isFolder := strings.CutSuffix(pattern, "/")
		for i, part := range parts {
			if ok, _ := path.Match(folder, part); ok && (!isFolder || i < len(parts)-1) { // the pattern was tried when it was read
				return true
			}
		}
	}
	return false
}

// Entry is a file of an archive.
type Entry struct {
	Name    string
	Content []byte
	// Program says that the file can be run.
	Program bool
	// Link, if not empty, is where the entry points, which is then a symbolic link.
	Link string
}

// Archived packs entries as a .tar.gz, in their order, with nothing of the machine.
func Archived(all []Entry, date time.Time) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, e := range all {
		h := &tar.Header{
			Name: e.Name, Mode: 0o644, Size: int64(len(e.Content)), ModTime: date.UTC().Truncate(time.Second), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR,
		}
		if e.Program {
			h.Mode = 0o755
		}
		if e.Link != "" {
			h.Typeflag, h.Linkname, h.Size, h.Mode = tar.TypeSymlink, e.Link, 0, 0o777
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.Name, err)
		}
		if e.Link != "" {
			continue
		}
		if _, err := w.Write(e.Content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.Name, err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return out.Bytes(), nil
}
