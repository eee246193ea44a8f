// SPDX-License-Identifier: Apache-2.0

package testscan

import (
	"encoding/json"
	"testing"

	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

func TestInvalidFinding(t *testing.T) {
	raw, err := sdktest.Parse(t, Parser(), sdktest.Case{Env: map[string]string{invalidFindings: "true"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0]["name"] != nil || got[0]["category"] != nil || got[0]["severity"] != "INFORMATIONAL" {
		t.Errorf("got %s", raw)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}
