// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestFind(t *testing.T) {
	m, err := ParseMap([]byte(`
images:
- image: "docker.io/securecodebox/scanner-nmap:*"
  cmd: [a]
- image: busybox
  cmd: [b]
- image: "example.com/*/parser-*:1.*"
  cmd: [c]
`), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ image, want string }{
		"Tag":           {"docker.io/securecodebox/scanner-nmap:7.99", "a"},
		"ImpliedHost":   {"securecodebox/scanner-nmap:7.99", "a"},
		"ImpliedTag":    {"securecodebox/scanner-nmap", "a"},
		"OtherName":     {"securecodebox/scanner-nmap2:1", ""},
		"OtherHost":     {"ghcr.io/securecodebox/scanner-nmap:1", ""},
		"NoTagMeansAny": {"busybox:1.36", "b"},
		"Digest":        {"busybox@sha256:" + strings.Repeat("a", 64), "b"},
		"Library":       {"docker.io/library/busybox", "b"},
		"TwoStars":      {"example.com/a/b/parser-nmap:1.2", "c"},
		"WrongTag":      {"example.com/a/parser-nmap:2.0", ""},
		"NotAName":      {"NOT A NAME", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if e := m.Find(c.image); e != nil {
				got = e.Cmd[0]
			}
			if got != c.want {
				t.Errorf("got entry %q, want %q", got, c.want)
			}
		})
	}
	if (*Map)(nil).Find("busybox") != nil {
		t.Error("no map found something")
	}
}

func TestParseMap(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ yaml, says string }{
		"BareList":       {"- image: a\n", ""},
		"RelativeBinary": {"- image: a\n  binaries: {/bin/tool: tool}\n", ""},
		"UnknownField":   {"- image: a\n  imgae: b\n", "imgae"},
		"NoImage":        {"- root: host\n", "entry 1 (): image is missing"},
		"NoSuchRoot":     {"- image: a\n  root: nowhere\n", "is not a directory"},
		"NoSuchBinary":   {"- image: a\n  binaries: {/bin/tool: nothing}\n", "no such file"},
		"RelativeTarget": {"- image: a\n  binaries: {tool: tool}\n", "not an absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ParseMap([]byte(c.yaml), dir)
			if c.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				if e := m.Images[0]; e.Root != RootHost || e.User != "1001:1001" {
					t.Errorf("defaults: got %+v", e)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an error with %q", err, c.says)
			}
		})
	}
}

// image makes a one-layer image with a file, a link and a name that tries to
// leave the root.
func image(t *testing.T) v1.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "bin/tool", Typeflag: tar.TypeReg, Mode: 0o755, Size: 2},
		{Name: "bin/link", Typeflag: tar.TypeSymlink, Linkname: "tool"},
		{Name: "../../escaped", Typeflag: tar.TypeReg, Mode: 0o644, Size: 2},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte("hi")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	im, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	im, err = mutate.Config(im, v1.Config{Entrypoint: []string{"/bin/tool"}, User: "7:8", WorkingDir: "/w", Env: []string{"A=b"}})
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func TestStoreUnpacksArchivesAndLayouts(t *testing.T) {
	folder, unpack := t.TempDir(), t.TempDir()
	im := image(t)
	tag, err := name.NewTag("example.com/tool:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(filepath.Join(folder, "tool.tar"), tag, im); err != nil {
		t.Fatal(err)
	}
	l, err := layout.Write(filepath.Join(folder, "layout"), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.AppendImage(im, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "other:2"})); err != nil {
		t.Fatal(err)
	}
	s := NewStore(nil, folder, unpack)
	for _, ref := range []string{"example.com/tool:1", "docker.io/library/other:2"} {
		got, err := s.Get(ref)
		if err != nil {
			t.Fatal(err)
		}
		want := &Image{ID: got.ID, Root: got.Root, Entrypoint: []string{"/bin/tool"}, User: "7:8", WorkingDir: "/w", Env: []string{"A=b"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", ref, diff)
		}
		for _, f := range []string{"bin/tool", "bin/link"} {
			if b, err := os.ReadFile(filepath.Join(got.Root, f)); err != nil || string(b) != "hi" {
				t.Errorf("%s: %s: %q, %v", ref, f, b, err)
			}
		}
		for _, dir := range []string{"..", "../.."} {
			if _, err := os.Lstat(filepath.Join(got.Root, dir, "escaped")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: a file of the image lies outside of its root: %v", ref, err)
			}
		}
	}
	if dirs, err := os.ReadDir(unpack); err != nil || len(dirs) != 1 {
		t.Errorf("unpacked %d times (%v), want once per digest", len(dirs), err)
	}
	if _, err := s.Get("example.com/none:1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if _, err := NewStore(nil, "", unpack).Get("x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestStoreTakesTheImageOfThisPlatform(t *testing.T) {
	folder, unpack := t.TempDir(), t.TempDir()
	im := image(t)
	write := func(tag string, platforms ...v1.Platform) {
		t.Helper()
		idx := v1.ImageIndex(empty.Index)
		for _, p := range platforms {
			idx = mutate.AppendManifests(idx, mutate.IndexAddendum{Add: im, Descriptor: v1.Descriptor{Platform: &p}})
		}
		l, err := layout.Write(filepath.Join(folder, tag), empty.Index)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.AppendIndex(idx, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "example.com/tool:" + tag})); err != nil {
			t.Fatal(err)
		}
	}
	write("many", v1.Platform{OS: "linux", Architecture: "other"}, v1.Platform{OS: "linux", Architecture: runtime.GOARCH})
	write("foreign", v1.Platform{OS: "linux", Architecture: "other"})
	s := NewStore(nil, folder, unpack)
	if got, err := s.Get("example.com/tool:many"); err != nil || got.User != "7:8" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := s.Get("example.com/tool:foreign"); err == nil || !strings.Contains(err.Error(), "it is for linux/other, and not for linux/"+runtime.GOARCH) {
		t.Errorf("got %v, want an error with both platforms", err)
	}
}

// TestIDsHaveDigests: an image is told as runtimes tell it, also where it is a program of this machine: discoveries cut
// the digest out of it.
func TestIDsHaveDigests(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(program, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	pinned := "sha256:" + strings.Repeat("ab", 32)
	s := NewStore(&Map{Images: []Entry{{Image: "*", Binaries: map[string]string{"/tool": program}}}}, "", "")
	id := func(image string) string {
		t.Helper()
		im, err := s.Get(image)
		if err != nil {
			t.Fatal(err)
		}
		return im.ID
	}
	for image, repository := range map[string]string{
		"nginx": "docker.io/library/nginx", "team/app:1": "docker.io/team/app", "r.example.com:5000/a/b:1": "r.example.com:5000/a/b",
	} {
		if got := id(image); !regexp.MustCompile("^" + regexp.QuoteMeta(repository) + "@sha256:[0-9a-f]{64}$").MatchString(got) {
			t.Errorf("%s is %s", image, got)
		}
	}
	if got, want := id("r.example.com/team@"+pinned), "r.example.com/team@"+pinned; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	before := id("nginx")
	if again := id("nginx"); again != before {
		t.Errorf("%s and %s", before, again)
	}
	if err := os.WriteFile(program, []byte("built anew"), 0o600); err != nil {
		t.Fatal(err)
	}
	if after := id("nginx"); after == before {
		t.Error("another program has the same digest")
	}
}
