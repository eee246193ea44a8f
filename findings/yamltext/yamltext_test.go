// SPDX-License-Identifier: Apache-2.0

package yamltext_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v2"

	"github.com/scanyard/scanyard/findings/report/reporttest"
	"github.com/scanyard/scanyard/findings/yamltext"
)

func TestOf(t *testing.T) {
	got, err := yamltext.Of([]byte(`{"b":[1,true,null,{"c":"x\ny"}],"a":443}`))
	want := "a: 443\nb:\n- 1\n- true\n- null\n- c: |-\n    x\n    y\n"
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := yamltext.Of([]byte(`{`)); err == nil {
		t.Error("half a value is taken")
	}
}

// TestNothingIsLost reads back texts that mean something to terminals, YAML or browsers.
func TestNothingIsLost(t *testing.T) {
	for _, text := range append([]string{"a\u0085b", "\ufeffa", "a\x7f", "\u009b", "yes", "~", "- a", "a: b", "0x1f", " a ", "#", "\r\n"}, reporttest.HostileTexts...) {
		quoted, err := json.Marshal(map[string]any{"k": text})
		if err != nil {
			t.Fatal(err)
		}
		item, err := yamltext.Item(quoted)
		if err != nil {
			t.Fatal(err)
		}
		var back []map[string]any
		if err := yaml.Unmarshal(item, &back); err != nil || len(back) != 1 || back[0]["k"] != text {
			t.Errorf("%q became %q, %v", text, item, err)
		}
	}
}
