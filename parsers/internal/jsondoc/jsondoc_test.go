// SPDX-License-Identifier: Apache-2.0

package jsondoc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

func read(t *testing.T, text string, visit func(finding.Object) error) error {
	t.Helper()
	in := &sdk.Input{Limits: sdk.DefaultLimits(), Source: sdk.SourceFunc(func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	})}
	return jsonstream.Read(t.Context(), in, func(r *jsonstream.Reader) error {
		return jsondoc.Elements(t.Context(), r, "match", visit)
	})
}

func TestRead(t *testing.T) {
	mine := errors.New("mine")
	tests := map[string]struct {
		in, want string
		visit    func(finding.Object) error
	}{
		"None":     {`[]`, "", nil},
		"Null":     {` null`, "", nil},
		"Empty":    {``, "is nothing, must be an array", nil},
		"Trailing": {`[] 1`, "data after the end", nil},
		"Element":  {`[{},1]`, "match 1: is not an object", func(finding.Object) error { return nil }},
		"Broken":   {`[{]`, "byte 2", nil},
		"Object":   {`{}`, "is an object, must be an array", nil},
		"Visit":    {`[{}]`, "match 0: mine", func(finding.Object) error { return mine }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := read(t, tt.in, tt.visit)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want %q, got %v", tt.want, err)
			}
		})
	}
}

func TestSourceErrorsComeBack(t *testing.T) {
	mine := errors.New("mine")
	in := &sdk.Input{Source: sdk.SourceFunc(func(context.Context) (io.ReadCloser, error) { return nil, mine })}
	if err := jsonstream.Read(t.Context(), in, nil); !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
}

func TestMembers(t *testing.T) {
	var o finding.Object
	if err := o.UnmarshalJSON([]byte(`{"a":{"b":"x","n":1.5,"t":true,"l":["y","",1,{"k":"v"},null],"e":""},"z":null}`)); err != nil {
		t.Fatal(err)
	}
	got := []any{
		jsondoc.Text(o, "a", "b"), jsondoc.Text(o, "a", "n"), jsondoc.Text(o, "a", "b", "c"), jsondoc.Text(o, "none"),
		jsondoc.Bool(o, "a", "t"), jsondoc.Bool(o, "a", "n"), jsondoc.Texts(o, "a", "l"), jsondoc.Texts(o, "a"),
		len(jsondoc.Objects(o, "a", "l")), len(jsondoc.Objects(o, "z")), len(jsondoc.Object(o, "a")), len(jsondoc.Object(o, "z")),
	}
	want := []any{"x", "", "", "", true, false, []string{"y"}, []string(nil), 1, 0, 5, 0}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for path, want := range map[string]string{"a.b": "", "a.e": "has no a.e", "a.n": "a.n is not a text", "q": "has no q", "z": "has no z"} {
		if _, err := jsondoc.Need(o, strings.Split(path, ".")...); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: want %q, got %v", path, want, err)
		}
	}
}

func TestSet(t *testing.T) {
	var attributes finding.Object
	for _, v := range []any{nil, "", []string{}, []any(nil), finding.Object{}} {
		jsondoc.Set(&attributes, "nothing", v)
	}
	source := finding.Object{{Key: "score", Value: 7.5}, {Key: "text", Value: "7"}}
	jsondoc.Set(&attributes, "zero", 0)
	jsondoc.Set(&attributes, "false", false)
	jsondoc.SetNumber(&attributes, "score", source, "score")
	jsondoc.SetNumber(&attributes, "text", source, "text")
	want := finding.Object{{Key: "zero", Value: 0}, {Key: "false", Value: false}, {Key: "score", Value: 7.5}}
	if diff := cmp.Diff(want, attributes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
