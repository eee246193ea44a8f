// SPDX-License-Identifier: Apache-2.0

package strictyaml

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type config struct {
	Name  string            `json:"name"`
	Every metav1.Duration   `json:"every"`
	Items []item            `json:"items"`
	Notes map[string]string `json:"notes"`
}

type item struct {
	Port  int32    `json:"port"`
	Words []string `json:"words"`
}

func TestDecode(t *testing.T) {
	text := `
base: &base
  port: 80
name: "2026-01-01"
every: 1h30m
notes: {a.b/c: x, date: 2026-01-01}
items:
- <<: *base
  words: [a, b]
- *base
`
	var c struct {
		config
		Base item `json:"base"`
	}
	f, err := Decode("c.yaml", []byte(text), &c)
	if err != nil {
		t.Fatal(err)
	}
	want := []item{{Port: 80, Words: []string{"a", "b"}}, {Port: 80}}
	if !reflect.DeepEqual(c.Items, want) {
		t.Errorf("got %+v, want %+v", c.Items, want)
	}
	if c.Notes["date"] != "2026-01-01" || c.Every.Duration.String() != "1h30m0s" {
		t.Errorf("got %+v", c)
	}
	for path, line := range map[string]int{
		"name": 4, "notes[a.b/c]": 6, "items": 7, "items[0].words[1]": 9, "items[1]": 10, "items[1].port": 3, "items[7].port": 7, "nothing": 0,
	} {
		if got := f.Line(path); got != line {
			t.Errorf("line of %s is %d, want %d", path, got, line)
		}
	}
	if got := f.LineOf("notes", "a.b/c"); got != 6 {
		t.Errorf("line of a key with dots is %d", got)
	}
	err = f.Check(field.ErrorList{field.Required(field.NewPath("items").Index(0).Child("port"), "needed"), field.Invalid(field.NewPath("name"), "x", "no")})
	if want := "c.yaml:4: name: Invalid value: \"x\": no\nc.yaml:8: items[0].port: Required value: needed"; err == nil || err.Error() != want {
		t.Errorf("got %v, want in the order of lines:\n%s", err, want)
	}
	if f.Check(nil) != nil || f.Where("name") != "c.yaml:4" || f.Name() != "c.yaml" {
		t.Errorf("a file that is right: %v, %s", f.Check(nil), f.Where("name"))
	}
}

func TestDecodeRefuses(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"Tab":        {"name: a\n\tx: b", "c.yaml:2: is not YAML"},
		"NotAMap":    {"- a", "c.yaml:1: [0]: is a list and must be a map of fields"},
		"Text":       {"items:\n- port: eighty", "c.yaml:2: items[0].port: is a text and must be a whole number"},
		"Fraction":   {"items:\n- port: 1.5", "c.yaml:2: items[0].port: is a number and must be a whole number"},
		"TooLarge":   {"items:\n- port: 99999999999", "c.yaml:2: items[0].port: "},
		"OneOfMany":  {"items:\n- port: 1\n- port: 2\n  words: x\n", "c.yaml:4: items[1].words: is a text and must be a list"},
		"Duration":   {"name: a\nevery: soon\n", `c.yaml:2: every: time: invalid duration "soon"`},
		"Unknown":    {"items:\n- prot: 1", "c.yaml:2: items[0].prot: there is no such field"},
		"Twice":      {"notes:\n  a: x\n  b: y\n  a: z\n", "c.yaml:4: notes.a: is there already in line 2"},
		"KeyIsAList": {"notes:\n  [a]: x\n", "c.yaml:2: notes: a key must be a plain text"},
		"Bomb":       {bomb(), "repeats too much by aliases"},
		"Deep":       {strings.Repeat("[", 100) + strings.Repeat("]", 100), "nested too deeply"},
		"Documents":  {"name: a\n---\nname: b\n", "has more than one document"},
		"Empty":      {"# nothing\n", "c.yaml: is empty"},
		"Large":      {strings.Repeat(" ", maxSize+1), "is larger than 4 MiB"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Decode("c.yaml", []byte(tc.text), &config{})
			var known *Error
			if !errors.As(err, &known) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want %q in:\n%v", tc.want, err)
			}
		})
	}
}

func TestLinesByName(t *testing.T) {
	f, err := Parse("p.yaml", []byte("containers:\n- name: nmap\n- name: lurker\n  image: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.LineOf("containers", "lurker", "image"); got != 4 {
		t.Errorf("got line %d", got)
	}
	if got := f.LineOf("containers", "zap", "image"); got != 1 {
		t.Errorf("an element that is not there: got line %d", got)
	}
}

func TestDecodeSkips(t *testing.T) {
	f, err := Parse("p.yaml", []byte("$patch: merge\nitems:\n- $patch: delete\n  port: 1\n  prot: 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	err = f.Decode(&config{}, func(key string) bool { return strings.HasPrefix(key, "$") })
	var refused *Error
	if !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	got := refused.Problems[0]
	got.Message = ""
	if want := (Problem{File: "p.yaml", Line: 5, Field: "items[0].prot", Unknown: true}); got != want || len(refused.Problems) != 1 {
		t.Errorf("got %v", err)
	}
}

// bomb is small and would be large.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		at, below := string(rune('1'+i)), string(rune('0'+i))
		b.WriteString("a" + at + ": &a" + at + " [" + strings.TrimSuffix(strings.Repeat("*a"+below+", ", 10), ", ") + "]\n")
	}
	return b.String()
}

// FuzzDecode asks for no panic, and for an *Error of whatever is refused.
func FuzzDecode(f *testing.F) {
	f.Add("name: a\nitems: [{port: 1}]\n")
	f.Add("a: &a {b: *a}\n")
	f.Add("<<: {name: x}\n")
	f.Add(bomb())
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Decode("c.yaml", []byte(text), &config{})
		var known *Error
		if err != nil && !errors.As(err, &known) {
			t.Errorf("the error is no *Error: %v", err)
		}
		file.Line("items[0].port")
	})
}
