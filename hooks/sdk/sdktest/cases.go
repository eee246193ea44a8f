// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Cases runs a test for every case of a feature: the JSON files of that folder below the one that the environment
// variable FIXTURES names, or below the copies in this module.
func Cases[Case any](t *testing.T, feature string, test func(t *testing.T, c Case)) {
	t.Helper()
	root := os.Getenv("FIXTURES")
	if root == "" {
		root = filepath.Join("..", "testdata", "fixtures")
	}
	files, err := filepath.Glob(filepath.Join(root, feature, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no cases in %s", filepath.Join(root, feature))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c struct {
			Name string `json:"name"`
		}
		var whole Case
		for _, into := range []any{&c, &whole} {
			if err := json.Unmarshal(text, into); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json")+" "+c.Name, func(t *testing.T) { test(t, whole) })
	}
}

// JSON decodes a document for comparison.
func JSON(t testing.TB, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%.200q is not JSON: %v", text, err)
	}
	return v
}
