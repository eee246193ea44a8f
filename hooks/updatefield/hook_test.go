// SPDX-License-Identifier: Apache-2.0

package updatefield

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

type fixture struct {
	AttributeName  string          `json:"attributeName"`
	AttributeValue string          `json:"attributeValue"`
	Findings       json.RawMessage `json:"findings"`
	Expected       struct {
		Updated  bool            `json:"updated"`
		Findings json.RawMessage `json:"findings"`
	} `json:"expected"`
}

func TestFixtureUpdateField(t *testing.T) {
	sdktest.Cases(t, "update-field", func(t *testing.T, c fixture) {
		w := sdktest.New(t)
		w.Objects["/findings.json"] = c.Findings
		got := w.Run(t, Hook(), map[string]string{"ATTRIBUTE_NAME": c.AttributeName, "ATTRIBUTE_VALUE": c.AttributeValue})
		var put []byte
		for _, o := range got.Operations {
			if o.Method == http.MethodPut {
				put = o.Body
			}
		}
		if updated := put != nil; updated != c.Expected.Updated {
			t.Fatalf("written back: %t, want %t: %s", updated, c.Expected.Updated, got.Stderr)
		}
		if diff := cmp.Diff(sdktest.JSON(t, c.Expected.Findings), sdktest.JSON(t, put)); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
	})
}

func TestHookFromArgumentsToStatus(t *testing.T) {
	w := sdktest.New(t)
	w.Scan = strings.Replace(w.Scan, `"state":"HookProcessing"`,
		`"state":"HookProcessing","findings":{"count":2,"categories":{"Open Port":1,"Host":1,"mine":7}}`, 1)
	w.Objects["/findings.json"] = []byte(`[{"id":"1","name":"a","category":"Open Port","severity":"low","n":1e400},
 {"id":"2","name":"b","category":"Host","severity":"INFORMATIONAL"}]`)
	got := w.Run(t, Hook(), map[string]string{"ATTRIBUTE_NAME": "category", "ATTRIBUTE_VALUE": "mine"})
	if got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	findings := `[{"id":"1","name":"a","category":"mine","severity":"low","n":1e400},{"id":"2","name":"b","category":"mine","severity":"INFORMATIONAL"}]`
	patch := `{"status":{"findings":{"count":2,"severities":{"informational":1,"low":1,"medium":0,"high":0},"categories":{"Host":null,"Open Port":null,"mine":2}}}}`
	scan := "/apis/execution.securecodebox.io/v1/namespaces/ns/scans/nmap-x"
	want := []sdktest.Operation{
		{Method: "GET", Path: scan, Body: []byte{}},
		{Method: "PUT", Path: "/put-findings.json", Length: int64(len(findings)), Body: []byte(findings)},
		{Method: "PATCH", Path: scan + "/status", ContentType: "application/merge-patch+json", Length: int64(len(patch)), Body: []byte(patch)},
	}
	if diff := cmp.Diff(want, got.Operations, cmp.Transformer("text", func(b []byte) string { return string(b) })); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

func TestHookRefusals(t *testing.T) {
	cases := map[string]struct {
		env  map[string]string
		want string
	}{
		"NameMissing":  {map[string]string{"ATTRIBUTE_VALUE": "x"}, "ATTRIBUTE_NAME is not set"},
		"ValueMissing": {map[string]string{"ATTRIBUTE_NAME": "x"}, "ATTRIBUTE_VALUE is not set"},
		"NameTooDeep":  {map[string]string{"ATTRIBUTE_NAME": strings.Repeat("a.", 80), "ATTRIBUTE_VALUE": "x"}, "81 levels"},
		"IndexTooHigh": {map[string]string{"ATTRIBUTE_NAME": "list[123456]", "ATTRIBUTE_VALUE": "x"}, "finding 0: set list[123456]: list element 123456"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Objects["/findings.json"] = []byte(`[{"severity":"LOW"}]`)
			got := w.Run(t, Hook(), c.env)
			if got.ExitCode == 0 || !strings.Contains(got.Stderr, c.want) {
				t.Errorf("exit code %d, stderr %q, want 1 and %q", got.ExitCode, got.Stderr, c.want)
			}
			for _, o := range got.Operations {
				if o.Method != http.MethodGet {
					t.Errorf("%s %s was sent", o.Method, o.Path)
				}
			}
		})
	}
}

func TestHookIsRefusedAsReadOnly(t *testing.T) {
	w := sdktest.New(t)
	env := sdktest.Env(map[string]string{"ATTRIBUTE_NAME": "a", "ATTRIBUTE_VALUE": "b"})
	got := w.RunArgs(t, Hook(), env, w.URLs("/raw", "/findings.json"))
	if got.ExitCode == 0 || !strings.Contains(got.Stderr, "set spec.type of its ScanCompletionHook to ReadAndWrite") {
		t.Errorf("exit code %d, stderr %q", got.ExitCode, got.Stderr)
	}
}
