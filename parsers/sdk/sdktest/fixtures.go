// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
)

var update = flag.Bool("update", false, "write the findings that parsers make now as the expected ones")

// Fixtures runs one subtest per case in a folder.
func Fixtures(t *testing.T, p sdk.Parser, dir string) {
	t.Helper()
	eachCase(t, dir, func(t *testing.T, raw, stem string) { fixture(t, p, raw, stem) })
}

// Golden is Fixtures for a parser's own folder: with the test flag -update it writes what the parser makes now, to be
// read through before it is committed.
func Golden(t *testing.T, p sdk.Parser, dir string) {
	t.Helper()
	if !*update {
		Fixtures(t, p, dir)
		return
	}
	eachCase(t, dir, func(t *testing.T, raw, stem string) {
		got, failure := parseCase(t, p, raw, stem)
		write(t, stem, got, failure)
	})
}

func eachCase(t *testing.T, dir string, one func(t *testing.T, raw, stem string)) {
	t.Helper()
	raws, err := filepath.Glob(filepath.Join(dir, "*.raw.*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(raws) == 0 {
		t.Fatalf("%s holds no case", dir)
	}
	for _, raw := range raws {
		name, _, _ := strings.Cut(filepath.Base(raw), ".raw.")
		t.Run(name, func(t *testing.T) { one(t, raw, filepath.Join(dir, name)) })
	}
}

func parseCase(t *testing.T, p sdk.Parser, raw, stem string) ([]byte, error) {
	t.Helper()
	data, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(t, p, readContext(t, stem+".context.json", data))
}

func fixture(t *testing.T, p sdk.Parser, raw, stem string) {
	t.Helper()
	got, failure := parseCase(t, p, raw, stem)
	want, err := os.ReadFile(stem + ".expected.json")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(stem + ".expected-error.json"); err != nil {
			t.Fatalf("the case has neither expected findings nor an expected error: %v", err)
		}
		if failure == nil {
			t.Fatalf("parsing went well, want an error; findings:\n%s", got)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if failure != nil {
		t.Fatalf("parse: %v", failure)
	}
	if diff := cmp.Diff(decode(t, want), decode(t, got)); diff != "" {
		t.Errorf("findings differ (-want +got):\n%s", diff)
	}
	holdToKinds(t, p, got)
}

// holdToKinds checks that the parser's Kinds describe all that its findings have.
func holdToKinds(t *testing.T, p sdk.Parser, findings []byte) {
	t.Helper()
	if len(p.Kinds) == 0 {
		return // for parsers of others; the registry asks for them here
	}
	r := finding.NewReader(bytes.NewReader(findings), finding.Limits{})
	for {
		raw, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		var f finding.Finding
		if err = errors.Join(err, f.UnmarshalJSON(raw)); err != nil {
			t.Fatal(err)
		}
		if err := p.CheckFinding(&f); err != nil {
			t.Errorf("finding %d: %v", r.Count()-1, err)
		}
	}
}

// write replaces what was expected of a case.
func write(t *testing.T, stem string, got []byte, failure error) {
	t.Helper()
	name, content := stem+".expected.json", &bytes.Buffer{}
	if failure != nil {
		name = stem + ".expected-error.json"
		got = mustMarshal(t, map[string]string{"error": failure.Error()})
	}
	if err := json.Indent(content, got, "", " "); err != nil {
		t.Fatal(err)
	}
	content.WriteByte('\n')
	if err := os.WriteFile(name, content.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func readContext(t *testing.T, file string, raw []byte) Case {
	t.Helper()
	c := Case{Raw: raw}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c
	}
	if err != nil {
		t.Fatal(err)
	}
	given := struct {
		Scan json.RawMessage   `json:"scan"`
		Env  map[string]string `json:"env"`
	}{}
	if err := json.Unmarshal(data, &given); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	c.Env = given.Env
	if given.Scan != nil {
		if c.Scan, err = sdk.DecodeScan(given.Scan); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return c
}

func decode(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("decode %s: %v", data, err)
	}
	return v
}
