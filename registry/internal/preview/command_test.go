// SPDX-License-Identifier: Apache-2.0

package preview_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/preview"
)

// run writes files of these contents, calls the command and gives its exit code, its document and its error. "-" in a content's
// place is standard input.
func run(t *testing.T, in string, flags map[string]string) (code int, document map[string]any, said string) {
	t.Helper()
	directory := t.TempDir()
	var arguments []string
	for flag, content := range flags {
		name := content
		if content != "-" && content != "none" {
			name = filepath.Join(directory, flag)
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		arguments = append(arguments, "--"+flag, name)
	}
	var out, errs bytes.Buffer
	command := preview.New(preview.Streams{In: strings.NewReader(in), Out: &out, Err: &errs, Now: func() time.Time { return time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC) }})
	command.SetArgs(arguments)
	err := command.Execute()
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &document); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
	}
	return preview.ExitCode(err), document, fmt.Sprint(err)
}

func TestFilter(t *testing.T) {
	tags := `{"registry":"registry.example.com","repository":"ops/db","now":"2025-09-01T00:00:00Z",
		"tags":[{"tag":"prod","created":"2019-01-01T00:00:00Z","platforms":["linux/arm"]},{"tag":"main","created":"nonsense"}]}`
	code, document, said := run(t, tags, map[string]string{"filter": "repositories: [\"ops/*:prod\"]\ntags: {newest: 1}\n", "tags": "-"})
	if code != 0 || said != "<nil>" {
		t.Fatal(code, said)
	}
	got, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"platforms":{"prod":["linux/arm/v7"]},"repositorySelected":true,"selected":["prod"],"skipped":{"main":"NotListed"},"warnings":[]}`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestManifests(t *testing.T) {
	body := `{"schemaVersion":1}`
	sum := sha256.Sum256([]byte(body))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	input, err := json.Marshal(map[string]any{"digest": digest, "documents": map[string]any{digest: map[string]string{"contentType": "application/json", "body": body}}})
	if err != nil {
		t.Fatal(err)
	}
	code, document, said := run(t, string(input), map[string]string{"manifests": "-"})
	got, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"images":[],"skipped":[{"digest":"` + digest + `","reason":"SchemaVersion1"}],"warnings":[{"code":"SchemaVersion1","count":1}]}`
	if code != 0 || string(got) != want {
		t.Errorf("%d %s\ngot  %s\nwant %s", code, said, got, want)
	}
}

func TestExitCodes(t *testing.T) {
	for name, test := range map[string]struct {
		flags  map[string]string
		code   int
		said   string
		codeOf string
	}{
		"FilterRefused":    {map[string]string{"filter": "tags: {maxAge: 2y}", "tags": "{}"}, 1, "tags.maxAge", "DurationInvalid"},
		"ExpressionFailed": {map[string]string{"filter": "tags: {expression: 'semver(tag).major() > 1', onError: Fail}", "tags": `{"tags":[{"tag":"tip"}]}`}, 1, "tags.expression", "ExpressionError"},
		"UnknownKey":       {map[string]string{"filter": "tags: {newst: 1}", "tags": "{}"}, 2, "tags.newst", ""},
		"UnknownValue":     {map[string]string{"filter": "tags: {newestBy: Size}", "tags": "{}"}, 2, "tags.newestBy", ""},
		"UnknownOnError":   {map[string]string{"filter": "rules: [{name: a, repositories: [x], tags: {onError: Ask}}]", "tags": "{}"}, 2, "rules[0].tags.onError", ""},
		"NoPlatform":       {map[string]string{"filter": "platforms: [linux]", "tags": "{}"}, 2, "platforms[0]", ""},
		"NoFile":           {map[string]string{"filter": "none", "tags": "{}"}, 2, "none", ""},
		"NoJSON":           {map[string]string{"filter": "{}", "tags": "["}, 2, "tags", ""},
		"TagMissing":       {map[string]string{"filter": "{}", "tags": `{"tags":[{"tag":"a"},{}]}`}, 2, "tags[1].tag", ""},
		"BadNow":           {map[string]string{"filter": "{}", "tags": `{"now":"today"}`}, 2, "tags", ""},
		"TwoTimesInput":    {map[string]string{"filter": "-", "tags": "-"}, 2, "--filter and --tags", ""},
		"TopMissing":       {map[string]string{"manifests": "{}"}, 2, "digest is missing", ""},
		"OnlyFilter":       {map[string]string{"filter": "{}"}, 2, "tags", ""},
		"Nothing":          {nil, 2, "filter manifests", ""},
		"Both":             {map[string]string{"filter": "{}", "tags": "{}", "manifests": "{}"}, 2, "manifests", ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, document, said := run(t, "", test.flags)
			if code != test.code || !strings.Contains(said, test.said) {
				t.Errorf("%d: %s", code, said)
			}
			if test.codeOf == "" {
				if document != nil {
					t.Errorf("an answer was printed: %v", document)
				}
				return
			}
			if failure, ok := document["error"].(map[string]any); !ok || failure["code"] != test.codeOf {
				t.Errorf("got %v", document)
			}
		})
	}
}
