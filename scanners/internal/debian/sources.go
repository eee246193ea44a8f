// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Archives by name, as recipes' locks call them, which are folders on mirrors.
const (
	ArchiveMain     = "debian"
	ArchiveSecurity = "debian-security"
)

// MachineMirrors returns the mirrors that a machine's apt uses, by archive; apt is its folder
// /etc/apt. What is not an archive of Debian, and what is not fetched by HTTP, is left out. Where only
// the main archive is named, the archive of security updates is expected beside it, as on mirrors that
// have both.
func MachineMirrors(apt fs.FS) map[string]string {
	mirrors := map[string]string{}
	for _, pattern := range []string{"sources.list", "sources.list.d/*.list", "sources.list.d/*.sources"} {
		files, err := fs.Glob(apt, pattern)
		if err != nil {
			continue // never: the patterns are constants
		}
		for _, file := range files {
			text, err := fs.ReadFile(apt, file)
			if err != nil {
				continue // what apt's user may not read is not for this one
			}
			for _, uri := range urisOf(file, string(text)) {
				name := archiveOf(uri)
				if _, known := mirrors[name]; name != "" && !known {
					mirrors[name] = strings.TrimSuffix(uri, "/")
				}
			}
		}
	}
	if main, security := mirrors[ArchiveMain], mirrors[ArchiveSecurity]; main != "" && security == "" {
		mirrors[ArchiveSecurity] = main + strings.TrimPrefix(ArchiveSecurity, ArchiveMain)
	}
	return mirrors
}

// archiveOf says which archive an address is of, by the folder that it ends in; "" for others.
func archiveOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) {
		return ""
	}
	if name := path.Base(u.Path); name == ArchiveMain || name == ArchiveSecurity {
		return name
	}
	return ""
}

// urisOf returns the addresses of a file in either of apt's forms (sources.list(5)).
func urisOf(file, text string) []string {
	if path.Ext(file) == ".sources" {
		return stanzaURIs(text)
	}
	var uris []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind != "deb" {
			continue
		}
		if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "[") {
			_, rest, _ = strings.Cut(rest, "]")
		}
		if fields := strings.Fields(rest); len(fields) > 0 {
			uris = append(uris, fields[0])
		}
	}
	return uris
}

// stanzaURIs reads the form of deb822: stanzas of fields, which may go on in indented lines.
func stanzaURIs(text string) []string {
	var uris []string
	fields, last := map[string]string{}, ""
	end := func() {
		if slices.Contains(strings.Fields(fields["types"]), "deb") && !strings.EqualFold(fields["enabled"], "no") {
			uris = append(uris, strings.Fields(fields["uris"])...)
		}
		fields, last = map[string]string{}, ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			end()
		case strings.HasPrefix(line, " "), strings.HasPrefix(line, "\t"):
			fields[last] += " " + strings.TrimSpace(line)
		default:
			name, value, _ := strings.Cut(line, ":")
			last = strings.ToLower(strings.TrimSpace(name))
			fields[last] = strings.TrimSpace(value)
		}
	}
	end()
	return uris
}
