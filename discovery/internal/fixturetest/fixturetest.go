// SPDX-License-Identifier: Apache-2.0

// Package fixturetest reads the cases of tests that hold this module against secureCodeBox's auto-discovery.
package fixturetest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Cases returns the cases in a folder of fixtures, by the names of their files. The fixtures are those in testdata of the package under test,
// or those of the directory that the variable FIXTURES names.
func Cases[T any](t *testing.T, folder string) map[string]T {
	t.Helper()
	root := os.Getenv("FIXTURES")
	if root == "" {
		root = filepath.Join("testdata", "fixtures")
	}
	files, err := filepath.Glob(filepath.Join(root, folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", root, err)
	}
	cases := map[string]T{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c T
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		cases[strings.TrimSuffix(filepath.Base(file), ".json")] = c
	}
	return cases
}
