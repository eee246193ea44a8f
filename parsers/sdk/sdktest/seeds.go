// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"os"
	"path/filepath"
	"testing"
)

// Seeds gives a fuzz test the raw results of a folder of cases to begin with.
func Seeds(f *testing.F, dir string) {
	f.Helper()
	raws, err := filepath.Glob(filepath.Join(dir, "*.raw.*"))
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range raws {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
}
