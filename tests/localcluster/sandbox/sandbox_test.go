// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStorageMounts(t *testing.T) {
	const table = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
24 22 254:1 / /home rw,relatime shared:2 - xfs /dev/vdb rw
25 22 254:2 / /with\040space rw - ext4 /dev/vdc rw
26 22 254:3 / /tmp/disk rw - ext4 /dev/vdd rw
27 22 0:30 / /run rw - tmpfs tmpfs rw
28 22 254:4 / /data/node/x rw - ext4 /dev/vde rw
broken line
`
	if diff := cmp.Diff([]string{"/home", "/with space"}, storageMounts(table, "/data/node")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"tool": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=/nowhere:" + dir}
	for name, c := range map[string]struct{ file, want, says string }{
		"InPath":        {"tool", filepath.Join(dir, "tool"), ""},
		"Absolute":      {filepath.Join(dir, "tool"), filepath.Join(dir, "tool"), ""},
		"NotExecutable": {"text", "", "executable file not found in $PATH"},
		"Missing":       {"/no/such", "", "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lookPath(c.file, env)
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got error %v, want one with %q", err, c.says)
			}
		})
	}
}
