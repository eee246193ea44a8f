// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
)

// TestMustacheIsMustacheJS compares with what mustache.js 4.2.0 made of templates, the last hundred of them random.
func TestMustacheIsMustacheJS(t *testing.T) {
	text, err := os.ReadFile("testdata/mustache.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Data  any
		Cases []struct {
			Template, Want string
			Error          bool
		}
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Cases) < 150 {
		t.Fatalf("%d cases", len(golden.Cases))
	}
	for _, c := range golden.Cases {
		got, err := RenderMustache(c.Template, golden.Data)
		if (err != nil) != c.Error {
			t.Errorf("%q: error %v, want one: %t", c.Template, err, c.Error)
		}
		if diff := cmp.Diff(c.Want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.Template, diff)
		}
	}
}

func TestMustacheData(t *testing.T) {
	cases := map[string]struct {
		template string
		data     any
		want     string
		reason   string
	}{
		"Object":        {"{{a.b}} {{a.n}}", finding.Object{{Key: "a", Value: finding.Object{{Key: "b", Value: finding.String("x")}, {Key: "n", Value: finding.Null()}}}}, "x ", "findings are decoded in order"},
		"Strings":       {"{{l}}{{#l}}<{{.}}>{{/l}}{{l.length}}", map[string]any{"l": []string{"a", "b"}}, "a,b<a><b>2", "typed lists are lists"},
		"Labels":        {"{{labels.team}}", map[string]any{"labels": map[string]string{"team": "red"}}, "red", "typed objects have them"},
		"Int":           {"{{p}}{{^z}}no{{/z}}", map[string]any{"p": 443, "z": int64(0)}, "443no", "zero is nothing"},
		"NullInList":    {"{{#l}}<{{a}}>{{/l}}", map[string]any{"l": []any{nil, map[string]any{"a": 1.0}}, "a": "out"}, "<out><1>", "mustache.js ends with a TypeError there"},
		"NoInheritance": {"{{constructor}}{{toString}}{{a.constructor}}", map[string]any{"a": "x"}, "", "objects have what they have"},
		"LambdaAsName":  {"{{f}}", map[string]any{"f": Lambda(func(string, func(string) (string, error)) (string, error) { return "x", nil })}, "", "a function has no text"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := RenderMustache(c.template, c.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestMustacheLambda(t *testing.T) {
	data := map[string]any{
		"a": map[string]any{"list": []any{"x", "<y>"}},
		"upper": Lambda(func(text string, render func(string) (string, error)) (string, error) {
			rendered, err := render(text)
			return strings.ToUpper(rendered), err
		}),
		"wrap": Lambda(func(text string, render func(string) (string, error)) (string, error) {
			return render("{{{" + strings.TrimSpace(text) + "}}}")
		}),
		"raw":  Lambda(func(text string, _ func(string) (string, error)) (string, error) { return text, nil }),
		"fail": Lambda(func(string, func(string) (string, error)) (string, error) { return "", errors.New("boom") }),
	}
	data["self"] = Lambda(func(_ string, render func(string) (string, error)) (string, error) {
		return render("{{#self}}x{{/self}}")
	})
	cases := map[string]struct{ template, want, fails string }{
		"Rendered":  {"{{#upper}}{{a.list}}{{/upper}}", "X,&LT;Y&GT;", ""},
		"PathInner": {"{{#wrap}} a.list {{/wrap}}", "x,<y>", ""},
		"Unescaped": {"{{#raw}}<{{a}}>{{/raw}}", "<{{a}}>", ""},
		"InContext": {"{{#a}}{{#upper}}{{list.0}}{{/upper}}{{/a}}", "X", ""},
		"Inverted":  {"{{^upper}}no{{/upper}}", "", ""},
		"Error":     {"{{#fail}}{{/fail}}", "", "boom"},
		"Endless":   {"{{#self}}{{/self}}", "", "nested more than 50 deep"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := RenderMustache(c.template, data)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error %v, want %q", err, c.fails)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestMustacheIsBounded(t *testing.T) {
	list := make([]any, 2000)
	for i := range list {
		list[i] = "x"
	}
	for template, want := range map[string]error{
		"{{#l}}{{#l}}0123456789{{/l}}{{/l}}":   ErrTooLong,
		"{{#l}}{{#l}}{{#l}}{{/l}}{{/l}}{{/l}}": ErrTooSlow,
	} {
		if _, err := RenderMustache(template, map[string]any{"l": list[:900]}); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", template, err, want)
		}
	}
}

func FuzzMustache(f *testing.F) {
	for _, seed := range []string{"{{a}}", "{{#a}}x{{/a}}", "{{=<% %>=}}<%a%>", "{{{a}}}\n {{! c }}\n", "{{#l}}{{.}}{{/l}}"} {
		f.Add(seed)
	}
	data := map[string]any{"a": "x", "l": []any{1.0, nil, "y"}}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := RenderMustache(text, data)
		if err == nil && len(got) > MaxOutput {
			t.Errorf("%d bytes", len(got))
		}
	})
}
