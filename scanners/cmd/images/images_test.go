// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/scanyard/scanyard/scanners/internal/debian"
	"github.com/scanyard/scanyard/scanners/internal/debian/debtest"
)

const digestOfNothing = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// world is a repository with recipes of all kinds, and everything they need on this machine: a Debian archive, a Go
// module proxy, and a registry, which is both the vendor's and ours.
type world struct {
	t        *testing.T
	root     string
	archive  *debtest.Archive
	mirror   string
	registry string
	env      environment
	vars     map[string]string
}

func newWorld(t *testing.T, opts ...registry.Option) *world {
	t.Helper()
	w := &world{t: t, root: t.TempDir(), archive: debtest.New(t), vars: map[string]string{}}
	server := httptest.NewServer(registry.New(append(opts, registry.Logger(log.New(io.Discard, "", 0)))...))
	t.Cleanup(server.Close)
	w.registry = strings.TrimPrefix(server.URL, "http://")

	w.pushVendor()
	w.fillArchive()
	w.mirror = w.archive.Serve()
	modcache := filepath.Join(t.TempDir(), "mod")
	environ := append(os.Environ(), "GOPROXY="+w.proxy(), "GONOSUMDB=*", "GOMODCACHE="+modcache, "GOTOOLCHAIN=local")
	w.env = environment{Environ: environ, LookupEnv: func(n string) (string, bool) { v, ok := w.vars[n]; return v, ok }, Now: debtest.Date}
	t.Cleanup(func() {
		clean := exec.Command("go", "clean", "-modcache") // the module cache is read-only
		clean.Env = environ
		if out, err := clean.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})

	w.write("go.work", "go 1.26.0\n\nuse ./apis\nuse ./hello\n")
	w.write("apis/go.mod", "module github.com/scanyard/scanyard/apis\n\ngo 1.26.0\n")
	w.write("apis/buildinfo/buildinfo.go", "package buildinfo\n\nvar version, commit string\n\nfunc Version() string { return version }\n")
	w.write("hello/go.mod", "module example.com/hello\n\ngo 1.26.0\n")
	w.write("hello/cmd/hello/main.go", "package main\n\nimport \"github.com/scanyard/scanyard/apis/buildinfo\"\n\nfunc main() { println(\"hello\", buildinfo.Version()) }\n")
	w.write("scanners/images/debian.yaml", "distribution: debian-test\nsuites: [{archive: debian, suite: test}]\ncomponents: [main]\nkeys: [key.asc]\n")
	w.write("scanners/images/key.asc", string(w.archive.Keys()))
	// A module that the workspace does not hold, as those of engines are: jsonv2 exists only in builds that ask for it.
	w.write("engines/one/go.mod", "module example.com/one\n\ngo 1.26.0\n")
	w.write("engines/one/cmd/engine/main.go", "package main\n\nimport \"encoding/json/v2\"\n\nfunc main() { println(\"engine\", json.RejectUnknownMembers(true) != nil) }\n")
	w.recipe("hello", "programs:\n- {package: ./hello/cmd/hello, path: /hello}\n- {package: ./engines/one/cmd/engine, path: /engine, module: ./engines/one, experiment: jsonv2}\naccounts: true\ncertificates: true\ndirectories: [{path: /tmp, mode: \"1777\"}]\nentrypoint: [/hello]\nuser: \"65532:65532\"\n")
	w.recipe("packaged", "debian: {packages: [tool]}\nlinks: [{path: \"/usr/lib/{triplet}/libx.so\", target: liby.so}]\nfiles: [{path: /wrapper.sh, source: wrapper.sh, mode: \"0755\"}, {path: /etc/x, content: x}]\ncmd: [tool]\n")
	w.write("scanners/images/packaged/wrapper.sh", "#!/bin/sh\n")
	w.recipe("vendor", "base: "+w.registry+"/vendor/thing:1.2\nfiles: [{path: /bin/wrapper.sh, source: wrapper.sh}]\nentrypoint: [sh, /bin/wrapper.sh]\nenv: [MORE=1]\n")
	w.write("scanners/images/vendor/wrapper.sh", "#!/bin/sh\n")
	w.recipe("fromproxy", "tools: [{module: example.com/tool, version: v1.2.3, path: /usr/bin/tool}]\n")
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) write(file, content string) {
	w.t.Helper()
	file = filepath.Join(w.root, filepath.FromSlash(file))
	w.must(os.MkdirAll(filepath.Dir(file), 0o700))
	w.must(os.WriteFile(file, []byte(content), 0o600))
}

func (w *world) recipe(name, content string) {
	w.t.Helper()
	w.write("scanners/images/"+name+"/image.yaml", "title: "+name+"\ndescription: for tests\nlicenses: Apache-2.0\ndate: \"2026-11-21\"\n"+content)
}

// fillArchive adds a package for each platform, and one for all.
func (w *world) fillArchive() {
	for _, arch := range []string{"amd64", "arm64"} {
		deb := debtest.Deb(w.t, "xz", debtest.File{Name: "./usr/bin/tool", Content: arch}, debtest.File{Name: "./bin/old", Content: "old"}, debtest.File{Name: "./usr/share/man/tool.1", Content: "man"})
		w.archive.Add(deb, map[string]string{"Package": "tool", "Version": "1.0-1", "Architecture": arch, "Depends": "data"})
	}
	w.archive.Add(debtest.Deb(w.t, "zst", debtest.File{Name: "./usr/share/data", Content: "data"}), map[string]string{"Package": "data", "Version": "2", "Architecture": "all"})
	w.archive.Sign("xz")
}

// pushVendor puts an image of another vendor into the registry, for both platforms.
func (w *world) pushVendor() {
	w.t.Helper()
	idx := v1.ImageIndex(empty.Index)
	for _, arch := range []string{"amd64", "arm64"} {
		im, err := random.Image(64, 1)
		w.must(err)
		cf, err := im.ConfigFile()
		w.must(err)
		cf = cf.DeepCopy()
		cf.OS, cf.Architecture = "linux", arch
		cf.Config = v1.Config{Entrypoint: []string{"thing"}, Cmd: []string{"--help"}, Env: []string{"PATH=/opt/thing:/bin"}, User: "thing"}
		im, err = mutate.ConfigFile(im, cf)
		w.must(err)
		idx = mutate.AppendManifests(idx, mutate.IndexAddendum{Add: im, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	ref, err := name.NewTag(w.registry + "/vendor/thing:1.2")
	w.must(err)
	w.must(remote.WriteIndex(ref, idx))
}

// proxy makes a Go module proxy of files, with one module.
func (w *world) proxy() string {
	w.t.Helper()
	dir := w.t.TempDir()
	mod := "module example.com/tool\n\ngo 1.26.0\n"
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for file, content := range map[string]string{"go.mod": mod, "main.go": "package main\n\nfunc main() { println(\"tool\") }\n"} {
		f, err := z.Create("example.com/tool@v1.2.3/" + file)
		w.must(err)
		_, err = io.WriteString(f, content)
		w.must(err)
	}
	w.must(z.Close())
	at := filepath.Join(dir, "example.com", "tool", "@v")
	w.must(os.MkdirAll(at, 0o700))
	for file, content := range map[string]string{"v1.2.3.info": `{"Version":"v1.2.3","Time":"2026-01-01T00:00:00Z"}`, "v1.2.3.mod": mod, "v1.2.3.zip": b.String()} {
		w.must(os.WriteFile(filepath.Join(at, file), []byte(content), 0o600))
	}
	return "file://" + dir
}

// run runs the command and returns its standard output.
func (w *world) run(args ...string) (string, error) {
	w.t.Helper()
	cmd := newCommand(w.env)
	var out, said bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&said)
	cache := filepath.Join(w.root, "cache")
	cmd.SetArgs(append(args, "--root", w.root, "--cache", cache, "--mirror", w.mirror))
	err := cmd.ExecuteContext(w.t.Context())
	return out.String(), err
}

func (w *world) ok(args ...string) string {
	w.t.Helper()
	out, err := w.run(args...)
	w.must(err)
	return out
}

// files are all files of a folder with their contents.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		all[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBuildTwiceGivesTheSameBytes(t *testing.T) {
	w := newWorld(t)
	w.ok("lock")
	first, second := t.TempDir(), t.TempDir()
	out := w.ok("build", "--out", first, "--tag", "v1")
	w.must(os.RemoveAll(filepath.Join(w.root, "cache")))
	if again := w.ok("build", "--out", second, "--tag", "v1"); again != out {
		t.Errorf("digests %s and %s", out, again)
	}
	if lines := strings.Count(out, "\n"); lines != 4 || !strings.Contains(out, "docker.io/scanyard/hello:v1@sha256:") {
		t.Errorf("output %q", out)
	}
	a, b := files(t, first), files(t, second)
	for n, content := range a {
		if b[n] != content {
			t.Errorf("%s differs", n)
		}
	}
	if len(a) != len(b) || len(a) < 20 {
		t.Errorf("%d and %d files", len(a), len(b))
	}
	w.vars["SOURCE_DATE_EPOCH"] = "1000000000"
	if again := w.ok("build", "hello", "--out", second, "--tag", "v1"); strings.Contains(out, strings.TrimSpace(again)) {
		t.Error("SOURCE_DATE_EPOCH changes nothing")
	}
	w.vars["SOURCE_DATE_EPOCH"] = "yesterday"
	if _, err := w.run("build", "hello", "--out", second); err == nil || !strings.Contains(err.Error(), "seconds since 1970") {
		t.Errorf("got %v", err)
	}
}

// contents are the files of an image, with the targets of links.
func contents(t *testing.T, im v1.Image) map[string]string {
	t.Helper()
	all := map[string]string{}
	rc := mutate.Extract(im)
	defer rc.Close()
	tr := tar.NewReader(rc)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(h.Name, "/")] = string(b) + h.Linkname
	}
}

func TestPushAndPullBack(t *testing.T) {
	tests := map[string]registry.Option{
		"RegistryWithReferrers":    registry.WithReferrersSupport(true),
		"RegistryWithoutReferrers": registry.WithReferrersSupport(false),
	}
	for name, opt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, opt)
			w.ok("lock")
			args := []string{"push", "--registry", w.registry + "/acme", "--tag", "v1", "--revision", "0123abc"}
			out := w.ok(args...)
			if again := w.ok(args...); again != out {
				t.Errorf("pushed twice: %s and %s", out, again)
			}
			layouts := t.TempDir()
			w.ok("build", "--out", layouts, "--registry", w.registry+"/acme", "--tag", "v1", "--revision", "0123abc")
			for line := range strings.Lines(out) {
				w.checkPulled(strings.TrimSpace(line), layouts)
			}
		})
	}
}

// checkPulled pulls an image of "name:tag@digest" and holds it against its layout.
func (w *world) checkPulled(pushed, layouts string) {
	t := w.t
	t.Helper()
	full, digest, _ := strings.Cut(pushed, "@")
	ref, err := name.NewTag(full)
	w.must(err)
	idx, err := remote.Index(ref)
	w.must(err)
	if h, err := idx.Digest(); err != nil || h.String() != digest {
		t.Errorf("%s: pulled %s, %v", pushed, h, err)
	}
	short := ref.RepositoryStr()[strings.LastIndex(ref.RepositoryStr(), "/")+1:]
	stored, err := layout.ImageIndexFromPath(filepath.Join(layouts, short))
	w.must(err)
	sm, err := stored.IndexManifest()
	w.must(err)
	if sm.Manifests[0].Digest.String() != digest || sm.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != full {
		t.Errorf("%s: the layout has %v", pushed, sm.Manifests[0])
	}
	m, err := idx.IndexManifest()
	w.must(err)
	var platforms []string
	for _, d := range m.Manifests {
		platforms = append(platforms, d.Platform.String())
		im, err := idx.Image(d.Digest)
		w.must(err)
		w.checkImage(short, d, im)
		w.checkReferrer(ref.Digest(d.Digest.String()), filepath.Join(layouts, short, "sbom", "linux-"+d.Platform.Architecture+".cdx.json"))
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Errorf("%s: %s", pushed, diff)
	}
}

func (w *world) checkImage(short string, d v1.Descriptor, im v1.Image) {
	t := w.t
	t.Helper()
	cf, err := im.ConfigFile()
	w.must(err)
	labels := cf.Config.Labels
	if labels["org.opencontainers.image.title"] != short || labels["org.opencontainers.image.revision"] != "0123abc" || labels["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("%s: labels %v", short, labels)
	}
	has := contents(t, im)
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[d.Platform.Architecture]
	var want map[string]string
	switch short {
	case "hello":
		want = map[string]string{"tmp": "", "etc/passwd": has["etc/passwd"], "etc/ssl/certs/ca-certificates.crt": has["etc/ssl/certs/ca-certificates.crt"]}
		if !strings.Contains(has["etc/passwd"], "nonroot:x:65532:65532:") || strings.Count(has["etc/ssl/certs/ca-certificates.crt"], "BEGIN CERTIFICATE") < 100 {
			t.Error("accounts or certificates are missing")
		}
		if cf.Config.User != "65532:65532" || !slices.Equal(cf.Config.Entrypoint, []string{"/hello"}) {
			t.Errorf("configuration %+v", cf.Config)
		}
		if runtime.GOOS == "linux" && d.Platform.Architecture == runtime.GOARCH {
			w.runs(has["hello"], "hello v1\n")
			w.runs(has["engine"], "engine true\n")
		}
	case "packaged":
		want = map[string]string{"usr/bin/tool": d.Platform.Architecture, "usr/bin/old": "old", "usr/share/data": "data", "bin": "usr/bin", "etc/x": "x", "usr/lib/" + triplet + "/libx.so": "liby.so"}
		if labels["org.opencontainers.image.version"] != "1.0-1" {
			t.Errorf("labels %v", labels)
		}
	case "vendor":
		want = map[string]string{"bin/wrapper.sh": "#!/bin/sh\n"}
		if labels["org.opencontainers.image.base.name"] != w.registry+"/vendor/thing:1.2" || len(labels["org.opencontainers.image.base.digest"]) != len(digestOfNothing) {
			t.Errorf("labels %v", labels)
		}
		if diff := cmp.Diff([]string{"PATH=/opt/thing:/bin", "MORE=1"}, cf.Config.Env); diff != "" || cf.Config.User != "thing" || cf.Config.Cmd != nil {
			t.Errorf("configuration %+v", cf.Config)
		}
		if _, ok := has["bin"]; ok {
			t.Error("a folder of the vendor's image is written again")
		}
	case "fromproxy":
		want = map[string]string{"usr/bin/tool": has["usr/bin/tool"]}
		if labels["org.opencontainers.image.version"] != "v1.2.3" || !strings.HasPrefix(has["usr/bin/tool"], "\x7fELF") {
			t.Errorf("labels %v", labels)
		}
	}
	for n, content := range want {
		if got, ok := has[n]; !ok || got != content {
			t.Errorf("%s for %s: %s is %q (there: %v), want %q", short, d.Platform, n, got, ok, content)
		}
	}
}

// runs runs a program of an image.
func (w *world) runs(program, want string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "program")
	w.must(os.WriteFile(file, []byte(program), 0o700))
	out, err := exec.Command(file).CombinedOutput()
	if err != nil || string(out) != want {
		w.t.Errorf("the program says %q, %v, want %q", out, err, want)
	}
}

// checkReferrer looks for the SBOM of an image in the registry.
func (w *world) checkReferrer(image name.Digest, file string) {
	t := w.t
	t.Helper()
	refs, err := remote.Referrers(image)
	w.must(err)
	m, err := refs.IndexManifest()
	w.must(err)
	if len(m.Manifests) != 1 {
		t.Fatalf("referrers of %s: %+v", image, m.Manifests)
	}
	doc, err := remote.Image(image.Context().Digest(m.Manifests[0].Digest.String()))
	w.must(err)
	// The registry's list takes the configuration's media type for the artifact's, so the manifest is asked.
	dm, err := doc.Manifest()
	w.must(err)
	if dm.ArtifactType != "application/vnd.cyclonedx+json" || dm.Subject.Digest.String() != image.DigestStr() {
		t.Errorf("the SBOM of %s: %+v", image, dm)
	}
	layers, err := doc.Layers()
	w.must(err)
	rc, err := layers[0].Uncompressed()
	w.must(err)
	defer rc.Close()
	got, err := io.ReadAll(rc)
	w.must(err)
	want, err := os.ReadFile(file)
	w.must(err)
	if !bytes.Equal(got, want) || !bytes.Contains(got, []byte(`"bomFormat": "CycloneDX"`)) {
		t.Errorf("the SBOM of %s is not that of the layout", image)
	}
}

func TestOnePlatformIsAnImageOfItsOwn(t *testing.T) {
	w := newWorld(t)
	out := t.TempDir()
	w.ok("build", "hello", "--platform", "linux/arm64", "--out", out)
	idx, err := layout.ImageIndexFromPath(filepath.Join(out, "hello"))
	w.must(err)
	m, err := idx.IndexManifest()
	w.must(err)
	if _, err := idx.Image(m.Manifests[0].Digest); err != nil || m.Manifests[0].Platform.String() != "linux/arm64" {
		t.Errorf("%v, %+v", err, m.Manifests[0])
	}
	doc, err := idx.Image(m.Manifests[1].Digest)
	w.must(err)
	dm, err := doc.Manifest()
	w.must(err)
	if dm.Subject == nil || dm.Subject.Digest != m.Manifests[0].Digest || m.Manifests[1].Annotations != nil {
		t.Errorf("the SBOM is about %+v", dm.Subject)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	tests := map[string]struct {
		reason string
		change func(*world)
		args   []string
		err    []string
	}{
		"NoLock":          {"a recipe that was never locked", func(*world) {}, []string{"build", "packaged"}, []string{"recipe packaged", "image.lock does not exist", `run "images lock packaged"`}},
		"StaleLock":       {"a recipe that wants more since", func(w *world) { w.ok("lock"); w.recipe("packaged", "debian: {packages: [tool, data]}\n") }, []string{"build", "packaged"}, []string{"was made for another content", `run "images lock packaged"`}},
		"BrokenLock":      {"a lock that somebody edited", func(w *world) { w.write("scanners/images/packaged/image.lock", "debian: 3\n") }, []string{"build", "packaged"}, []string{`run "images lock packaged"`}},
		"PackageGone":     {"a mirror that has moved on", func(w *world) { w.ok("lock"); w.archive.Remove("pool/tool_1.0-1_amd64.deb") }, []string{"build", "packaged"}, []string{"package tool 1.0-1 (amd64)", "does not have it (any more)", `run "images lock packaged"`}},
		"PackageChanged":  {"a mirror that sends something else", func(w *world) { w.ok("lock"); w.archive.Write("pool/tool_1.0-1_amd64.deb", []byte("evil")) }, []string{"build", "packaged"}, []string{"another file than the requested one"}},
		"ToolChanged":     {"a module that is not the one of the lock", func(w *world) { w.ok("lock"); w.edit("scanners/images/fromproxy/image.lock", "sum: h1:", "sum: h1:x") }, []string{"build", "fromproxy"}, []string{"recipe fromproxy", "has another checksum", `run "images lock fromproxy"`}},
		"ToolUnknown":     {"a version that is not there", func(w *world) { w.edit("scanners/images/fromproxy/image.yaml", "v1.2.3", "v1.2.4") }, []string{"lock", "fromproxy"}, []string{"recipe fromproxy", "example.com/tool@v1.2.4"}},
		"BaseUnknown":     {"a vendor's image that is not there", func(w *world) { w.edit("scanners/images/vendor/image.yaml", "thing:1.2", "thing:9") }, []string{"lock", "vendor"}, []string{"recipe vendor", "thing:9"}},
		"PackageUnknown":  {"a package that is not there", func(w *world) { w.recipe("packaged", "debian: {packages: [tol]}\n") }, []string{"lock", "packaged"}, []string{"recipe packaged", "no package tol"}},
		"RecipeUnknown":   {"a name that is not a recipe", func(*world) {}, []string{"build", "helo"}, []string{"recipe helo", `"images list" shows`}},
		"RecipePath":      {"a path is not a valid name", func(*world) {}, []string{"build", "../images/hello"}, []string{"is not a recipe's name"}},
		"RecipeMisspelt":  {"a field that is not known", func(w *world) { w.recipe("hello", "programmes: []\n") }, []string{"build", "hello"}, []string{"recipe hello", "programmes"}},
		"PlatformUnknown": {"a platform that cannot be built", func(*world) {}, []string{"build", "hello", "--platform", "linux/sparc"}, []string{"linux/sparc", "linux/arm64"}},
		"PlatformOther":   {"a platform that a recipe has not", func(w *world) { w.edit("scanners/images/hello/image.yaml", "title", "platforms: [linux/amd64]\ntitle") }, []string{"build", "hello", "--platform", "linux/arm64"}, []string{"is for [linux/amd64] only"}},
		"DoesNotCompile":  {"a program that does not compile", func(w *world) { w.write("hello/cmd/hello/main.go", "package main\n\nfunc main() { x }\n") }, []string{"build", "hello"}, []string{"build ./hello/cmd/hello for linux/amd64", "undefined: x"}},
		"OtherModule": {"a program that is not in the module it names", func(w *world) {
			w.edit("scanners/images/hello/image.yaml", "module: ./engines/one", "module: ./engines/two")
		}, []string{"build", "hello"}, []string{"./engines/one/cmd/engine", "must be below its module", "./engines/two"}},
		"BadTag":         {"a tag that is none", func(*world) {}, []string{"build", "hello", "--tag", "a b"}, []string{"--registry and --tag"}},
		"LibraryMissing": {"a program without its libraries", func(w *world) { w.addDynamic(); w.ok("lock", "packaged") }, []string{"build", "packaged"}, []string{"shared libraries are missing: libgone.so.1 (for /usr/bin/dynamic)"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.change(w)
			args := tc.args
			if args[0] == "build" {
				args = append(args, "--out", t.TempDir())
			}
			_, err := w.run(args...)
			if err == nil {
				t.Fatal(tc.reason + ": no error")
			}
			for _, part := range tc.err {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %q does not say %q", tc.reason, err, part)
				}
			}
		})
	}
}

func (w *world) edit(file, old, replacement string) {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.root, filepath.FromSlash(file)))
	w.must(err)
	w.write(file, strings.Replace(string(b), old, replacement, 1))
}

// addDynamic adds a package with a program that needs a library which is nowhere.
func (w *world) addDynamic() {
	for _, arch := range []string{"amd64", "arm64"} {
		w.archive.Add(debtest.Deb(w.t, "xz", debtest.File{Name: "./usr/bin/dynamic", Content: string(debtest.ELF("libgone.so.1"))}), map[string]string{"Package": "dynamic", "Version": "1", "Architecture": arch})
	}
	w.archive.Sign("xz")
	w.recipe("packaged", "debian: {packages: [dynamic]}\n")
}

func TestWithoutNamesTheUnlockedAreLeftOut(t *testing.T) {
	w := newWorld(t)
	w.ok("lock", "packaged")
	out := w.ok("build", "--out", t.TempDir(), "--platform", "linux/amd64")
	var built []string
	for line := range strings.Lines(out) {
		built = append(built, strings.SplitN(line, ":", 2)[0])
	}
	if diff := cmp.Diff([]string{"docker.io/scanyard/hello", "docker.io/scanyard/packaged"}, built); diff != "" {
		t.Error(diff)
	}
	w.recipe("packaged", "debian: {packages: [data]}\n")
	if _, err := w.run("build", "--out", t.TempDir()); err == nil || !strings.Contains(err.Error(), "was made for another content") {
		t.Errorf("a stale lock is an error all the same: %v", err)
	}
}

func TestList(t *testing.T) {
	w := newWorld(t)
	w.ok("lock", "vendor", "packaged")
	w.recipe("packaged", "debian: {packages: [data]}\n")
	out := w.ok("list")
	for recipe, state := range map[string]string{"hello": "not needed", "vendor": "yes", "packaged": "stale", "fromproxy": "missing"} {
		i := strings.Index(out, "\n"+recipe+" ")
		if i < 0 || !strings.Contains(strings.SplitN(out[i+1:], "\n", 2)[0], state) {
			t.Errorf("%s should be %q in\n%s", recipe, state, out)
		}
	}
}

// TestMirrorsOfTheMachine: no host is built in; flags come before what apt says.
func TestMirrorsOfTheMachine(t *testing.T) {
	apt := fstest.MapFS{"sources.list": {Data: []byte("deb http://apt.example/debian trixie main\n")}}
	for name, tc := range map[string]struct {
		o    options
		want map[string]string
	}{
		"Nothing":  {options{environment: environment{Apt: fstest.MapFS{}}}, map[string]string{}},
		"Apt":      {options{environment: environment{Apt: apt}}, map[string]string{"debian": "http://apt.example/debian", "debian-security": "http://apt.example/debian-security"}},
		"Flag":     {options{environment: environment{Apt: apt}, mirror: "http://flag.example/debian/"}, map[string]string{"debian": "http://flag.example/debian/", "debian-security": "http://flag.example/debian-security"}},
		"Security": {options{environment: environment{Apt: apt}, securityMirror: "http://s.example/x"}, map[string]string{"debian": "http://apt.example/debian", "debian-security": "http://s.example/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.o.mirrors()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRealMirror builds an image of the committed lock with packages of a real Debian mirror, which IMAGES_MIRROR
// names, or "machine" for the one that apt uses, and looks whether the mirror's signed lists can be read.
func TestRealMirror(t *testing.T) {
	mirror := os.Getenv("IMAGES_MIRROR")
	if mirror == "" || mirror == "machine" && len(debian.MachineMirrors(os.DirFS("/etc/apt"))) == 0 {
		t.Skip("set IMAGES_MIRROR to the address of a Debian mirror, or to machine where apt has one")
	}
	var mirrors []string
	if mirror != "machine" {
		mirrors = []string{"--mirror", mirror}
	}
	run := func(args ...string) error {
		cmd := newCommand(environment{Environ: os.Environ(), LookupEnv: os.LookupEnv, Now: time.Now(), Apt: os.DirFS("/etc/apt")})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(slices.Concat(args, []string{"--cache", t.TempDir()}, mirrors))
		return cmd.ExecuteContext(t.Context())
	}
	out := t.TempDir()
	if err := run("build", "scanner-nmap", "scanner-ncrack", "--platform", "linux/amd64", "--out", out); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"scanner-nmap", "scanner-ncrack"} {
		idx, err := layout.ImageIndexFromPath(filepath.Join(out, n))
		if err != nil {
			t.Fatal(err)
		}
		m, err := idx.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		im, err := idx.Image(m.Manifests[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		if has := contents(t, im); !strings.HasPrefix(has["usr/bin/"+strings.TrimPrefix(n, "scanner-")], "\x7fELF") {
			t.Errorf("%s has no program", n)
		}
	}
	recipes := t.TempDir()
	if err := os.CopyFS(recipes, os.DirFS("../../images")); err != nil {
		t.Fatal(err)
	}
	if err := run("lock", "scanner-nmap", "--recipes", recipes); err != nil {
		t.Error(err)
	}
}
