// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/child"
	"github.com/scanyard/scanyard/findings/cascade/match"
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

func scanOf(cascades, chain string) string {
	return fmt.Sprintf(`{"apiVersion":"execution.securecodebox.io/v1","kind":"Scan","metadata":{"name":"nmap-x","uid":"u","annotations":{"cascading.securecodebox.io/chain":%q,"scope.cascading.securecodebox.io/a":"1"}},"spec":{"scanType":"nmap","parameters":[],"cascades":%s}}`, chain, cascades)
}

func ruleOf(name, matches string) string {
	return fmt.Sprintf(`{"kind":"CascadingRule","metadata":{"name":%q},"spec":{"matches":%s,"scanSpec":{"scanType":"x","parameters":["{{id}}"]}}}`, name, matches)
}

// world is a Scan with rules and findings.
type world struct {
	scan     string
	rules    []string
	findings []string
	diagnose bool
	limit    int // of memory for findings
}

func (w world) each(yield func([]byte) error) error {
	for _, f := range w.findings {
		if err := yield([]byte(f)); err != nil {
			return err
		}
	}
	return nil
}

func (w world) plan(tb testing.TB) *Plan {
	tb.Helper()
	in := Input{Scan: decode(tb, w.scan), Diagnose: w.diagnose}
	for _, r := range w.rules {
		in.Rules = append(in.Rules, decode(tb, r))
	}
	p, err := New(in)
	if err != nil {
		tb.Fatal(err)
	}
	if w.limit > 0 {
		p.kept.limit = w.limit
	}
	if err := w.each(p.Add); err != nil {
		tb.Fatal(err)
	}
	return p
}

func (w world) run(tb testing.TB) (children []Child, outcomes []Outcome, rereads int) {
	tb.Helper()
	p := w.plan(tb)
	source := func(yield func([]byte) error) error { rereads++; return w.each(yield) }
	err := p.Children(source, func(c Child) (Result, error) {
		children = append(children, c)
		return Started, nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return children, p.Outcomes(), rereads
}

func texts(tb testing.TB, children []Child) []string {
	tb.Helper()
	var out []string
	for _, c := range children {
		raw, err := finding.AppendValue(nil, c.Scan)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, string(raw))
	}
	return out
}

// randomWorld has rules and findings that often meet.
func randomWorld(seed uint64) world {
	r := rand.New(rand.NewPCG(seed, 11))
	pick := func(texts ...string) string { return texts[r.IntN(len(texts))] }
	w := world{scan: scanOf(pick(`{}`, `{"deduplicate":true}`, `{"maxDepth":2}`), pick("", "r1", "r1,r2"))}
	for i := range 6 {
		w.rules = append(w.rules, ruleOf(fmt.Sprintf("r%d", i), pick(
			`{"anyOf":[{"category":"a"}]}`, `{"anyOf":[{"category":"b*"},{"attributes":{"port":1}}]}`, `{"anyOf":[{}]}`, `{"anyOf":[]}`, `{}`,
			`{"anyOf":[{"attributes":{"port":2}}],"expression":"finding.category == 'a'"}`, `{"expression":"finding.attributes.port > 1"}`)))
	}
	for range r.IntN(40) {
		w.findings = append(w.findings, fmt.Sprintf(`{"id":"%d","category":%q,"severity":"LOW","attributes":{"port":%d}}`, r.IntN(20), pick("a", "b", "bb", "c"), r.IntN(3)))
	}
	return w
}

func TestPropertiesOfPlans(t *testing.T) {
	started := 0
	for seed := range uint64(300) {
		w := randomWorld(seed)
		children, outcomes, _ := w.run(t)
		started += len(children)
		again, _, _ := w.run(t)
		want := texts(t, children)
		if diff := cmp.Diff(want, texts(t, again)); diff != "" {
			t.Fatalf("seed %d: a second run differs:\n%s", seed, diff)
		}
		w.limit = 1 // every finding is read again
		small, _, _ := w.run(t)
		if diff := cmp.Diff(want, texts(t, small)); diff != "" {
			t.Fatalf("seed %d: without memory it differs:\n%s", seed, diff)
		}
		seen := map[string]bool{}
		count := 0
		for _, c := range children {
			if seen[c.Name] {
				t.Fatalf("seed %d: two children are called %s", seed, c.Name)
			}
			seen[c.Name] = true
			chain := child.ChainOf(c.Scan)
			if slices.Sort(chain); len(slices.Compact(slices.Clone(chain))) != len(chain) {
				t.Fatalf("seed %d: a rule is twice in the chain %v", seed, chain)
			}
		}
		for i, o := range outcomes {
			count += o.Started
			if o.Rule != fmt.Sprintf("r%d", i) || (o.Started == 0) != (o.Reason != "") && o.Duplicates == 0 {
				t.Fatalf("seed %d: outcome %+v", seed, o)
			}
		}
		if count != len(children) {
			t.Fatalf("seed %d: outcomes have %d children, there are %d", seed, count, len(children))
		}
		bruteForce(t, w, children)
	}
	if started == 0 {
		t.Error("nothing was ever started")
	}
}

// bruteForce asks every rule about every finding, for rules without expressions.
func bruteForce(t *testing.T, w world, children []Child) {
	t.Helper()
	if strings.Contains(w.scan, "deduplicate") || strings.Contains(w.scan, "maxDepth") {
		return
	}
	have := map[string]int{}
	for _, c := range children {
		have[c.Rule]++
	}
	for _, text := range w.rules {
		rule := child.NewRule(decode(t, text))
		if rule.Expression() != "" || slices.Contains(child.ChainOf(decode(t, w.scan)), rule.Name()) {
			continue
		}
		anyOf, _ := rule.AnyOf()
		want := 0
		for _, f := range w.findings {
			if slices.ContainsFunc(anyOf, func(c any) bool { return match.Alternative(decode(t, f), c) }) {
				want++
			}
		}
		if have[rule.Name()] != want {
			t.Errorf("rule %s has %d children, want %d: %s", rule.Name(), have[rule.Name()], want, text)
		}
	}
}

func TestFindingsAreReadAgainOnlyAsOftenAsNeeded(t *testing.T) {
	w := world{scan: scanOf(`{}`, ""), limit: 10 * (100 + perFinding)}
	for i := range 5 {
		w.rules = append(w.rules, ruleOf(fmt.Sprintf("r%d", i), fmt.Sprintf(`{"anyOf":[{"attributes":{"port":%d}}]}`, i)))
	}
	for i := range 1000 {
		port := 99 // few match
		if i%50 == 0 {
			port = i / 50 % 5
		}
		f := fmt.Sprintf(`{"id":"%04d","severity":"LOW","attributes":{"port":%d}}`, i, port)
		w.findings = append(w.findings, f[:len(f)-1]+strings.Repeat(" ", 100-len(f))+"}")
	}
	children, _, rereads := w.run(t)
	if len(children) != 20 || rereads < 1 || rereads > 3 {
		t.Errorf("%d children with %d readings, want 20 with at most 3: ten fit into memory at once", len(children), rereads)
	}
	w.limit = 0
	if _, _, rereads := w.run(t); rereads != 0 {
		t.Errorf("%d readings although all fits into memory", rereads)
	}
}

func TestOutcomes(t *testing.T) {
	findings := []string{
		`{"id":"1","category":"Open Port","severity":"LOW","attributes":{"port":22}}`,
		`{"id":"2","category":"Open Port","severity":"LOW","attributes":{"port":80}}`,
	}
	limiter := `{"scopeLimiter":{"allOf":[{"key":"scope.cascading.securecodebox.io/a","operator":"In","values":["{{id}}"]}]}}`
	cases := map[string]struct {
		cascades, chain, matches string
		findings                 []string
		want                     Outcome
		err                      string
	}{
		"Fired":        {`{}`, "", `{"anyOf":[{"category":"Open Port"}]}`, findings, Outcome{Matched: 2, Started: 2}, ""},
		"InChain":      {`{}`, "x,r", `{"anyOf":[{}]}`, findings, Outcome{Skipped: StoppedDuplicate, Reason: "it is in the chain of this Scan already"}, ""},
		"ChainIsExact": {`{}`, "x, r", `{"anyOf":[{}]}`, findings, Outcome{Matched: 2, Started: 2}, ""},
		"TooDeep":      {`{"maxDepth":1}`, "x", `{"anyOf":[{}]}`, findings, Outcome{Skipped: StoppedDepth, Reason: "maxDepth is 1 and this Scan is at depth 1"}, ""},
		"NoFindings":   {`{}`, "", `{"anyOf":[{}]}`, nil, Outcome{Reason: "there are no findings"}, ""},
		"NoneMatches": {`{}`, "", `{"anyOf":[{"category":"Open Port","attributes":{"port":443}}]}`, findings, Outcome{
			Reason: "it matches none of 2 findings", Conditions: []Condition{{Met: map[string]int{"category": 2, "attributes.port": 0}}},
		}, ""},
		"NoSuchCategory": {`{}`, "", `{"anyOf":[{"category":"Host*"},{"category":"Host*","attributes":{"port":22}}]}`, findings, Outcome{
			Reason: `it matches none of 2 findings; none has category "Host*"`, Categories: []string{"Host*"},
			Conditions: []Condition{{Met: map[string]int{"category": 0}}, {Met: map[string]int{"category": 0, "attributes.port": 1}}},
		}, ""},
		"EmptyAnyOf": {`{}`, "", `{"anyOf":[]}`, findings, Outcome{Reason: "its matches.anyOf is empty, which no finding matches"}, ""},
		"NoAnyOf":    {`{}`, "", `{}`, findings, Outcome{Reason: "its matches.anyOf is empty, which no finding matches"}, ""},
		"PartOutOfScope": {limiter, "", `{"anyOf":[{"attributes":{"port":80}}]}`, findings, Outcome{
			Reason:     "it matches none of the 1 findings in scope; 1 more are out of scope (allOf: In a does not hold)",
			Conditions: []Condition{{Met: map[string]int{"attributes.port": 0}}},
		}, ""},
		"AllOutOfScope": {limiter, "", `{"anyOf":[{}]}`, findings[1:], Outcome{
			Reason: "all 1 findings are out of scope (allOf: In a does not hold)", Conditions: []Condition{{Met: map[string]int{}}},
		}, ""},
		"Expression":        {`{}`, "", `{"expression":"finding.attributes.port > 22"}`, findings, Outcome{Matched: 1, Started: 1}, ""},
		"AnyOfAndExpresion": {`{}`, "", `{"anyOf":[{"attributes":{"port":22}}],"expression":"finding.attributes.port > 22"}`, findings, Outcome{Reason: "it matches none of 2 findings", Conditions: []Condition{{Met: map[string]int{"attributes.port": 1}}}}, ""},
		"NotAnObject":       {`{}`, "", `{"anyOf":[{}]}`, []string{`7`, `null`}, Outcome{Reason: "it matches none of 2 findings", Conditions: []Condition{{Met: map[string]int{}}}}, ""},
		"ConditionNull":     {`{}`, "", `{"anyOf":[null]}`, findings, Outcome{Error: "matches.anyOf[0] is not an object"}, "rule r: matches.anyOf[0] is not an object"},
		"AnyOfNoList":       {`{}`, "", `{"anyOf":{}}`, findings, Outcome{Error: "matches.anyOf is not a list"}, "rule r: matches.anyOf is not a list"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := world{scan: scanOf(c.cascades, c.chain), rules: []string{ruleOf("r", c.matches)}, findings: c.findings, diagnose: true}
			p := w.plan(t)
			if err := p.Children(w.each, func(Child) (Result, error) { return Started, nil }); err != nil {
				t.Fatal(err)
			}
			c.want.Rule = "r"
			if diff := cmp.Diff([]Outcome{c.want}, p.Outcomes()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := fmt.Sprint(p.Err()); text != c.err && (c.err != "" || p.Err() != nil) {
				t.Errorf("error %v, want %q", p.Err(), c.err)
			}
		})
	}
}

func TestStartErrors(t *testing.T) {
	w := world{scan: scanOf(`{}`, ""), rules: []string{ruleOf("a", `{"anyOf":[{}]}`), ruleOf("b", `{"anyOf":[{}]}`)}, findings: []string{`{"id":"1"}`, `{"id":"2"}`}}
	calls := 0
	p := w.plan(t)
	err := p.Children(w.each, func(Child) (Result, error) {
		if calls++; calls == 1 {
			return Failed, errors.New("refused")
		}
		return Started, nil
	})
	if err != nil || calls != 4 || fmt.Sprint(p.Err()) != "rule a: refused" {
		t.Errorf("%d calls, error %v, rules %v; one refusal must not keep the others", calls, err, p.Err())
	}
	calls = 0
	p = w.plan(t)
	err = p.Children(w.each, func(Child) (Result, error) {
		calls++
		return Failed, fmt.Errorf("%w: away", ErrStop)
	})
	if !errors.Is(err, ErrStop) || calls != 1 {
		t.Errorf("%d calls, error %v; nothing more can be started", calls, err)
	}
}

func TestSourceThatChanges(t *testing.T) {
	w := world{scan: scanOf(`{}`, ""), rules: []string{ruleOf("a", `{"anyOf":[{}]}`)}, findings: []string{`{"id":"1"}`, `{"id":"2"}`}, limit: 1}
	p := w.plan(t)
	w.findings = w.findings[:1]
	err := p.Children(w.each, func(Child) (Result, error) { return Started, nil })
	if err == nil || err.Error() != "read findings again: finding 1 is gone" {
		t.Errorf("error %v", err)
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(`{"anyOf":[{"category":"a*"}],"expression":"finding.id == '1'"}`, `{"scanType":"{{a}}","parameters":["{{#attributes}}{{.}}{{/attributes}}"]}`, `{"scopeLimiter":{"strict":true,"noneOf":[{"key":"scope.cascading.securecodebox.io/a","operator":"In","values":["{{#asList}}a.b{{/asList}}"]}]}}`, `{"id":"1","category":"ab","attributes":[1,{"hostname":7}]}`)
	f.Add(`{"anyOf":[{}]}`, `{"scanType":7,"parameters":{},"env":[null,{"value":{}}],"initContainers":[7,{"command":[null]}],"tolerations":{},"hookSelector":[]}`, `{"inheritEnv":"x","maxScans":1e9}`, `null`)
	f.Fuzz(func(t *testing.T, matches, spec, cascades, one string) {
		for _, text := range []string{matches, spec, cascades, one} {
			if finding.CheckValue([]byte(text), 100) != nil {
				return
			}
		}
		in := Input{
			Scan:  decode(t, `{"metadata":{"name":"n","uid":"u","annotations":{"scope.cascading.securecodebox.io/a":"1"}},"spec":{"scanType":"n","cascades":`+cascades+`}}`),
			Rules: []finding.Object{decode(t, `{"metadata":{"name":"r"},"spec":{"matches":`+matches+`,"scanSpec":`+spec+`}}`)},
		}
		p, err := New(in)
		if err != nil || p.Add([]byte(one)) != nil {
			return
		}
		err = p.Children(func(yield func([]byte) error) error { return yield([]byte(one)) }, func(c Child) (Result, error) {
			_, err := finding.AppendValue(nil, c.Scan)
			return Started, err
		})
		if err != nil {
			t.Error(err)
		}
		p.Outcomes()
	})
}
