// SPDX-License-Identifier: Apache-2.0

package recipe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const head = "title: T\ndescription: D\nlicenses: MIT\ndate: \"2026-11-21\"\n"

// write makes a recipe's folder.
func write(t *testing.T, name, content string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, c := range map[string]string{File: content, "wrapper.sh": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(c), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRecipesThatAreRefused(t *testing.T) {
	tests := map[string]struct{ name, content, err string }{
		"Empty":             {"x", "", "title is missing"},
		"UnknownField":      {"x", head + "bas: y\n", `unknown field "bas"`},
		"Nothing":           {"x", head, "nothing is in it"},
		"BadName":           {"Up_Case", head + "base: a:1\n", "lower case letters"},
		"NoDate":            {"x", "title: T\ndescription: D\nlicenses: MIT\nbase: a:1\n", "must be YYYY-MM-DD"},
		"BadPlatform":       {"x", head + "base: a:1\nplatforms: [linux/386]\n", `platform "linux/386" is not known`},
		"NamedUser":         {"x", head + "base: a:1\nuser: root\n", "UID:GID in numbers"},
		"BaseAndDebian":     {"x", head + "base: a:1\ndebian: {packages: [b]}\n", "exclude each other"},
		"BaseWithDigest":    {"x", head + "base: a@sha256:0\n", "the digest belongs into image.lock"},
		"NoPackages":        {"x", head + "debian: {}\n", "debian.packages is empty"},
		"ProgramElsewhere":  {"x", head + "programs: [{package: ./../x, path: /x}]\n", "below the repository's root"},
		"ProgramNoPath":     {"x", head + "programs: [{package: ./x}]\n", "must be absolute and plain"},
		"ToolLatest":        {"x", head + "tools: [{module: a.b/c, version: latest, path: /x}]\n", "must be a full one"},
		"ToolOtherModule":   {"x", head + "tools: [{module: a.b/c, package: a.b/cd, version: v1.2.3, path: /x}]\n", "is not in its module"},
		"PathOut":           {"x", head + "base: a:1\nfiles: [{path: /../x, content: y}]\n", "must be absolute and plain"},
		"PathTwice":         {"x", head + "base: a:1\nfiles: [{path: /x, content: y}]\nlinks: [{path: /x, target: z}]\n", "path /x is there twice"},
		"SourceElsewhere":   {"x", head + "base: a:1\nfiles: [{path: /x, source: ../../etc/passwd}]\n", "must be beside"},
		"SourceMissing":     {"x", head + "base: a:1\nfiles: [{path: /x, source: none.sh}]\n", "no such file"},
		"SourceAndContent":  {"x", head + "base: a:1\nfiles: [{path: /x, source: wrapper.sh, content: y}]\n", "one of source and content"},
		"BadMode":           {"x", head + "base: a:1\nfiles: [{path: /x, content: y, mode: rwx}]\n", "must be octal digits"},
		"SetuidMode":        {"x", head + "base: a:1\nfiles: [{path: /x, content: y, mode: \"4755\"}]\n", "must be octal digits"},
		"LinkWithoutTarget": {"x", head + "base: a:1\nlinks: [{path: /x}]\n", "has no target"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load(write(t, tc.name, tc.content))
			if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), "recipe "+tc.name) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

const digest = "sha256:4d25cbc9c23ee34eaa68a3a28ff0a86fcc3a1d2fd5ce7b0bd0a1e1e9dd9a3f2d"

func TestLockIsReadAsItWasWritten(t *testing.T) {
	r, err := Load(write(t, "x", head+"debian: {packages: [nmap], without: {awk: no}}\ntools: [{module: a.b/c, version: v1.2.3, path: /x}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Lock{
		For:   WishesOf(r),
		Tools: []ToolLock{{"a.b/c", "h1:abc="}},
		Debian: &DebianLock{
			Suites:   []Suite{{"debian", "trixie", "2026-09-12T07:55:41Z"}},
			Packages: []Package{{"nmap", "7.95+dfsg-3", "amd64", "amd64", "debian", "pool/main/n/nmap/nmap_7.95+dfsg-3_amd64.deb", 1930860, digest[7:]}},
		},
	}
	if err := want.Save(r); err != nil {
		t.Fatal(err)
	}
	got, err := LoadLock(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLocksThatAreRefused(t *testing.T) {
	based := head + "base: docker.io/a/b:1\nplatforms: [linux/amd64]\n"
	packaged := head + "debian: {packages: [nmap]}\nplatforms: [linux/amd64]\n"
	tooled := head + "tools: [{module: a.b/c, version: v1.2.3, path: /x}]\nplatforms: [linux/amd64]\n"
	const forBase = "for: {base: docker.io/a/b:1, platforms: [linux/amd64]}\n"
	const forPackages = "for: {packages: [nmap], platforms: [linux/amd64]}\n"
	const forTools = "for: {tools: [a.b/c@v1.2.3], platforms: [linux/amd64]}\n"
	entry := func(archive, path, sum string) string {
		return forPackages + "debian: {suites: [], packages: [{name: nmap, version: \"1\", for: amd64, arch: amd64, archive: " + archive + ", path: " + path + ", size: 1, sha256: \"" + sum + "\"}]}\n"
	}
	tests := map[string]struct{ recipe, lock, err string }{
		"OtherWishes":    {based, "for: {base: docker.io/a/b:2, platforms: [linux/amd64]}\n", "was made for another content"},
		"OtherPlatforms": {based, "for: {base: docker.io/a/b:1, platforms: [linux/arm64]}\n", "was made for another content"},
		"NoDigest":       {based, forBase, "has no digest"},
		"OtherBase":      {based, forBase + "base: {image: docker.io/evil/b:1, digest: \"" + digest + "\"}\n", "has no digest of the base"},
		"TagAsDigest":    {based, forBase + "base: {image: docker.io/a/b:1, digest: latest}\n", "has no digest of the base"},
		"NoPackages":     {packaged, forPackages, "has no packages"},
		"NoSum":          {packaged, entry("debian", "pool/x.deb", ""), "has no SHA256 of nmap"},
		"ShortSum":       {packaged, entry("debian", "pool/x.deb", "abc"), "has no SHA256 of nmap"},
		"PathOut":        {packaged, entry("debian", "../../x.deb", digest[7:]), "that is not one of an archive"},
		"AbsolutePath":   {packaged, entry("debian", "/etc/x", digest[7:]), "that is not one of an archive"},
		"ArchiveOut":     {packaged, entry("a/b", "x.deb", digest[7:]), "that is not one of an archive"},
		"NoTools":        {tooled, forTools, "has other tools"},
		"NoToolSum":      {tooled, forTools + "tools: [{module: a.b/c, sum: \"\"}]\n", "has no checksum"},
		"OtherTool":      {tooled, forTools + "tools: [{module: evil.b/c, sum: \"h1:x\"}]\n", "has no checksum of a.b/c"},
		"NotYAML":        {based, "{", "image.lock"},
		"UnknownField":   {based, forBase + "bass: {}\n", "bass"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := Load(write(t, "x", tc.recipe))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(r.Dir, LockFile), []byte(tc.lock), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = LoadLock(r)
			if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), `run "images lock x"`) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}
