// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/explain"
)

var update = flag.Bool("update", false, "write the expected outputs anew")

// TestOnFiles answers from the files of each folder in testdata.
func TestOnFiles(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join("testdata", "*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			files := explain.Files{
				Scan: filepath.Join(folder, "scan.yaml"), Findings: filepath.Join(folder, "findings.json"), Rules: filepath.Join(folder, "rules.yaml"),
			}
			if definition := filepath.Join(folder, "definition.yaml"); exists(definition) {
				files.ParseDefinition = definition
			}
			q, err := files.Question()
			if err != nil {
				t.Fatal(err)
			}
			e, err := explain.Explain(q)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := e.Print(&got, "yaml"); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join(folder, "output.yaml")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestSaysWhenFindingsCannotBeRead(t *testing.T) {
	scan, err := finding.DecodeValue([]byte(`{"kind":"Scan","metadata":{"name":"s","namespace":"n"},"spec":{"scanType":"nmap","cascades":{}}}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	away := errors.New("away")
	cases := map[string]struct {
		open func() (io.ReadCloser, error)
		want string
	}{
		"Away":    {func() (io.ReadCloser, error) { return nil, away }, "away"},
		"NoArray": {func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("{}")), nil }, "read findings: "},
	}
	for name, c := range cases {
		_, err := explain.Explain(explain.Question{Scan: scan.(finding.Object), Findings: c.open})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
