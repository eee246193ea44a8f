// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/scanyard/scanyard/tests/ociregistry"
)

const version = "v0.2.0"

// maintainer is somebody with a clone of the repository, a key and a registry.
type maintainer struct {
	t                  *testing.T
	clone, key, public string
	registry           string
	bin                string
}

func newMaintainer(t *testing.T) *maintainer {
	t.Helper()
	m := &maintainer{t: t, clone: filepath.Join(t.TempDir(), "clone"), key: filepath.Join(t.TempDir(), "release.key"), bin: os.Getenv("SCANYARD_BIN")}
	if m.bin == "" {
		m.bin = filepath.Join("..", "..", "bin")
	}
	m.bin = must(filepath.Abs(m.bin))(t)
	registry := ociregistry.Start()
	t.Cleanup(registry.Close)
	m.registry = registry.Host + "/security"
	// Git keeps to what is asked of it here, whatever the machine's own settings are.
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
		"GIT_AUTHOR_NAME": "M", "GIT_AUTHOR_EMAIL": "m@example.com", "GIT_COMMITTER_NAME": "M", "GIT_COMMITTER_EMAIL": "m@example.com",
	} {
		t.Setenv(name, value)
	}
	m.copyRepository()
	run(t, ".", "openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", m.key)
	m.public = m.key + ".pub"
	run(t, ".", "openssl", "pkey", "-in", m.key, "-pubout", "-out", m.public)
	return m
}

// copyRepository makes a repository of the files here, with what is not committed yet.
func (m *maintainer) copyRepository() {
	m.t.Helper()
	root := run(m.t, ".", "git", "rev-parse", "--show-toplevel")
	list := run(m.t, root, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for file := range strings.SplitSeq(strings.Trim(list, "\x00"), "\x00") {
		from, to := filepath.Join(root, file), filepath.Join(m.clone, file)
		info, err := os.Lstat(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is deleted, and that is not committed yet
		}
		check(m.t, err)
		check(m.t, os.MkdirAll(filepath.Dir(to), 0o755))
		if info.Mode()&fs.ModeSymlink != 0 {
			check(m.t, os.Symlink(must(os.Readlink(from))(m.t), to))
			continue
		}
		check(m.t, os.WriteFile(to, must(os.ReadFile(from))(m.t), info.Mode().Perm()))
	}
	run(m.t, m.clone, "git", "init", "--quiet", "-b", "main")
	run(m.t, m.clone, "git", "add", "--all")
	run(m.t, m.clone, "git", "commit", "--quiet", "-m", "all")
}

// release runs the program, and returns what it has said.
func (m *maintainer) release(dist string, args ...string) (string, error) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), filepath.Join(m.bin, "release"),
		append([]string{"--version", version, "--root", m.clone, "--dist", dist, "--key", m.key}, args...)...)
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// TestRelease makes a release of one platform with one image and two charts: of a program of ours, and of a scanner.
func TestRelease(t *testing.T) {
	m := newMaintainer(t)
	small := []string{"--platforms", "linux/amd64", "--charts", "scanyard,nmap", "--registry", m.registry, "--images"}
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")

	said, err := m.release(first, append(small, "operator", "--dry-run")...)
	if err != nil || !strings.Contains(said, "push and sign 1 images and 2 charts to "+m.registry) {
		t.Fatalf("dry run: %v\n%s", err, said)
	}
	if _, err := os.Stat(first); err == nil || run(t, m.clone, "git", "status", "--porcelain") != "" {
		t.Fatal("the dry run has left something behind")
	}
	if said, err := m.release(first, append(small, "operator")...); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	commit := run(t, m.clone, "git", "rev-parse", "HEAD")
	if tagged := run(t, m.clone, "git", "rev-parse", version+"^{commit}"); tagged != commit {
		t.Errorf("the tag names %s, and the commit is %s", tagged, commit)
	}
	dist := filepath.Join(first, version)
	run(t, dist, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	m.verify(filepath.Join(dist, "SHA256SUMS"), string(read(t, filepath.Join(dist, "SHA256SUMS.sig"))))
	if got := strings.TrimSpace(run(t, dist, "cat", "cosign.pub")); got != strings.TrimSpace(string(read(t, m.public))) {
		t.Errorf("cosign.pub is %s", got)
	}
	notes := string(read(t, filepath.Join(dist, "RELEASE_NOTES.md")))
	if !strings.HasPrefix(notes, "# Scanyard 0.2.0\n") || !strings.Contains(notes, "### Added") {
		t.Errorf("release notes: %.200s", notes)
	}
	m.checkProgram(dist, commit)
	m.checkImage(dist, commit)
	m.checkCharts()

	// Images are built twice by the tests of scanners/cmd/images.
	t.Run("Again", func(t *testing.T) {
		if said, err := m.release(second, append(small, "none")...); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		if diff := cmp.Diff(contents(t, first), contents(t, second)); diff != "" {
			t.Errorf("the same commit gives other bytes: %.2000s", diff)
		}
	})
	t.Run("Refused", m.refused)
}

// verify holds a signature against the public key, as openssl does it.
func (m *maintainer) verify(file, signature string) {
	m.t.Helper()
	raw := must(base64.StdEncoding.DecodeString(strings.TrimSpace(signature)))(m.t)
	at := filepath.Join(m.t.TempDir(), "signature")
	check(m.t, os.WriteFile(at, raw, 0o600))
	run(m.t, ".", "openssl", "dgst", "-sha256", "-verify", m.public, "-signature", at, file)
}

// checkProgram unpacks the command line, and asks it, under each of its names, which build it is.
func (m *maintainer) checkProgram(dist, commit string) {
	m.t.Helper()
	folder := m.t.TempDir()
	run(m.t, folder, "tar", "-xzf", filepath.Join(dist, "scanyard_0.2.0_linux_amd64.tar.gz"))
	for _, program := range []string{"scanyard", "kubectl-scanyard"} {
		said := run(m.t, folder, "./"+program, "version", "--client")
		if !strings.HasPrefix(said, "scanyard "+version+" ("+commit) {
			m.t.Errorf("%s says %q", program, said)
		}
	}
	for _, file := range []string{"LICENSE", "man/man1/scanyard-scan.1"} {
		if _, err := os.Stat(filepath.Join(folder, file)); err != nil {
			m.t.Error(err)
		}
	}
	var list struct {
		Metadata struct {
			Component struct{ Name, Version, Type string }
		}
		Components []struct{ Name string }
	}
	check(m.t, json.Unmarshal(read(m.t, filepath.Join(dist, "scanyard_0.2.0_linux_amd64.cdx.json")), &list))
	if c := list.Metadata.Component; c.Name != "scanyard" || c.Version != version || c.Type != "application" || len(list.Components) < 50 {
		m.t.Errorf("the SBOM is about %v and has %d components", c, len(list.Components))
	}
}

// checkImage pulls the image, and holds what its labels and its program say, its SBOM and its signature.
func (m *maintainer) checkImage(dist, commit string) {
	m.t.Helper()
	tag := must(name.NewTag(m.registry + "/operator:0.2.0"))(m.t)
	img := must(remote.Image(tag))(m.t)
	labels := must(img.ConfigFile())(m.t).Config.Labels
	date := strings.TrimSpace(run(m.t, m.clone, "git", "log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%cd"))
	for label, want := range map[string]string{"version": version, "revision": commit, "created": date} {
		if got := labels["org.opencontainers.image."+label]; got != want {
			m.t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	program := filepath.Join(m.t.TempDir(), "operator")
	check(m.t, os.WriteFile(program, inside(m.t, img, "operator"), 0o700))
	if said := run(m.t, ".", program, "--version"); said != version {
		m.t.Errorf("the operator says %q", said)
	}
	digest := must(img.Digest())(m.t)
	if !strings.Contains(string(read(m.t, filepath.Join(dist, "digests.txt"))), tag.Name()+"@"+digest.String()+"\n") {
		m.t.Error("digests.txt does not name the image")
	}
	if referrers := must(must(remote.Referrers(tag.Digest(digest.String())))(m.t).IndexManifest())(m.t); len(referrers.Manifests) != 1 {
		m.t.Errorf("the image has %d documents, want its SBOM", len(referrers.Manifests))
	}
	m.checkSignature(tag.Context(), digest)
}

// checkSignature finds a signature where cosign looks for it.
func (m *maintainer) checkSignature(repository name.Repository, digest v1.Hash) {
	m.t.Helper()
	signed := must(remote.Image(repository.Tag(digest.Algorithm + "-" + digest.Hex + ".sig")))(m.t)
	layer := must(signed.Manifest())(m.t).Layers[0]
	if layer.MediaType != "application/vnd.dev.cosign.simplesigning.v1+json" {
		m.t.Errorf("the signature's payload is %s", layer.MediaType)
	}
	payload := must(io.ReadAll(must(must(signed.LayerByDigest(layer.Digest))(m.t).Uncompressed())(m.t)))(m.t)
	if !strings.Contains(string(payload), `"docker-manifest-digest":"`+digest.String()+`"`) {
		m.t.Errorf("what is signed is %s", payload)
	}
	file := filepath.Join(m.t.TempDir(), "payload")
	check(m.t, os.WriteFile(file, payload, 0o600))
	m.verify(file, layer.Annotations["dev.cosignproject.cosign/signature"])
}

// checkCharts has Helm pull the charts and render them.
func (m *maintainer) checkCharts() {
	m.t.Helper()
	helm := os.Getenv("HELM")
	if helm == "" {
		helm = filepath.Join(m.bin, "tools", "helm")
	}
	for _, home := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		m.t.Setenv(home, m.t.TempDir())
	}
	for chart, wants := range map[string][]string{
		"scanyard": {"image: \"" + m.registry + "/operator:0.2.0\"", m.registry + "/lurker:0.2.0", "app.kubernetes.io/version: \"0.2.0\""},
		// The parser is still known as one of ours.
		"nmap": {m.registry + "/parser:0.2.0", "docker.io/securecodebox/scanner-nmap:7.99-r0", "scanAccess: Handover"},
	} {
		rendered := run(m.t, ".", helm, "template", "x", "oci://"+m.registry+"/charts/"+chart, "--version", "0.2.0", "--plain-http")
		for _, want := range wants {
			if !strings.Contains(rendered, want) {
				m.t.Errorf("chart %s does not render %s", chart, want)
			}
		}
		folder := m.t.TempDir()
		run(m.t, folder, helm, "pull", "oci://"+m.registry+"/charts/"+chart, "--version", "0.2.0", "--plain-http")
		run(m.t, folder, helm, "lint", "--strict", chart+"-0.2.0.tgz")
		repository := must(name.NewRepository(m.registry + "/charts/" + chart))(m.t)
		m.checkSignature(repository, must(remote.Head(repository.Tag("0.2.0")))(m.t).Digest)
	}
}

// refused are releases that cannot be: each is told before anything is built.
func (m *maintainer) refused(t *testing.T) {
	dist := filepath.Join(t.TempDir(), "dist")
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"version", []string{"--version", "0.3"}, "semantic version"},
		{"key", []string{"--key", filepath.Join(dist, "no.key")}, "no such file"},
		{"public key", []string{"--key", m.public}, "must be a private key"},
		{"registry", []string{"--registry", "127.0.0.1:1/security"}, "does not let push security/"},
		{"changelog", []string{"--version", "v0.3.0"}, "there is nothing to release"},
		{"dirty", nil, "differs from the commit: README.md"},
	} {
		if tc.name == "dirty" {
			check(t, os.WriteFile(filepath.Join(m.clone, "README.md"), []byte("changed"), 0o600))
		}
		said, err := m.release(dist, tc.args...)
		if err == nil || !strings.Contains(said, tc.want) || strings.Contains(said, "[1/") {
			t.Errorf("%s: %v, want %q in it:\n%s", tc.name, err, tc.want, said)
		}
	}
	if _, err := os.Stat(dist); err == nil {
		t.Error("something was made")
	}
}

// inside returns a file of an image.
func inside(t *testing.T, img v1.Image, file string) []byte {
	t.Helper()
	all := mutate.Extract(img)
	defer all.Close()
	for r := tar.NewReader(all); ; {
		h, err := r.Next()
		check(t, err)
		if strings.Trim(h.Name, "./") == file {
			return must(io.ReadAll(r))(t)
		}
	}
}

// contents are the checksums of the files of a release, without those of images and of what names them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(string(read(t, filepath.Join(dir, version, "SHA256SUMS")))) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if !strings.HasPrefix(file, "images/") && file != "digests.txt" {
			all[file] = sum
		}
	}
	return all
}

// run runs a program to its end, and returns what it has said on standard output, without spaces around.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TZ=UTC")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out.Bytes(), said.Bytes())
	}
	return strings.TrimSpace(out.String())
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	return must(os.ReadFile(file))(t)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns what a call has returned, or ends the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}
