// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	corev1 "k8s.io/api/core/v1"
)

const imageName = "example.com/hello:1"

// writeImage packs this very program, a static one, into an image.
func writeImage(folder string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	files := []struct {
		header tar.Header
		data   []byte
	}{
		{tar.Header{Name: "hello", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))}, program},
		{tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644, Size: 27}, []byte("scan:x:4242:4243::/home:/x\n")},
		// As in Debian: the token's mount point goes through an absolute link.
		{tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, nil},
		{tar.Header{Name: "run/", Typeflag: tar.TypeDir, Mode: 0o755}, nil},
		{tar.Header{Name: "var/run", Typeflag: tar.TypeSymlink, Linkname: "/run"}, nil},
	}
	for _, f := range files {
		if err := w.WriteHeader(&f.header); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		return err
	}
	im, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	im, err = mutate.Config(im, v1.Config{Entrypoint: []string{"/hello"}, Cmd: []string{inImage}, User: "scan"})
	if err != nil {
		return err
	}
	tag, err := name.NewTag(imageName)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return tarball.WriteToFile(filepath.Join(folder, "hello.tar"), tag, im)
}

func TestImageFromAnArchive(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	before, err := os.ReadDir("/run")
	if err != nil {
		t.Fatal(err)
	}
	out, done := output(t, k, newPod(ns, "hi", corev1.Container{Name: "c", Image: imageName}))
	if out != "hello from hi as 4242, error <nil>\n" || done.Status.Phase != corev1.PodSucceeded {
		t.Errorf("got phase %s and %q", done.Status.Phase, out)
	}
	after, err := os.ReadDir("/run")
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before) {
		t.Errorf("the container's mounts reached /run of the machine: %d entries before, %d after", len(before), len(after))
	}
}
