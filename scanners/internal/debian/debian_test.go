// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/scanners/internal/debian/debtest"
	"github.com/scanyard/scanyard/scanners/internal/layer"
	"github.com/scanyard/scanyard/scanners/internal/recipe"
)

func tree(t *testing.T, limits layer.Limits) *layer.Tree {
	t.Helper()
	tr, err := layer.NewTree(t.TempDir(), nil, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

func TestRelations(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []group
		bad  bool
	}{
		"Plain":        {in: "libc6", want: []group{{{"libc6", "", ""}}}},
		"Version":      {in: "libc6 (>= 2.38), zlib1g(>=1:1.1.4)", want: []group{{{"libc6", ">=", "2.38"}}, {{"zlib1g", ">=", "1:1.1.4"}}}},
		"Alternatives": {in: "a | b (<< 2~) | c", want: []group{{{"a", "", ""}, {"b", "<<", "2~"}, {"c", "", ""}}}},
		"Architecture": {in: "python3:any (>> 3)", want: []group{{{"python3", ">>", "3"}}}},
		"Folded":       {in: "a,\nb", want: []group{{{"a", "", ""}}, {{"b", "", ""}}}},
		"Empty":        {in: " , "},
		"Nonsense":     {in: "a (?? 2)", bad: true},
		"Shell":        {in: "a;rm -rf", bad: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseRelations(tc.in)
			if (err != nil) != tc.bad {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(relation{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVersionConditions(t *testing.T) {
	tests := map[string]struct {
		have, op, than string
		want           bool
	}{
		"None":             {"1", "", "", true},
		"TildeIsEarlier":   {"1.0~rc1-1", "<<", "1.0-1", true},
		"EpochWins":        {"1:0.1", ">>", "9.9", true},
		"Equal":            {"2.41-12+deb13u4", "=", "2.41-12+deb13u4", true},
		"LaterUpdate":      {"3.5.7-1~deb13u3", ">=", "3.5.7-1~deb13u2", true},
		"NotEarlier":       {"2", "<=", "1", false},
		"DigitsNotLetters": {"1.10", ">>", "1.9", true},
		"NoVersion":        {"", ">=", "1", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := relation{"x", tc.op, tc.than}.meets(tc.have)
			if err != nil || got != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// pkg makes a package for the resolver: fields in pairs.
func pkg(t *testing.T, name, version string, fields ...string) *control {
	t.Helper()
	f := map[string]string{"Package": name, "Version": version, "Architecture": "amd64", "Filename": "pool/" + name, "Size": "1", "SHA256": strings.Repeat("0", 64)}
	for i := 0; i < len(fields); i += 2 {
		f[fields[i]] = fields[i+1]
	}
	c, err := newControl("debian", f)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestResolve(t *testing.T) {
	tests := map[string]struct {
		reason   string
		packages []*control
		want     []string
		without  []string
		chosen   string
		err      string
	}{
		"Deep":                {"dependencies of dependencies", []*control{pkg(t, "a", "1", "Depends", "b"), pkg(t, "b", "1", "Pre-Depends", "c"), pkg(t, "c", "1"), pkg(t, "d", "1")}, []string{"a"}, nil, "a b c", ""},
		"Circle":              {"packages may need each other", []*control{pkg(t, "a", "1", "Depends", "b"), pkg(t, "b", "1", "Depends", "a")}, []string{"a"}, nil, "a b", ""},
		"NewestWins":          {"security updates are in a suite of their own", []*control{pkg(t, "a", "1"), pkg(t, "a", "1.1", "Depends", "b"), pkg(t, "a", "1.0.9"), pkg(t, "b", "1")}, []string{"a"}, nil, "a b", ""},
		"FirstAlternative":    {"the first that is there", []*control{pkg(t, "a", "1", "Depends", "x | b | c"), pkg(t, "b", "1"), pkg(t, "c", "1")}, []string{"a"}, nil, "a b", ""},
		"ChosenAlternative":   {"what is chosen already", []*control{pkg(t, "a", "1", "Depends", "b | c"), pkg(t, "b", "1"), pkg(t, "c", "1")}, []string{"c", "a"}, nil, "a c", ""},
		"OldAlternative":      {"but not an old one", []*control{pkg(t, "a", "1", "Depends", "b (>= 2) | c"), pkg(t, "b", "1"), pkg(t, "c", "1")}, []string{"a"}, nil, "a c", ""},
		"Virtual":             {"a name that others provide", []*control{pkg(t, "a", "1", "Depends", "mta"), pkg(t, "m2", "1", "Provides", "mta"), pkg(t, "m1", "1", "Provides", "mta")}, []string{"a"}, nil, "a m1", ""},
		"VirtualVersion":      {"with a version", []*control{pkg(t, "a", "1", "Depends", "api (>= 2)"), pkg(t, "m1", "9", "Provides", "api"), pkg(t, "m2", "1", "Provides", "api (= 2)")}, []string{"a"}, nil, "a m2", ""},
		"RealBeforeVirtual":   {"a package of that name first", []*control{pkg(t, "a", "1", "Depends", "v"), pkg(t, "m", "1", "Provides", "v"), pkg(t, "v", "1")}, []string{"a"}, nil, "a v", ""},
		"LeftOut":             {"what a recipe does not want", []*control{pkg(t, "a", "1", "Depends", "b | c"), pkg(t, "b", "1"), pkg(t, "c", "1")}, []string{"a"}, []string{"b"}, "a", ""},
		"VirtualLeftOut":      {"a virtual name too", []*control{pkg(t, "a", "1", "Depends", "awk"), pkg(t, "mawk", "1", "Provides", "awk")}, []string{"a"}, []string{"awk"}, "a", ""},
		"Unknown":             {"a typing error", nil, []string{"nmpa"}, nil, "", "there is no package nmpa"},
		"Missing":             {"a dependency that is not there", []*control{pkg(t, "a", "1", "Depends", "b (>= 2)"), pkg(t, "b", "1")}, []string{"a"}, nil, "", "package a needs b (>= 2), which is not there"},
		"Conflict":            {"packages that exclude each other", []*control{pkg(t, "a", "1", "Conflicts", "b (<< 2)"), pkg(t, "b", "1")}, []string{"a", "b"}, nil, "", "packages a and b exclude each other"},
		"ConflictWithVirtual": {"by what one provides, too", []*control{pkg(t, "a", "1", "Breaks", "v"), pkg(t, "b", "1", "Provides", "v")}, []string{"a", "b"}, nil, "", "exclude each other"},
		"ConflictWithItself":  {"which is how a package says that it is the only one", []*control{pkg(t, "a", "1", "Conflicts", "v", "Provides", "v")}, []string{"a"}, nil, "a", ""},
		"ConflictLongGone":    {"versions count", []*control{pkg(t, "a", "1", "Breaks", "b (<< 2)"), pkg(t, "b", "2")}, []string{"a", "b"}, nil, "a b", ""},
		"WantedAndLeftOut":    {"a recipe that contradicts itself", []*control{pkg(t, "a", "1")}, []string{"a"}, []string{"a"}, "", "is wanted and left out"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			x := newIndex()
			for _, p := range tc.packages {
				if err := x.add(p); err != nil {
					t.Fatal(err)
				}
			}
			x.finish()
			without := map[string]string{}
			for _, w := range tc.without {
				without[w] = "test"
			}
			got, err := resolve(x, tc.want, without, map[string]bool{})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%s: error %v, want %q", tc.reason, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, c := range got {
				names = append(names, c.name)
			}
			if diff := cmp.Diff(tc.chosen, strings.Join(names, " ")); diff != "" {
				t.Errorf("%s: %s", tc.reason, diff)
			}
		})
	}
}

func TestUnpack(t *testing.T) {
	for _, compression := range []string{"xz", "zst", "gz", ""} {
		t.Run("Compression"+compression, func(t *testing.T) {
			tr := tree(t, layer.DefaultLimits)
			deb := debtest.Deb(t, compression, debtest.File{Name: "./"}, debtest.File{Name: "./usr/bin/"}, debtest.File{Name: "./usr/bin/tool", Content: "hello"}, debtest.File{Name: "./usr/bin/t", Target: "tool"})
			if err := unpack(bytes.NewReader(deb), tr); err != nil {
				t.Fatal(err)
			}
			if !tr.Has("usr/bin/tool") || !tr.Has("usr/bin/t") || tr.Bytes() != 5 {
				t.Errorf("files are missing: %d bytes", tr.Bytes())
			}
		})
	}
}

func TestHostilePackages(t *testing.T) {
	good := debtest.Deb(t, "xz", debtest.File{Name: "./a", Content: "a"})
	bomb := debtest.Deb(t, "xz", debtest.File{Name: "./a", Content: strings.Repeat("0", 1<<20)})
	tests := map[string]struct {
		deb []byte
		err string
	}{
		"Empty":          {nil, "is not a Debian package"},
		"HTML":           {[]byte("<html>not found</html>"), "is not a Debian package"},
		"NoData":         {debtest.Ar(debtest.Member{Name: "debian-binary", Content: []byte("2.0\n")}), "has no files"},
		"WrongFormat":    {debtest.Ar(debtest.Member{Name: "debian-binary", Content: []byte("3.0\n")}), `has format "3.0"`},
		"WrongOrder":     {debtest.Ar(debtest.Member{Name: "data.tar", Content: nil}), "has format"},
		"UnknownPacking": {debtest.Ar(debtest.Member{Name: "debian-binary", Content: []byte("2.0\n")}, debtest.Member{Name: "data.tar.bz2", Content: []byte("BZ")}), "is not known"},
		"TwoData":        {debtest.Ar(debtest.Member{Name: "debian-binary", Content: []byte("2.0\n")}, debtest.Member{Name: "data.tar"}, debtest.Member{Name: "data.tar"}), "two sets of files"},
		"Truncated":      {good[:len(good)-30], "EOF"},
		"TruncatedHead":  {good[:20], "ends within a header"},
		"BrokenHeader":   {append([]byte("!<arch>\n"), bytes.Repeat([]byte("x"), 60)...), "broken header"},
		"Traversal":      {debtest.Deb(t, "xz", debtest.File{Name: "../../etc/cron.d/x", Content: "x"}), "leads out of the root"},
		"LinkOut":        {debtest.Deb(t, "xz", debtest.File{Name: "./x", Target: "../../../etc"}, debtest.File{Name: "./x/passwd", Content: "x"}), "leads out of the root"},
		"Device":         {debtest.Deb(t, "xz", debtest.File{Name: "./dev/mem", Type: tar.TypeChar}), "are refused"},
		"Bomb":           {bomb, "too large"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := unpack(bytes.NewReader(tc.deb), tree(t, layer.Limits{Bytes: 1 << 16, Entries: 100}))
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// world is an archive with a recipe that wants a package of it.
type world struct {
	archive *debtest.Archive
	release *Release
	client  *Client
	recipe  *recipe.Recipe
}

func newWorld(t *testing.T, compression string, change func(*debtest.Archive)) *world {
	t.Helper()
	a := debtest.New(t)
	a.Add(debtest.Deb(t, "xz", debtest.File{Name: "./usr/bin/tool", Content: "amd64"}), map[string]string{"Package": "tool", "Version": "1.0-1", "Architecture": "amd64", "Depends": "data (>= 2)"})
	a.Add(debtest.Deb(t, "xz", debtest.File{Name: "./usr/bin/tool", Content: "arm64"}), map[string]string{"Package": "tool", "Version": "1.0-1", "Architecture": "arm64", "Depends": "data (>= 2)"})
	a.Add(debtest.Deb(t, "xz", debtest.File{Name: "./usr/share/data", Content: "data"}), map[string]string{"Package": "data", "Version": "2+dfsg~1", "Architecture": "all", "Provides": "stuff"})
	if change != nil {
		change(a)
	}
	a.Sign(compression)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"key.asc":   string(a.Keys()),
		ReleaseFile: "distribution: debian-test\nsuites: [{archive: debian, suite: test}]\ncomponents: [main]\nkeys: [key.asc]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rel, err := LoadRelease(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(map[string]string{"debian": a.Serve()}, t.TempDir(), debtest.Date.AddDate(0, 0, 1), func(string, ...any) {})
	c.http.RetryMax = 0
	return &world{a, rel, c, &recipe.Recipe{Name: "x", Platforms: recipe.Platforms(), Debian: &recipe.Debian{Packages: []string{"tool"}}}}
}

func TestLockAndUnpack(t *testing.T) {
	for _, compression := range []string{"xz", "gz", ""} {
		t.Run("Lists"+compression, func(t *testing.T) {
			w := newWorld(t, compression, nil)
			lock, err := w.client.Lock(t.Context(), w.release, w.recipe)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range lock.Packages {
				got = append(got, p.For+" "+p.String()+" "+p.Path)
				tr := tree(t, layer.DefaultLimits)
				for range 2 { // the second time from the cache
					if err := w.client.Unpack(t.Context(), p, tr); err != nil {
						t.Fatal(err)
					}
					tr = tree(t, layer.DefaultLimits)
				}
			}
			want := []string{
				"amd64 data 2+dfsg~1 (all) pool/data_2+dfsg~1_all.deb", "amd64 tool 1.0-1 (amd64) pool/tool_1.0-1_amd64.deb",
				"arm64 data 2+dfsg~1 (all) pool/data_2+dfsg~1_all.deb", "arm64 tool 1.0-1 (arm64) pool/tool_1.0-1_arm64.deb",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if lock.Suites[0].Date != "2026-11-01T00:00:00Z" {
				t.Errorf("suites %v", lock.Suites)
			}
		})
	}
}

func TestListsThatAreNotTrusted(t *testing.T) {
	tests := map[string]struct {
		reason string
		change func(*testing.T, *world)
		err    string
	}{
		"OtherKey": {"signed by somebody else", func(t *testing.T, w *world) {
			keys, err := ReadKeyring(debtest.New(t).Keys())
			if err != nil {
				t.Fatal(err)
			}
			w.release.keyring = keys
		}, "by none of the archive's keys"},
		"NotSigned": {"not signed at all", func(_ *testing.T, w *world) {
			w.archive.Write("dists/test/InRelease", []byte("Suite: test\nSHA256:\n"))
		}, "it holds no signed text"},
		"Changed": {"changed after it was signed", func(t *testing.T, w *world) {
			w.archive.Write("dists/test/InRelease", bytes.Replace(signed(t, w), []byte("Origin: Test"), []byte("Origin: Fest"), 1))
		}, "or is wrong"},
		"OtherSuite": {"a list of another suite", func(t *testing.T, w *world) {
			w.release.Suites[0].Suite = "stable"
			w.archive.Write("dists/stable/InRelease", signed(t, w))
		}, "InRelease is of suite test"},
		"Expired": {"a mirror that stands still", func(_ *testing.T, w *world) { w.client.Now = debtest.Date.AddDate(0, 2, 0) }, "the mirror is behind"},
		"OtherList": {"Packages that are not those that were signed", func(_ *testing.T, w *world) {
			w.archive.Write("dists/test/main/binary-amd64/Packages.xz", []byte("x"))
		}, "is another file than the requested one"},
		"NoMirror": {"an archive nobody named", func(_ *testing.T, w *world) { w.release.Suites[0].Archive = "debian-security" }, "no mirror is known"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "xz", func(a *debtest.Archive) { a.ValidUntil = debtest.Date.AddDate(0, 1, 0) })
			tc.change(t, w)
			_, err := w.client.Lock(t.Context(), w.release, w.recipe)
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: error %v, want %q", tc.reason, err, tc.err)
			}
		})
	}
	w := newWorld(t, "xz", func(a *debtest.Archive) { a.ValidUntil = debtest.Date.AddDate(0, 1, 0) })
	w.client.Now, w.client.AllowExpired = debtest.Date.AddDate(0, 2, 0), true
	if _, err := w.client.Lock(t.Context(), w.release, w.recipe); err != nil {
		t.Errorf("a snapshot on purpose: %v", err)
	}
}

// signed fetches the signed list.
func signed(t *testing.T, w *world) []byte {
	t.Helper()
	body, err := w.client.get(t.Context(), "debian", "dists/test/InRelease")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPackagesThatAreNotThoseOfTheLock(t *testing.T) {
	w := newWorld(t, "xz", nil)
	lock, err := w.client.Lock(t.Context(), w.release, w.recipe)
	if err != nil {
		t.Fatal(err)
	}
	p := lock.Packages[1]
	wrong := p
	wrong.SHA256 = strings.Repeat("ab", 32)
	if err := w.client.Unpack(t.Context(), wrong, tree(t, layer.DefaultLimits)); err == nil || !strings.Contains(err.Error(), "is another file than the requested one") {
		t.Errorf("a package with another hash: %v", err)
	}
	if err := w.client.Unpack(t.Context(), p, tree(t, layer.DefaultLimits)); err != nil {
		t.Fatal(err)
	}
	// Somebody writes into the cache; the archive still has the package.
	if err := os.WriteFile(filepath.Join(w.client.Cache, p.SHA256), []byte("!<arch>\nevil"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Unpack(t.Context(), p, tree(t, layer.DefaultLimits)); err != nil {
		t.Errorf("after the cache was changed: %v", err)
	}
	if err := os.Remove(filepath.Join(w.client.Cache, p.SHA256)); err != nil {
		t.Fatal(err)
	}
	w.archive.Remove(p.Path)
	if err := w.client.Unpack(t.Context(), p, tree(t, layer.DefaultLimits)); !errors.Is(err, ErrGone) {
		t.Errorf("a package that is gone: %v", err)
	}
	entries, err := os.ReadDir(w.client.Cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "partial-") {
			t.Errorf("%s is left in the cache", e.Name())
		}
	}
}

func TestLeavingOutWhatNobodyNeeds(t *testing.T) {
	w := newWorld(t, "xz", nil)
	w.recipe.Debian.Without = map[string]string{"dta": "a typing error"}
	if _, err := w.client.Lock(t.Context(), w.release, w.recipe); err == nil || !strings.Contains(err.Error(), "dta is left out, but nothing depends on it") {
		t.Errorf("got %v", err)
	}
}

func TestReleaseFileErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadRelease(dir); err == nil {
		t.Error("a release that is not there")
	}
	for _, content := range []string{"distribution: x\n", "distro: x\n", "distribution: x\nsuites: [{archive: a, suite: b}]\ncomponents: [main]\nkeys: [none.asc]\n"} {
		if err := os.WriteFile(filepath.Join(dir, ReleaseFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadRelease(dir); err == nil || !strings.Contains(err.Error(), ReleaseFile) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestDebiansOwnKeys(t *testing.T) {
	rel, err := LoadRelease("../../images")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, k := range rel.keyring {
		id := k.PrimaryIdentity()
		names = append(names, strings.SplitN(id.Name, " <", 2)[0])
	}
	want := []string{"Debian Archive Automatic Signing Key (13/trixie)", "Debian Security Archive Automatic Signing Key (13/trixie)", "Debian Stable Release Key (13/trixie)"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}
