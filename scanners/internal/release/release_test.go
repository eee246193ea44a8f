// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseVersion(t *testing.T) {
	for text, problem := range map[string]string{
		"v0.2.0": "", "v1.0.0-rc.1": "", "v1.0.0-0a": "",
		"": "VERSION=v0.2.0", "0.2.0": "VERSION=v0.2.0", "v1.2": "semantic version", "v01.2.3": "semantic version", "v1.2.3-01": "semantic version",
		"v1.2.3+linux": "build metadata", "1a2b3c4-dirty": "semantic version", "latest": "semantic version",
	} {
		v, err := ParseVersion(text)
		switch {
		case problem == "" && (err != nil || string(v) != text):
			t.Errorf("%q: %q, %v", text, v, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%q: error %v, want %q in it", text, err, problem)
		}
	}
}

const (
	unreleased = "# Changelog\n\nAbout.\n\n## Unreleased\n\n### Added\n\n- **A thing.**\n\n## 0.1.0 - 2026-01-02\n\n- The first.\n"
	settled    = "# Changelog\n\nAbout.\n\n## Unreleased\n\n## 0.2.0 - 2026-11-28\n\n### Added\n\n- **A thing.**\n\n## 0.1.0 - 2026-01-02\n\n- The first.\n"
)

// facts are those of a repository where a release can begin.
func facts(edit func(*Facts)) Facts {
	f := Facts{
		Head: "0123456789abcdef", Changelog: unreleased, Today: "2026-11-28", Charts: []string{"console", "nmap"},
		Images: []ImageFact{{Name: "console", Locked: true}, {Name: "operator", Locked: true}, {Name: "scanner-nikto", Remedy: "run images lock"}},
	}
	if edit != nil {
		edit(&f)
	}
	return f
}

func TestMake(t *testing.T) {
	w := Wishes{Version: "v0.2.0", Registry: "registry.example.com/security", Platforms: []string{"linux/arm64"}}
	archives := []Archive{{"linux/arm64", "scanyard_0.2.0_linux_arm64.tar.gz", "scanyard_0.2.0_linux_arm64.cdx.json"}}
	whole := Plan{
		Version: w.Version, Commit: "0123456789abcdef", Registry: w.Registry, Archives: archives, Images: []string{"console", "operator"}, Charts: []string{"console", "nmap"}, ImagePlatforms: w.Platforms,
		LeftOut: []string{"scanner-nikto: it was never locked: run images lock"}, Notes: "### Added\n\n- **A thing.**", Changelog: settled, Tag: true,
	}
	with := func(edit func(*Plan)) Plan { p := whole; edit(&p); return p }
	for name, tc := range map[string]struct {
		reason string
		wishes Wishes
		facts  Facts
		want   Plan
	}{
		"Fresh":     {"the changelog becomes the version's, and the commit its tag", w, facts(nil), whole},
		"Committed": {"an interrupted release goes on", w, facts(func(f *Facts) { f.Changelog = settled }), with(func(p *Plan) { p.Changelog = "" })},
		"Tagged": {
			"a tag can be built again by anybody", w, facts(func(f *Facts) { f.Changelog, f.Tagged = settled, f.Head }),
			with(func(p *Plan) { p.Changelog, p.Tag = "", false }),
		},
		"Picked": {
			"some of it, to try out",
			Wishes{Version: w.Version, Platforms: w.Platforms, Images: []string{"operator"}, Charts: []string{"none"}},
			facts(nil),
			with(func(p *Plan) { p.Registry, p.Images, p.Charts, p.LeftOut = "", []string{"operator"}, nil, nil }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Make(tc.wishes, tc.facts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWhatIsInTheWay(t *testing.T) {
	v := Version("v0.2.0")
	for name, tc := range map[string]struct {
		wishes Wishes
		facts  Facts
		want   []string
	}{
		"Dirty":      {Wishes{Version: v}, facts(func(f *Facts) { f.Changed = strings.Split("a b c d e f g", " ") }), []string{"a, b, c, d, e and 2 more"}},
		"OtherTag":   {Wishes{Version: v}, facts(func(f *Facts) { f.Changelog, f.Tagged = settled, "fedcba" }), []string{"v0.2.0 is the tag of commit fedcba, and 0123456789ab is checked out"}},
		"TagWithout": {Wishes{Version: v}, facts(func(f *Facts) { f.Tagged = f.Head }), []string{"has no section 0.2.0"}},
		"Nothing":    {Wishes{Version: "v0.3.0"}, facts(func(f *Facts) { f.Changelog = settled }), []string{ErrNothingNew.Error()}},
		"Registry":   {Wishes{Version: v, Registry: "https://registry.example.com"}, facts(nil), []string{"without scheme"}},
		"Image":      {Wishes{Version: v, Images: []string{"opertor"}}, facts(nil), []string{`image "opertor" is not known; known are console, operator`}},
		"Unlocked":   {Wishes{Version: v, Images: []string{"scanner-nikto"}}, facts(nil), []string{"scanner-nikto was never locked: run images lock"}},
		"All": {
			Wishes{Version: v, Registry: "r/", Platforms: []string{"plan9/amd64"}, Charts: []string{"x"}},
			facts(func(f *Facts) { f.Changed = []string{"a"} }),
			[]string{"differs from the commit: a", "slash at its end", `platform "plan9/amd64"`, `chart "x"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Make(tc.wishes, tc.facts)
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q in it", err, want)
				}
			}
		})
	}
	if _, err := Make(Wishes{Version: v}, facts(func(f *Facts) { f.Changelog = "# Changelog\n" })); !errors.Is(err, ErrNothingNew) {
		t.Errorf("a changelog without sections: %v", err)
	}
}

func TestSteps(t *testing.T) {
	p, err := Make(Wishes{Version: "v0.2.0", Platforms: []string{"linux/amd64"}, Images: []string{"operator"}, Charts: []string{"nmap"}}, facts(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`make "Unreleased" of CHANGELOG.md the section 0.2.0, and commit that`, "build scanyard_0.2.0_linux_amd64.tar.gz and its SBOM",
		"build image docker.io/scanyard/operator:0.2.0", "pack chart charts/nmap-0.2.0.tgz", "write release notes, digests and SHA256SUMS",
		"tag the commit as v0.2.0", "push nothing, since REGISTRY is not given",
	}
	if diff := cmp.Diff(want, p.Steps(false)); diff != "" {
		t.Error(diff)
	}
	p.Registry = "r.example/x"
	if got := p.Steps(true); got[len(got)-1] != "push and sign 1 images and 1 charts to r.example/x" || !strings.HasSuffix(got[4], "and sign them") {
		t.Errorf("with registry and key: %q", got)
	}
}

// chart is a chart of a scanner, or of a program of ours.
func chart(appVersion string) Files {
	return Files{
		"Chart.yaml":         []byte("# Comments stay.\nname: x\ndescription: A chart.\nversion: 0.1.0\nappVersion: \"" + appVersion + "\"\ndependencies:\n  - name: scanyard-lib\n    version: 0.2.0\n"),
		"values.yaml":        []byte("repository: docker.io/scanyard/parser\nother: docker.io/securecodebox/scanner-x\n"),
		"README.md.gotmpl":   []byte("of the README"),
		"ci/values.yaml":     []byte("of a test"),
		"templates/own.yaml": []byte(`{{ include "own" (dict "own" "scanyard/parser") }}`),
		".helmignore":        []byte("# what does not go along\nci/\n*.gotmpl\n"),
	}
}

func TestPackChart(t *testing.T) {
	p := Plan{Version: "v0.2.0", Registry: "registry.example.com:5000/security"}
	library := Files{"Chart.yaml": []byte("name: scanyard-lib\nversion: 0.2.0\n"), "templates/_x.tpl": []byte(`"own" "scanyard/hook"`)}
	date := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct{ before, after string }{
		"Scanner": {"7.99-r0", "7.99-r0"},
		"Ours":    {"0.1.0", "0.2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := PackChart(p, chart(tc.before), library, date)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{
				"x/Chart.yaml":         "# Comments stay.\nname: x\ndescription: A chart.\nversion: \"0.2.0\"\nappVersion: \"" + tc.after + "\"\ndependencies:\n  - name: scanyard-lib\n    version: 0.2.0\n",
				"x/values.yaml":        "repository: registry.example.com:5000/security/parser\nother: docker.io/securecodebox/scanner-x\n",
				"x/templates/own.yaml": `{{ include "own" (dict "own" "security/parser") }}`,

				"x/charts/scanyard-lib/Chart.yaml":       "name: scanyard-lib\nversion: 0.2.0\n",
				"x/charts/scanyard-lib/templates/_x.tpl": `"own" "security/hook"`,
			}
			if tc.before == "0.1.0" {
				want["x/Chart.yaml"] = strings.ReplaceAll(want["x/Chart.yaml"], `"0.1.0"`, `"0.2.0"`)
			}
			names, got := unpack(t, c.Package, date)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if names[0] != "x/Chart.yaml" {
				t.Errorf("%s comes first", names[0])
			}
			if c.Name != "x" || c.Version != "0.2.0" || !strings.Contains(string(c.Metadata), `"version":"0.2.0"`) {
				t.Errorf("%s %s: %s", c.Name, c.Version, c.Metadata)
			}
			again, err := PackChart(p, chart(tc.before), library, date)
			if err != nil || !bytes.Equal(c.Package, again.Package) {
				t.Errorf("packed again: other bytes (%v)", err)
			}
		})
	}
}

func TestPackChartRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"Dependency": {"Chart.yaml", "name: x\nversion: 1.0.0\ndependencies: [{name: redis}]\n", "depends on redis"},
		"Nothing":    {"Chart.yaml", "", "name or version is missing"},
		"Ignored":    {".helmignore", "!ci/\n", `pattern "!ci/"`},
		"Pattern":    {".helmignore", "[\n", "syntax error"},
	} {
		t.Run(name, func(t *testing.T) {
			files := chart("1")
			files[tc.file] = []byte(tc.text)
			if _, err := PackChart(Plan{Version: "v1.0.0"}, files, nil, time.Time{}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q in it", err, tc.want)
			}
		})
	}
}

func unpack(t *testing.T, packed []byte, date time.Time) ([]string, map[string]string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	all := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, all
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(date) || h.Mode != 0o644 || h.Uname != "" {
			t.Errorf("%s: %v", h.Name, h)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names, all[h.Name] = append(names, h.Name), string(b)
	}
}
