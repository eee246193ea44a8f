// SPDX-License-Identifier: Apache-2.0

package ecma_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

func TestTruthy(t *testing.T) {
	for _, v := range []any{nil, false, 0.0, math.Copysign(0, -1), math.NaN(), ""} {
		if ecma.Truthy(v) {
			t.Errorf("%#v is truthy", v)
		}
	}
	for _, v := range []any{true, 1.0, math.Inf(1), "0", " ", []any{}, finding.Object{}} {
		if !ecma.Truthy(v) {
			t.Errorf("%#v is falsy", v)
		}
	}
}

func TestMembers(t *testing.T) {
	source := finding.Object{{Key: "text", Value: "x"}, {Key: "null"}, {Key: "zero", Value: 0.0}, {Key: "list", Value: []any{1.0, nil}}}
	tests := map[string]struct {
		property string
		orNull   any
		copied   finding.Object
	}{
		"text":    {"x", "x", finding.Object{{Key: "to", Value: "x"}}},
		"null":    {"null", nil, finding.Object{{Key: "to"}}},
		"zero":    {"0", nil, finding.Object{{Key: "to", Value: 0.0}}},
		"list":    {"1,", []any{1.0, nil}, finding.Object{{Key: "to", Value: []any{1.0, nil}}}},
		"missing": {"undefined", nil, nil},
	}
	for key, tt := range tests {
		if got := ecma.Property(source, key); got != tt.property {
			t.Errorf("%s: want %q, got %q", key, tt.property, got)
		}
		if diff := cmp.Diff(tt.orNull, ecma.OrNull(source, key)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
		var copied finding.Object
		ecma.Copy(&copied, "to", source, key)
		if diff := cmp.Diff(tt.copied, copied); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

func TestSetText(t *testing.T) {
	source := finding.Object{{Key: "text", Value: "x"}, {Key: "null"}, {Key: "number", Value: 7.0}}
	for key, want := range map[string]string{"text": `{"name":"x"}`, "null": `{"name":null}`, "number": `{"name":7}`, "missing": `{}`} {
		var f finding.Finding
		ecma.SetText(&f, &f.Name, "name", source, key)
		if got, err := f.AppendJSON(nil); err != nil || string(got) != want {
			t.Errorf("%s: want %s, got %s, %v", key, want, got, err)
		}
	}
}
