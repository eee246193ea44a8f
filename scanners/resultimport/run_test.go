// SPDX-License-Identifier: Apache-2.0

package resultimport

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/resultimport"
)

// brought is a folder with the parts of a result, as ConfigMaps are mounted.
func brought(t *testing.T, text string, edit func(*resultimport.Manifest)) string {
	t.Helper()
	root := t.TempDir()
	m, parts, err := resultimport.Split(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	write := func(part int, key string, content []byte) {
		dir := filepath.Join(root, resultimport.PartDir(part))
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, key), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if edit != nil {
		edit(&m)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	write(0, resultimport.ManifestKey, raw)
	// Two parts, wherever the first one ends.
	write(0, resultimport.PartKey, parts[0][:5])
	write(1, resultimport.PartKey, parts[0][5:])
	return root
}

func TestRun(t *testing.T) {
	two := func(m *resultimport.Manifest) { m.Parts = 2 }
	for name, tc := range map[string]struct {
		reason string
		edit   func(*resultimport.Manifest)
		args   []string
		gone   bool
		err    string
	}{
		"Written":       {reason: "the parts become the result", edit: two, args: []string{"report.sarif"}},
		"PartMissing":   {reason: "half a result is none", edit: func(m *resultimport.Manifest) { m.Parts = 3 }, err: "part 3 of 3"},
		"PartForgotten": {reason: "a manifest that leaves a part out", edit: nil, err: "unexpected EOF"},
		"NoParts":       {reason: "a manifest of nothing", edit: func(m *resultimport.Manifest) { m.Parts = 0 }, err: "0 parts"},
		"OtherResult":   {reason: "somebody has changed it", edit: func(m *resultimport.Manifest) { two(m); m.SHA256 = "00" }, err: "not those of the manifest"},
		"Gone":          {reason: "the scanner is run again after the parts were removed", edit: two, gone: true, err: "Import the file again"},
		"Arguments":     {reason: "a Scan that was written by hand", edit: two, args: []string{"a", "b"}, err: "usage"},
	} {
		t.Run(name, func(t *testing.T) {
			root, file := brought(t, `{"version": "2.1.0"}`, tc.edit), filepath.Join(t.TempDir(), "result")
			if tc.gone {
				root = t.TempDir()
			}
			err := Run(root, append([]string{file}, tc.args...), io.Discard)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%s: error %v, want %q", tc.reason, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != `{"version": "2.1.0"}` {
				t.Errorf("%s: %q, %v", tc.reason, got, err)
			}
		})
	}
}
