// SPDX-License-Identifier: Apache-2.0

package exception_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanyard/scanyard/apis/finding"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const dependency = `{"id":"1","fingerprint":"sha256:f1","name":"Vulnerability in Dependency lodash (4.17.20)","category":"NPM Package Vulnerability",` +
	`"severity":"high","location":"oci://registry.example.com/shop/web:1.2@sha256:abc","references":[{"type":"CVE","value":"cve-2021-23337"},` +
	`{"type":"CWE","value":"CWE-94"}],"attributes":{"purl":"pkg:npm/lodash@4.17.20","digest":"sha256:abc","port":443,"kev":false,` +
	`"request":{"method":"GET"},"a.b":"dotted","list":[1]}}`

func object(tb testing.TB, text string) finding.Object {
	tb.Helper()
	v, err := finding.DecodeValue([]byte(text), 0)
	if err != nil {
		tb.Fatal(err)
	}
	o, ok := v.(finding.Object)
	if !ok {
		tb.Fatalf("%s is not an object", text)
	}
	return o
}

// entryOf reads an entry as the API server would hand it out.
func entryOf(tb testing.TB, text string) settingsv1alpha2.ExceptionEntry {
	tb.Helper()
	var e settingsv1alpha2.ExceptionEntry
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		tb.Fatal(err)
	}
	return e
}

func withEntries(tb testing.TB, namespace, name string, entries ...string) exception.Exception {
	tb.Helper()
	x := exception.Exception{Namespace: namespace, Name: name, Spec: settingsv1alpha2.ExceptionSpec{
		Status: settingsv1alpha2.ExceptionFalsePositive, Reason: "a reason of " + name,
	}}
	for _, e := range entries {
		x.Spec.Match.AnyOf = append(x.Spec.Match.AnyOf, entryOf(tb, e))
	}
	return x
}

func TestFieldsOfAnEntry(t *testing.T) {
	f := object(t, dependency)
	for entry, want := range map[string]bool{
		`{"fingerprints":["sha256:f1"]}`:                                               true,
		`{"fingerprints":["sha256:f2","sha256:f1"]}`:                                   true,
		`{"fingerprints":["sha256:f"]}`:                                                false,
		`{"names":["Vulnerability in Dependency lodash*"]}`:                            true,
		`{"names":["*lodash (4.17.??)"]}`:                                              true,
		`{"names":["lodash"]}`:                                                         false,
		`{"names":["vulnerability in dependency lodash*"]}`:                            false,
		`{"categories":["NPM Package Vulnerability"]}`:                                 true,
		`{"categories":["?PM*"]}`:                                                      true,
		`{"categories":["npm*"]}`:                                                      false,
		`{"locations":["oci://registry.example.com/shop/*"]}`:                          true,
		`{"locations":["oci://*/shop/web:1.2@*"]}`:                                     true,
		`{"locations":["registry.example.com/*"]}`:                                     false,
		`{"severities":["HIGH"]}`:                                                      true,
		`{"severities":["LOW","MEDIUM"]}`:                                              false,
		`{"references":["CVE-2021-23337"]}`:                                            true,
		`{"references":["cwe-94"]}`:                                                    true,
		`{"references":["CVE-2021-2333"]}`:                                             false,
		`{"packages":["pkg:npm/lodash"]}`:                                              true,
		`{"packages":["pkg:npm/lodash@4.17.20"]}`:                                      true,
		`{"packages":["pkg:npm/lodash@4.17.21"]}`:                                      false,
		`{"packages":["pkg:npm/lodash?vers=vers:npm/>=4.0.0|<4.17.21"]}`:               true,
		`{"packages":["pkg:npm/lodash?vers=vers:npm/<4.17.20"]}`:                       false,
		`{"packages":["pkg:npm/lodash?arch=x86"]}`:                                     false,
		`{"packages":["pkg:pypi/lodash"]}`:                                             false,
		`{"packages":["pkg:npm/%40types/lodash"]}`:                                     false,
		`{"products":["registry.example.com/shop/*"]}`:                                 true,
		`{"products":["sha256:abc"]}`:                                                  true,
		`{"products":["registry.example.com/shop/web:1.2"]}`:                           false,
		`{"products":["registry.example.com/shop/web:1.2@*"]}`:                         true,
		`{"attributes":{"port":443}}`:                                                  true,
		`{"attributes":{"port":443.0}}`:                                                true,
		`{"attributes":{"port":"443"}}`:                                                false,
		`{"attributes":{"kev":false}}`:                                                 true,
		`{"attributes":{"kev":true}}`:                                                  false,
		`{"attributes":{"request.method":"GET"}}`:                                      true,
		`{"attributes":{"request.method":"GET","port":80}}`:                            false,
		`{"attributes":{"a.b":"dotted"}}`:                                              true,
		`{"attributes":{"request.method.deeper":"GET"}}`:                               false,
		`{"attributes":{"list":"1"}}`:                                                  false,
		`{"attributes":{"absent":"1"}}`:                                                false,
		`{"expression":"finding.attributes.port == 443"}`:                              true,
		`{"expression":"finding.attributes.port == 80"}`:                               false,
		`{"expression":"finding.attributes.absent == 80"}`:                             false,
		`{"names":["Vuln*"],"categories":["NPM*"],"references":["CVE-2021-23337"]}`:    true,
		`{"names":["Vuln*"],"categories":["Ruby*"],"references":["CVE-2021-23337"]}`:   false,
		`{"fingerprints":["sha256:f1"],"severities":["LOW"]}`:                          false,
		`{"references":["CVE-2021-23337"],"packages":["pkg:npm/lodash","pkg:npm/no"]}`: true,
	} {
		m := exception.Compile([]exception.Exception{withEntries(t, "team-a", "x", entry)}, now)
		if p := m.Problems(); len(p) > 0 {
			t.Errorf("%s: %v", entry, p[0])
			continue
		}
		if _, got := m.For(exception.Scan{Namespace: "team-a"}).Match(f); got != want {
			t.Errorf("%s matches: %t, want %t", entry, got, want)
		}
	}
}

func TestMark(t *testing.T) {
	x := withEntries(t, "", "false-cve", `{"references":["CVE-2021-23337"]}`)
	end := metav1.NewTime(now.Add(time.Hour))
	x.Spec.Status, x.Spec.Justification, x.Spec.ExpiresAt = settingsv1alpha2.ExceptionNotAffected, settingsv1alpha2.VulnerableCodeNotInPath, &end
	got, ok := exception.Compile([]exception.Exception{x}, now).For(exception.Scan{Namespace: "team-b"}).Match(object(t, dependency))
	want := exception.Mark{
		Name: "false-cve", Kind: "ClusterFindingException", Status: "NotAffected", Justification: "vulnerable_code_not_in_execute_path",
		Reason: "a reason of false-cve", ExpiresAt: &end,
	}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("%t, -want +got:\n%s", ok, diff)
	}
	if !got.Suppresses() {
		t.Error("NotAffected must suppress")
	}
	if m := (&exception.Mark{Status: settingsv1alpha2.ExceptionUnderInvestigation}); m.Suppresses() {
		t.Error("UnderInvestigation must not suppress")
	}
}

// The order of section 2 of the specification: namespace before cluster, fingerprint before broader, then the name.
func TestWhichExceptionWins(t *testing.T) {
	const byFingerprint, byName, no = `{"fingerprints":["sha256:f1"]}`, `{"names":["Vuln*"]}`, `{"names":["other"]}`
	cases := []struct {
		name string
		list []exception.Exception
		want string
	}{
		{"namespace before cluster", []exception.Exception{withEntries(t, "", "a", byFingerprint), withEntries(t, "team-a", "z", byName)}, "z"},
		{"fingerprint before name", []exception.Exception{withEntries(t, "team-a", "a", byName), withEntries(t, "team-a", "z", byFingerprint)}, "z"},
		{"by name", []exception.Exception{withEntries(t, "team-a", "b", byName), withEntries(t, "team-a", "a", byName)}, "a"},
		{"an entry with a fingerprint that does not match", []exception.Exception{
			withEntries(t, "team-a", "a", `{"fingerprints":["no"]}`, byName), withEntries(t, "team-a", "b", byFingerprint),
		}, "b"},
		{"cluster where the namespace's does not match", []exception.Exception{withEntries(t, "team-a", "a", no), withEntries(t, "", "z", byName)}, "z"},
	}
	for _, c := range cases {
		for range 2 {
			got, _ := exception.Compile(c.list, now).For(exception.Scan{Namespace: "team-a"}).Match(object(t, dependency))
			if got.Name != c.want {
				t.Errorf("%s: %s wins, want %s", c.name, got.Name, c.want)
			}
			slices.Reverse(c.list)
		}
	}
}

func TestScope(t *testing.T) {
	scan := exception.Scan{
		Namespace: "team-a", NamespaceLabels: map[string]string{"env": "test"}, Name: "nightly-web", ScanType: "trivy-image", Target: "shop",
	}
	for scope, want := range map[string]bool{
		`{}`:                                                   true,
		`{"scanTypes":["trivy*"]}`:                             true,
		`{"scanTypes":["nmap"]}`:                               false,
		`{"scans":["nightly-*"]}`:                              true,
		`{"scans":["daily-*"]}`:                                false,
		`{"targets":["shop","web"]}`:                           true,
		`{"targets":["web"]}`:                                  false,
		`{"namespaces":["team-*"]}`:                            true,
		`{"namespaces":["prod"]}`:                              false,
		`{"scans":["*"],"targets":[]}`:                         true,
		`{"scans":["*"],"targets":[""]}`:                       false,
		`{"namespaceSelector":{"matchLabels":{"env":"test"}}}`: true,
		`{"namespaceSelector":{"matchLabels":{"env":"prod"}}}`: false,
	} {
		x := withEntries(t, "", "x", `{"fingerprints":["sha256:f1"]}`)
		if err := json.Unmarshal([]byte(scope), &x.Scope); err != nil {
			t.Fatal(err)
		}
		selection := exception.Compile([]exception.Exception{x}, now).For(scan)
		if _, got := selection.Match(object(t, dependency)); got != want || selection.IsEmpty() == want {
			t.Errorf("%s: %t, want %t", scope, got, want)
		}
	}
	foreign := withEntries(t, "team-b", "x", `{"fingerprints":["sha256:f1"]}`)
	if _, ok := exception.Compile([]exception.Exception{foreign}, now).For(scan).Match(object(t, dependency)); ok {
		t.Error("an exception of another namespace matches")
	}
}

func TestPhases(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { v := metav1.NewTime(now.Add(d)); return &v }
	for _, c := range []struct {
		from, to *metav1.Time
		want     exception.Phase
	}{
		{nil, nil, exception.Holds},
		{at(0), at(1), exception.Holds},
		{at(1), nil, exception.NotYet},
		{nil, at(0), exception.Expired},
		{nil, at(-1), exception.Expired},
		{at(1), at(-1), exception.Expired},
	} {
		x := withEntries(t, "team-a", "x", `{"names":["Vuln*"]}`)
		x.Spec.NotBefore, x.Spec.ExpiresAt = c.from, c.to
		_, matches := exception.Compile([]exception.Exception{x}, now).For(exception.Scan{Namespace: "team-a"}).Match(object(t, dependency))
		if got := x.PhaseAt(now); got != c.want || matches != (c.want == exception.Holds) {
			t.Errorf("from %v to %v: %s, matches: %t; want %s", c.from, c.to, got, matches, c.want)
		}
	}
}

// What is stored and does not compile matches nothing, names its field, and leaves the others alone.
func TestProblems(t *testing.T) {
	for entry, want := range map[string]string{
		`{}`:                                 "spec.match.anyOf[1]: entry must have a field",
		`{"names":["*"]}`:                    "spec.match.anyOf[1].names[0]: a glob of * alone",
		`{"categories":["a","**"]}`:          "spec.match.anyOf[1].categories[1]: a glob of * alone",
		`{"locations":["?*"],"names":["a"]}`: "spec.match.anyOf[1].locations[0]: a glob of * alone",
		`{"packages":["lodash"]}`:            "spec.match.anyOf[1].packages[0]: ",
		`{"packages":["pkg:npm/a@1?vers=vers:npm/1"]}`: "spec.match.anyOf[1].packages[0]: a package URL has a version or the qualifier vers",
		`{"packages":["pkg:npm/a?vers=vers:cobol/1"]}`: `spec.match.anyOf[1].packages[0]: range "vers:cobol/1"`,
		`{"attributes":{"a":[1]}}`:                     "spec.match.anyOf[1].attributes.a: must be a text, a number, true or false",
		`{"attributes":{"a":null}}`:                    "spec.match.anyOf[1].attributes.a: must be a text, a number, true or false",
		`{"expression":"finding.nam == 'x'"}`:          `spec.match.anyOf[1].expression: a finding has no field "nam"`,
		`{"expression":"finding.name"}`:                "",
		`{"fingerprints":["x"],"names":["*"]}`:         "spec.match.anyOf[1].names[0]: a glob of * alone",
	} {
		bad := withEntries(t, "team-a", "bad", `{"names":["Vuln*"]}`, entry)
		m := exception.Compile([]exception.Exception{bad, withEntries(t, "team-a", "good", `{"names":["Vuln*"]}`)}, now)
		got := ""
		if p := m.Problems(); len(p) > 0 {
			got = p[0].String()
			if p[0].Name != "bad" || p[0].Namespace != "team-a" {
				t.Errorf("%s: problem of %s/%s", entry, p[0].Namespace, p[0].Name)
			}
		}
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
		mark, _ := m.For(exception.Scan{Namespace: "team-a"}).Match(object(t, dependency))
		if (mark.Name == "good") != (want != "") {
			t.Errorf("%s: %s matches", entry, mark.Name)
		}
	}
	for _, entry := range []string{`{"fingerprints":["x"],"names":["*"]}`, `{"references":["CVE-1"],"products":["*"]}`} {
		if p := exception.Check(withEntries(t, "", "wide", entry)); p != nil {
			t.Errorf("%s in the cluster: %v", entry, p)
		}
	}
	if p := exception.Check(withEntries(t, "", "wide", `{"severities":["LOW"],"products":["*"]}`)); p == nil {
		t.Error("a cluster's glob of * without a reference is taken")
	}
}

func TestExplain(t *testing.T) {
	over := withEntries(t, "team-a", "over", `{"names":["Vuln*"]}`)
	end := metav1.NewTime(now.Add(-time.Hour))
	over.Spec.ExpiresAt = &end
	scoped := withEntries(t, "team-a", "scoped", `{"names":["Vuln*"]}`)
	scoped.Scope.ScanTypes = []string{"nmap"}
	list := []exception.Exception{
		over, scoped,
		withEntries(t, "team-a", "two", `{"names":["no"],"severities":["HIGH"]}`, `{"names":["Vuln*"],"attributes":{"port":80}}`),
		withEntries(t, "team-a", "broken", `{"expression":"("}`),
		withEntries(t, "team-a", "fits", `{"severities":["HIGH"]}`),
	}
	got := exception.NewExplainer(list, now, exception.Scan{Namespace: "team-a", ScanType: "trivy"}).Explain(object(t, dependency))
	var lines []string
	for _, m := range got {
		if m == nil {
			lines = append(lines, "matches")
			continue
		}
		lines = append(lines, fmt.Sprint(m.Name, m.Fields, m.Err != nil))
	}
	want := []string{
		"over[spec.expiresAt] false", "scoped[spec.scope.scanTypes] false",
		"two[spec.match.anyOf[0].names spec.match.anyOf[1].attributes.port] false", "broken[spec.match.anyOf[0].expression] true", "matches",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The indexes never change an answer: each of many findings and exceptions is compared with asking all in order.
func TestIndexesNeverChangeAnAnswer(t *testing.T) {
	list := many(t, 300)
	scan := exception.Scan{Namespace: "team-a"}
	selection := exception.Compile(list, now).For(scan)
	ordered := slices.Clone(list)
	slices.SortFunc(ordered, func(a, b exception.Exception) int {
		rank := func(x *exception.Exception) string {
			return fmt.Sprint(x.Namespace == "", x.Spec.Match.AnyOf[0].Fingerprints == nil, x.Name)
		}
		return strings.Compare(rank(&a), rank(&b))
	})
	explainer := exception.NewExplainer(ordered, now, scan)
	matched := 0
	for i := range 2000 {
		f := object(t, numbered(i))
		want := ""
		for i, miss := range explainer.Explain(f) {
			if miss == nil {
				want = ordered[i].Name
				break
			}
		}
		got, ok := selection.Match(f)
		if got.Name != want {
			t.Fatalf("finding %d: %q, want %q", i, got.Name, want)
		}
		if ok {
			matched++
		}
	}
	if matched < 100 || matched > 1900 {
		t.Errorf("%d of 2000 findings match: the test says nothing", matched)
	}
}

// many makes exceptions of all kinds.
func many(tb testing.TB, n int) []exception.Exception {
	tb.Helper()
	list := make([]exception.Exception, 0, n)
	for i := range n {
		entry := [...]string{
			`{"fingerprints":["sha256:%d"]}`,
			`{"references":["CVE-2026-%d"],"severities":["HIGH"]}`,
			`{"names":["Vulnerability %d in *"]}`,
			`{"locations":["https://shop-%d.example.com/*"],"categories":["*Vulnerability"]}`,
			`{"categories":["Category %d"]}`,
			`{"packages":["pkg:npm/package-%d?vers=vers:npm/<2.0.0"],"references":["CVE-2026-7","CVE-2026-17"]}`,
		}[i%6]
		namespace := "team-a"
		if i%7 == 0 {
			namespace = ""
		}
		list = append(list, withEntries(tb, namespace, fmt.Sprintf("x-%04d", (i*7919)%n), fmt.Sprintf(entry, i)))
	}
	return list
}

func numbered(i int) string {
	return fmt.Sprintf(`{"fingerprint":"sha256:%d","name":"Vulnerability %d in package-%d","category":"Category %d","severity":"%s",`+
		`"location":"https://shop-%d.example.com/a","references":[{"type":"CVE","value":"CVE-2026-%d"}],"attributes":{"purl":"pkg:npm/package-%d@1.%d.0"}}`,
		i%1000*3, i%900, i%50, i%800, []string{"HIGH", "LOW"}[i%2], i%700, i%600, i%100, i%5)
}

// BenchmarkMatch is what one finding costs, by the number of exceptions; none should cost nothing.
func BenchmarkMatch(b *testing.B) {
	findings := make([]finding.Object, 1000)
	for i := range findings {
		findings[i] = object(b, numbered(i))
	}
	for _, n := range []int{0, 1, 10, 1000} {
		b.Run(fmt.Sprintf("exceptions=%d", n), func(b *testing.B) {
			selection := exception.Compile(many(b, n), now).For(exception.Scan{Namespace: "team-a"})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				selection.Match(findings[i%len(findings)])
			}
		})
	}
}
