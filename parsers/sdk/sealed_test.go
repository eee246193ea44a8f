// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
)

// encoded is a finding with one attribute, as it is written with its stamp.
func encoded(t *testing.T, v any) map[string]any {
	t.Helper()
	f := valid()
	f.Attributes = finding.Object{{Key: "rule", Value: "r"}, {Key: "secret", Value: v}}
	before := finding.Object{{Key: "rule", Value: "r"}, {Key: "secret", Value: v}}
	var out bytes.Buffer
	e := sdk.NewEncoder(&out, parser, info, time.Unix(0, 0))
	if err := errors.Join(e.Emit(f), e.Close(), e.Strict()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, f.Attributes); diff != "" {
		t.Errorf("the parser's finding was changed (-want +got):\n%s", diff)
	}
	var got []map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func TestSealed(t *testing.T) {
	one, other := encoded(t, sdk.Sealed("o\n\"e")), encoded(t, sdk.Sealed("other"))
	if diff := cmp.Diff(map[string]any{"rule": "r", "secret": "o\n\"e"}, one["attributes"]); diff != "" {
		t.Errorf("attributes differ (-want +got):\n%s", diff)
	}
	if one["id"] != other["id"] || one["fingerprint"] != other["fingerprint"] {
		t.Errorf("what is sealed shows in the id: %v, %v", one, other)
	}
	absent := encoded(t, finding.Text{})
	if one["id"] != absent["id"] {
		t.Errorf("the id is not that of the finding without what is sealed: %v, %v", one["id"], absent["id"])
	}
	if plain := encoded(t, "other"); plain["id"] == other["id"] {
		t.Error("a text that is not sealed does not show in the id")
	}
}
