// SPDX-License-Identifier: Apache-2.0

package resultfile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/scanyard/scanyard/podkit/resultfile"
)

func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, path string) error
		want string // of the error; "" for none
	}{
		"File": {func(_ *testing.T, p string) error { return os.WriteFile(p, []byte("result"), 0o600) }, ""},
		"LinkInside": {func(_ *testing.T, p string) error {
			return errors.Join(os.WriteFile(p+".real", []byte("result"), 0o600), os.Symlink(filepath.Base(p)+".real", p))
		}, ""},
		"Missing":     {func(*testing.T, string) error { return nil }, "no such file"},
		"LinkOutside": {func(_ *testing.T, p string) error { return os.Symlink("/proc/self/environ", p) }, "look at"},
		"Folder":      {func(_ *testing.T, p string) error { return os.Mkdir(p, 0o700) }, "not a regular file"},
		"Pipe":        {func(_ *testing.T, p string) error { return syscall.Mkfifo(p, 0o600) }, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.xml")
			if err := c.make(t, path); err != nil {
				t.Fatal(err)
			}
			f, err := resultfile.Find(path)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, resultfile.ErrMissing) != (name == "Missing") {
					t.Fatalf("want an error with %q, got %v", c.want, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for range 2 {
				r, err := f.Open()
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(r)
				if err = errors.Join(err, r.Close()); err != nil || string(text) != "result" || f.Size != 6 || f.Modified.IsZero() {
					t.Errorf("got %q of %d bytes, %v", text, f.Size, err)
				}
			}
		})
	}
}
