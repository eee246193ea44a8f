// SPDX-License-Identifier: Apache-2.0

package buildinfo

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLinked builds a program as releases are built, and asks it.
func TestLinked(t *testing.T) {
	folder := t.TempDir()
	main := "package main\n\nimport \"github.com/scanyard/scanyard/apis/buildinfo\"\n\nfunc main() { print(buildinfo.Version(), \" \", buildinfo.Commit()) }\n"
	source := filepath.Join(folder, "main.go")
	if err := os.WriteFile(source, []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	const here = "github.com/scanyard/scanyard/apis/buildinfo"
	for _, tc := range []struct{ name, flags, want string }{
		{"release", "-X " + here + ".version=v1.2.3 -X " + here + ".commit=0123abc", "v1.2.3 0123abc"},
		{"developer's", "", "devel "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "go", "run", "-buildvcs=false", "-ldflags", tc.flags, source).CombinedOutput()
			if err != nil || string(out) != tc.want {
				t.Errorf("the program says %q (%v), want %q", out, err, tc.want)
			}
		})
	}
}
