// SPDX-License-Identifier: Apache-2.0

package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
)

func decode(tb testing.TB, text string) finding.Object {
	tb.Helper()
	v, err := finding.DecodeValue([]byte(text), 0)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	o, ok := v.(finding.Object)
	if !ok {
		tb.Fatalf("%s is not an object", text)
	}
	return o
}

func encode(tb testing.TB, v any) string {
	tb.Helper()
	raw, err := finding.AppendValue(nil, v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(raw)
}

func parentOf(tb testing.TB, scan string) *Parent {
	tb.Helper()
	p, err := NewParent(decode(tb, scan), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

const plain = `{"metadata":{"name":"nmap-x","uid":"u"},"spec":{"scanType":"nmap","parameters":[],"cascades":%s}}`

// name builds and names one child.
func name(t *testing.T, n *Names, p *Parent, r *Rule, f string) string {
	t.Helper()
	scan, err := p.Build(r, decode(t, f))
	if err != nil {
		t.Fatal(err)
	}
	got, err := n.Set(&scan, r, decode(t, f), []byte(f))
	if err != nil {
		t.Fatal(err)
	}
	if set, _ := objectAt(scan, "metadata").Text("name").Get(); set != got {
		t.Errorf("metadata.name is %q, want %q", set, got)
	}
	return got
}

func TestNames(t *testing.T) {
	p := parentOf(t, fmt.Sprintf(plain, `{}`))
	rule := func(name string) *Rule {
		return NewRule(decode(t, `{"metadata":{"name":"`+name+`"},"spec":{"scanSpec":{"scanType":"tls","parameters":["{{location}}"]}}}`))
	}
	n := NewNames(p)
	first := name(t, n, p, rule("r"), `{"id":"1"}`)
	seen := map[string]bool{first: true}
	for _, f := range []string{`{"id":"2"}`, `{"id":"1"}`, `{"id":"1","location":"x"}`, `{}`, `{}`, `{"location":"y"}`, `{"id":null}`} {
		got := name(t, n, p, rule("r"), f)
		if seen[got] {
			t.Errorf("%s has the name of another child, %s", f, got)
		}
		seen[got] = true
	}
	if again := name(t, NewNames(p), p, rule("r"), `{"id":"1"}`); again != first {
		t.Errorf("another run calls it %s, the first one %s", again, first)
	}
	if other := name(t, n, p, rule("s"), `{"id":"1"}`); seen[other] {
		t.Errorf("another rule's child is called %s", other)
	}
	long := name(t, n, p, rule(strings.Repeat("long-", 30)+"rule"), `{"id":"1"}`)
	if len(long) != 63 {
		t.Errorf("%s has %d characters", long, len(long))
	}
}

func TestNamesOfEqualChildren(t *testing.T) {
	p := parentOf(t, fmt.Sprintf(plain, `{"deduplicate":true}`))
	r := func(name string) *Rule {
		return NewRule(decode(t, `{"metadata":{"name":"`+name+`"},"spec":{"scanSpec":{"scanType":"tls","parameters":["{{location}}"]}}}`))
	}
	n := NewNames(p)
	first := name(t, n, p, r("r"), `{"id":"1","location":"h"}`)
	if same := name(t, n, p, r("r"), `{"id":"2","location":"h"}`); same != first {
		t.Errorf("the same from another finding is %s, want %s", same, first)
	}
	if other := name(t, n, p, r("r"), `{"id":"1","location":"i"}`); other == first {
		t.Errorf("something else is called %s as well", other)
	}
	elsewhere := parentOf(t, strings.Replace(fmt.Sprintf(plain, `{"deduplicate":true}`), `"u"`, `"v"`, 1))
	if other := name(t, NewNames(elsewhere), elsewhere, r("r"), `{"id":"1","location":"h"}`); other == first {
		t.Errorf("another chain has %s as well", other)
	}
}

func TestRoot(t *testing.T) {
	cases := map[string]struct{ scan, want, reason string }{
		"First": {`{"metadata":{"name":"n","uid":"u"}}`, "u", "a Scan without a chain is the first"},
		"Below": {
			`{"metadata":{"name":"n","uid":"u","labels":{"cascading.scanyard.io/root":"r"},"annotations":{"cascading.securecodebox.io/chain":"a"}}}`, "r",
			"the label goes on from Scan to Scan",
		},
		"LabelByHand": {
			`{"metadata":{"name":"n","uid":"u","labels":{"cascading.scanyard.io/root":"r"}}}`, "u",
			"who copies a manifest starts a chain of his own",
		},
		"Older": {`{"metadata":{"name":"n","uid":"u","annotations":{"cascading.securecodebox.io/chain":"a"}}}`, "u", "what is not known cannot be counted"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := parentOf(t, c.scan).Root(); got != c.want {
				t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
			}
		})
	}
}

func TestPurgeLeavesTheScanAlone(t *testing.T) {
	scan := `{"metadata":{"name":"n"},"spec":{"env":[{"name":"A"},{"name":"B"}],"volumes":[{"name":"v"}],"hookSelector":{"matchLabels":{"a":"1","b":"2"},"matchExpressions":[{"key":"k"}]}}}`
	rule := `{"spec":{"scanSpec":{"env":[{"name":"B"}],"volumes":[{"name":"v"}],"volumeMounts":[{"name":"v"}],"hookSelector":{"matchLabels":{"a":"other"},"matchExpressions":[{"key":"k"}]}}}}`
	before := decode(t, scan)
	p, err := NewParent(before, decode(t, rule))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"env":[{"name":"A"}],"volumes":[],"hookSelector":{"matchLabels":{"b":"2"},"matchExpressions":[]}}`
	if got := encode(t, p.spec); got != want {
		t.Errorf("left is %s, want %s", got, want)
	}
	if got := encode(t, before); got != scan {
		t.Errorf("the Scan became %s", got)
	}
}

func TestParentsThatAreNone(t *testing.T) {
	for _, scan := range []string{`{}`, `{"metadata":null}`, `{"metadata":{"name":7}}`} {
		if _, err := NewParent(decode(t, scan), nil); err == nil {
			t.Errorf("%s was taken", scan)
		}
	}
}

func TestBuild(t *testing.T) {
	cases := map[string]struct {
		scan, rule, finding string
		path                []string
		want                string
		reason              string
	}{
		"NoAttributes": {
			plain, `"parameters":["[{{$.hostOrIP}}]"]`, `{"id":"1"}`,
			[]string{"spec", "parameters"},
			`["[]"]`,
			"a finding without attributes has neither host nor address",
		},
		"AttributesNoObject": {plain, `"parameters":["[{{$.hostOrIP}}]"]`, `{"attributes":"x"}`, []string{"spec", "parameters"}, `["[]"]`, "nor has this one"},
		"NoParameters":       {plain, `"scanType":"x"`, `{}`, []string{"spec", "parameters"}, `[]`, "a rule may have none"},
		"NoCommand": {
			plain, `"initContainers":[{"name":"i","image":"{{id}}"}]`, `{"id":"1"}`,
			[]string{"spec", "initContainers"},
			`[{"name":"i","image":"{{id}}"}]`,
			"an init container may have no command",
		},
		"NumberAsId": {plain, `"parameters":[]`, `{"id":7}`, []string{"metadata", "annotations", "cascading.securecodebox.io/matched-finding"}, `"7"`, "annotations are texts"},
		"MatchedFindingOfTheParent": {
			`{"metadata":{"name":"n","annotations":{"cascading.securecodebox.io/matched-finding":"old"}},"spec":{"cascades":%s}}`, `"parameters":[]`, `{}`,
			[]string{"metadata", "annotations"},
			`{"securecodebox.io/hook":"cascading-scans","cascading.securecodebox.io/parent-scan":"n","cascading.securecodebox.io/chain":"r"}`,
			"the finding of the parent is another one",
		},
		"AddressesSortAsTexts": {plain, `"parameters":["{{$.hostOrIP}}"]`, `{"attributes":{"hostname":"","ip_addresses":["9.0.0.1","10.0.0.1"]}}`, []string{"spec", "parameters"}, `["10.0.0.1"]`, "as JavaScript sorts"},
		"ScanOverFinding":      {plain, `"parameters":["{{metadata.name}}{{kind}}"]`, `{"metadata":{"name":"f"},"kind":"K"}`, []string{"spec", "parameters"}, `["nmap-xK"]`, "the Scan's keys win, as far as it has them"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := parentOf(t, fmt.Sprintf(c.scan, `{}`))
			r := NewRule(decode(t, `{"metadata":{"name":"r"},"spec":{"scanSpec":{`+c.rule+`}}}`))
			scan, err := p.Build(r, decode(t, c.finding))
			if err != nil {
				t.Fatal(err)
			}
			var at any = scan
			for _, key := range c.path {
				at, _ = at.(finding.Object).Get(key)
			}
			if diff := cmp.Diff(c.want, encode(t, at)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestRulesWithMistakes(t *testing.T) {
	cases := map[string]struct{ rule, refused, broken string }{
		"Fine":             {`{"metadata":{"name":"r"},"spec":{"matches":{"anyOf":[]},"scanSpec":{"scanType":"x"}}}`, "", ""},
		"NoName":           {`{"spec":{}}`, "it has no metadata.name", ""},
		"ScopeAnnotation":  {`{"metadata":{"name":"r"},"spec":{"scanAnnotations":{"scope.cascading.securecodebox.io/":"x"}}}`, "scanAnnotations has scope.cascading.securecodebox.io/: no rule may change what bounds the scope", ""},
		"UnclosedTag":      {`{"metadata":{"name":"r"},"spec":{"scanSpec":{"parameters":["ok","{{x"]}}}`, "", `scanSpec, scanLabels or scanAnnotations: parameters[1]: template "{{x": `},
		"ParameterNumber":  {`{"metadata":{"name":"r"},"spec":{"scanSpec":{"parameters":[443]}}}`, "", "scanSpec, scanLabels or scanAnnotations: parameters[0]: is not text"},
		"CommandUnclosed":  {`{"metadata":{"name":"r"},"spec":{"scanSpec":{"initContainers":[{"command":["{{#a}}"]}]}}}`, "", "scanSpec, scanLabels or scanAnnotations: initContainers[0].command[0]: template"},
		"EnvValueUnclosed": {`{"metadata":{"name":"r"},"spec":{"scanSpec":{"env":[{"name":"a","value":"{{/a}}"}]}}}`, "", "scanSpec, scanLabels or scanAnnotations: env[0].value: template"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := NewRule(decode(t, c.rule))
			for _, e := range []struct {
				got  error
				want string
			}{{r.Refused(), c.refused}, {r.Broken(), c.broken}} {
				if (e.got == nil) != (e.want == "") || e.got != nil && !strings.HasPrefix(e.got.Error(), e.want) {
					t.Errorf("error %v, want %q", e.got, e.want)
				}
			}
			if r.Broken() != nil {
				if _, err := parentOf(t, fmt.Sprintf(plain, `{}`)).Build(r, finding.Object{}); err == nil {
					t.Error("a child was built nevertheless")
				}
			}
		})
	}
}

func TestIgnored(t *testing.T) {
	rule := `{"metadata":{"name":"r"},"spec":{"scanSpec":{"suspend":%s,"resources":%s,"nodeSelector":{"a":"b"},"ttlSecondsAfterFinished":0,"cascades":{"matchLabels":{"a":"b"}}}}}`
	cases := map[string]struct {
		cascades, suspend, resources string
		want                         []string
	}{
		"Defaults": {`{}`, "false", "{}", []string{"nodeSelector", "ttlSecondsAfterFinished", "cascades"}},
		"Written":  {`{}`, "true", `{"limits":{}}`, []string{"nodeSelector", "resources", "ttlSecondsAfterFinished", "suspend", "cascades"}},
		"Inherits": {`{"inheritNodeSelector":true,"inheritResources":true,"inheritTTLSecondsAfterFinished":true}`, "false", `{"limits":{}}`, []string{"cascades"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := NewRule(decode(t, fmt.Sprintf(rule, c.suspend, c.resources)))
			if diff := cmp.Diff(c.want, r.Ignored(parentOf(t, fmt.Sprintf(plain, c.cascades)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestParentOnly: annotations that are requests to the operator, or the place of the parent's results, are not inherited.
func TestParentOnly(t *testing.T) {
	p := parentOf(t, `{"metadata":{"name":"nmap-x","uid":"u","annotations":{"team":"red","scanyard.io/rerun":"hooks@2",`+
		`"storage.scanyard.io/place":"{}","kubectl.kubernetes.io/last-applied-configuration":"{}"}},`+
		`"spec":{"scanType":"nmap","parameters":[],"cascades":{"inheritAnnotations":true}}}`)
	scan, err := p.Build(NewRule(decode(t, `{"metadata":{"name":"r"},"spec":{"matches":{},"scanSpec":{"scanType":"nmap","parameters":[]}}}`)), decode(t, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, m := range objectAt(objectAt(scan, "metadata"), "annotations") {
		got[m.Key] = true
	}
	want := map[string]bool{"team": true, annotationHook: true, annotationParent: true, annotationChain: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// TestFindingsChooseNoOptions: what a scanned host has sent is not an option of the child's scanner, unless the rule says so.
func TestFindingsChooseNoOptions(t *testing.T) {
	object := func(text string) finding.Object { return decode(t, text) }
	parent, err := NewParent(object(`{"metadata":{"name":"nmap","uid":"u"},"spec":{"scanType":"nmap","cascades":{}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	hostile := object(`{"id":"1","location":"-iL /etc/passwd","attributes":{"hostname":"-oN /tmp/x","port":"--script=evil","empty":"","on":true,"space":" -x"}}`)
	for name, c := range map[string]struct {
		parameter, annotations string
		refused                bool
	}{
		"Whole":           {"{{$.hostOrIP}}", "", true},
		"Unescaped":       {"{{{$.hostOrIP}}}", "", true},
		"Location":        {"{{location}}", "", true},
		"WithSpaceBefore": {" {{location}}", "", true},
		"ValueWithSpace":  {"{{attributes.space}}", "", true},
		"Beginning":       {"{{$.hostOrIP}}:{{attributes.port}}", "", true},
		"AfterNothing":    {"{{attributes.empty}}{{location}}", "", true},
		"Section":         {"{{#attributes.on}}{{location}}{{/attributes.on}}", "", true},
		"Comment":         {"{{! host }}{{location}}", "", true},
		"BehindText":      {"http://{{$.hostOrIP}}", "", false},
		"BehindOption":    {"--port={{attributes.port}}", "", false},
		"StuckOption":     {"-p{{attributes.port}}", "", false},
		"OwnInSection":    {"{{#attributes.on}}--tls{{/attributes.on}}", "", false},
		"Literal":         {"-sV", "", false},
		"Allowed":         {"{{location}}", `,"annotations":{"cascading.scanyard.io/allow-options":"true"}`, false},
		"NotQuiteAllowed": {"{{location}}", `,"annotations":{"cascading.scanyard.io/allow-options":"yes"}`, true},
	} {
		encoded, err := json.Marshal(c.parameter)
		if err != nil {
			t.Fatal(err)
		}
		rule := NewRule(object(`{"metadata":{"name":"r"` + c.annotations + `},"spec":{"matches":{"anyOf":[{}]},"scanSpec":{"scanType":"x","parameters":["-v",` + string(encoded) + `]}}}`))
		_, err = parent.Build(rule, hostile)
		option, refused := errors.AsType[*OptionError](err)
		if refused != c.refused || !refused && err != nil || refused && option.Parameter != 1 {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := parent.Build(rule, object(`{"attributes":{"hostname":"h.example.com","port":80,"space":"x","empty":"","on":false},"location":"tcp://h"}`)); err != nil {
			t.Errorf("%s: a finding like others: %v", name, err)
		}
	}
}
