// SPDX-License-Identifier: Apache-2.0

package chromium

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"chromium", "mine"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, row := range map[string]struct{ path, named, want, err string }{
		"in PATH":           {path: folder, want: filepath.Join(folder, "chromium")},
		"named":             {path: folder, named: filepath.Join(folder, "mine"), want: filepath.Join(folder, "mine")},
		"named, not there":  {path: folder, named: filepath.Join(folder, "gone"), err: "as CHROMIUM names it"},
		"none":              {path: t.TempDir(), err: `run "make test-tools"`},
		"named, none there": {path: t.TempDir(), named: "chromium", err: "as CHROMIUM names it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", row.path)
			t.Setenv("CHROMIUM", row.named)
			got, err := Find()
			if got != row.want || (err != nil) != (row.err != "") {
				t.Fatalf("%q, %v", got, err)
			}
			if err != nil && (!errors.Is(err, ErrNone) || !strings.Contains(err.Error(), row.err)) {
				t.Error(err)
			}
		})
	}
}
