// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"fmt"
	"strings"
	"testing"

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

const annotations = `{"scope.cascading.securecodebox.io/v4":"10.0.0.0/8","scope.cascading.securecodebox.io/both":"10.0.0.0/8, 2001:db8::/32","scope.cascading.securecodebox.io/x":"a"}`

// TestStrictMode has each case with and without strict mode, since what passes in silence is what it is about.
func TestStrictMode(t *testing.T) {
	cases := map[string]struct {
		group, requirement, finding string
		loose, strict               string
		why                         string
	}{
		"NoneOfThatDoesNotRender":   {"noneOf", `{"key":"S/x","operator":"In","values":["{{nosuch}}"]}`, `{}`, "yes", "no", "noneOf: In x is unknown"},
		"AllOfThatDoesNotRender":    {"allOf", `{"key":"S/x","operator":"In","values":["{{nosuch}}"]}`, `{}`, "no", "no", "allOf: In x is unknown"},
		"OtherFamily":               {"allOf", `{"key":"S/v4","operator":"InCIDR","values":["2001:db8::1"]}`, `{}`, "yes", "no", "allOf: InCIDR v4 is unknown"},
		"OtherFamilyNegated":        {"allOf", `{"key":"S/v4","operator":"NotInCIDR","values":["2001:db8::1"]}`, `{}`, "no", "no", "allOf: NotInCIDR v4 is unknown"},
		"OtherFamilyInNoneOf":       {"noneOf", `{"key":"S/v4","operator":"InCIDR","values":["2001:db8::1"]}`, `{}`, "no", "no", "noneOf: InCIDR v4 is unknown"},
		"NegatedInNoneOf":           {"noneOf", `{"key":"S/v4","operator":"NotInCIDR","values":["2001:db8::1"]}`, `{}`, "yes", "no", "noneOf: NotInCIDR v4 is unknown"},
		"OneOutside":                {"allOf", `{"key":"S/v4","operator":"InCIDR","values":["2001:db8::1","11.0.0.1"]}`, `{}`, "no", "no", "allOf: InCIDR v4 does not hold"},
		"NoValuesContains":          {"allOf", `{"key":"S/x","operator":"Contains","values":[]}`, `{}`, "yes", "no", "allOf: Contains x is unknown"},
		"NoValuesSubdomain":         {"anyOf", `{"key":"S/x","operator":"NotIn","values":[]}`, `{}`, "yes", "no", "anyOf: NotIn x is unknown"},
		"TwoNetworks":               {"allOf", `{"key":"S/both","operator":"InCIDR","values":["10.1.1.1","2001:db8::1"]}`, `{}`, "error", "yes", ""},
		"TwoNetworksOutside":        {"allOf", `{"key":"S/both","operator":"InCIDR","values":["10.1.1.1","2001:db9::1"]}`, `{}`, "error", "no", "allOf: InCIDR both does not hold"},
		"StillInScope":              {"allOf", `{"key":"S/x","operator":"In","values":["{{name}}"]}`, `{"name":"a"}`, "yes", "yes", ""},
		"StillOutOfScope":           {"allOf", `{"key":"S/x","operator":"In","values":["{{name}}"]}`, `{"name":"b"}`, "no", "no", "allOf: In x does not hold"},
		"NoneOfHolds":               {"noneOf", `{"key":"S/x","operator":"In","values":["{{name}}"]}`, `{"name":"a"}`, "no", "no", "noneOf: In x holds"},
		"EmptyListRendersAsNothing": {"noneOf", `{"key":"S/x","operator":"In","values":["{{#asList}}a.b{{/asList}}"]}`, `{"a":{"b":[]}}`, "yes", "no", "noneOf: In x is unknown"},
	}
	for name, c := range cases {
		for mode, want := range map[string]string{"loose": c.loose, "strict": c.strict} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				limiter := fmt.Sprintf(`{"strict":%t,%q:[%s]}`, mode == "strict", c.group, strings.ReplaceAll(c.requirement, "S/", Domain))
				l, err := New(Settings{Limiter: decode(t, limiter), Annotations: decode(t, annotations)})
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second answer comes from what the first has left
					allowed, why, err := l.Allows(decode(t, c.finding))
					got := map[bool]string{true: "yes", false: "no"}[allowed]
					if err != nil {
						got = "error"
					}
					if got != want || mode == "strict" && why != c.why {
						t.Errorf("in scope: %s (%q, %v), want %s (%q)", got, why, err, want, c.why)
					}
				}
			})
		}
	}
}

func TestMistakes(t *testing.T) {
	cases := map[string]struct{ limiter, says string }{
		"NoObject":        {`{"l":[]}`, "scopeLimiter is not an object"},
		"GroupNoList":     {`{"l":{"allOf":{}}}`, "scopeLimiter.allOf is not a list"},
		"NoRequirement":   {`{"l":{"allOf":[7]}}`, "scopeLimiter.allOf: a requirement is not an object"},
		"OtherKey":        {`{"l":{"anyOf":[{"key":"a","operator":"In","values":[]}]}}`, `scopeLimiter.anyOf: key "a" does not start with ` + Domain},
		"NoSuchOperator":  {`{"l":{"anyOf":[{"key":"` + Domain + `x","operator":"constructor","values":["a"]}]}}`, `scopeLimiter.anyOf: there is no operator "constructor"; there are In,`},
		"NoValues":        {`{"l":{"noneOf":[{"key":"` + Domain + `x","operator":"In"}]}}`, "scopeLimiter.noneOf: operator In: the requirement has no values"},
		"ValueNoText":     {`{"l":{"noneOf":[{"key":"` + Domain + `x","operator":"In","values":[7]}]}}`, "scopeLimiter.noneOf: operator In: values[0] is not text"},
		"BadTemplate":     {`{"l":{"noneOf":[{"key":"` + Domain + `x","operator":"In","values":["{{#a}}"]}]}}`, `scopeLimiter.noneOf: operator In: values[0]: template "{{#a}}"`},
		"NoAnnotation":    {`{"l":{"noneOf":[{"key":"` + Domain + `y","operator":"In","values":["a"]}]}}`, "operator In: the Scan has no annotation " + Domain + "y"},
		"BadNetwork":      {`{"l":{"allOf":[{"key":"` + Domain + `x","operator":"InCIDR","values":["10.0.0.1"]}]}}`, `annotation ` + Domain + `x: "a" is not an IP address or network`},
		"LambdaForEver":   {`{"l":{"allOf":[{"key":"` + Domain + `x","operator":"In","values":["{{#split}}{{#asList}}a{{/asList}}{{/split}}"]}]}}`, `asList: the path "a" needs at least 2 levels`},
		"LaterIsLookedAt": {`{"l":{"allOf":[{"key":"` + Domain + `x","operator":"In","values":["b"]}],"noneOf":[{"key":"a","operator":"In","values":[]}]}}`, `scopeLimiter.noneOf: key "a"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			limiter, _ := decode(t, c.limiter).Get("l")
			l, err := New(Settings{Limiter: limiter, Annotations: decode(t, annotations)})
			if err == nil {
				_, _, err = l.Allows(decode(t, `{}`))
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
}

func FuzzAllows(f *testing.F) {
	f.Add("In", "{{#asList}}a.b{{/asList}}", `{"a":{"b":["x",null,{"c":1}]}}`)
	f.Add("SubdomainOf", "{{{location}}}", `{"location":"https://user@a.example.com:443/?"}`)
	f.Add("InCIDR", "{{#split}}{{ips}}{{/split}}", `{"ips":["10.0.0.1/8","::1%eth0"]}`)
	f.Fuzz(func(t *testing.T, operator, value, one string) {
		v, err := finding.DecodeValue([]byte(one), 50)
		object, ok := v.(finding.Object)
		if err != nil || !ok {
			return
		}
		for _, strict := range []bool{false, true} {
			requirement := finding.Object{{Key: "key", Value: Domain + "v4"}, {Key: "operator", Value: operator}, {Key: "values", Value: []any{value}}}
			l, err := New(Settings{
				Limiter:     finding.Object{{Key: "strict", Value: strict}, {Key: "allOf", Value: []any{requirement}}},
				Annotations: decode(t, annotations),
			})
			if err != nil {
				t.Fatal(err)
			}
			allowed, why, err := l.Allows(object)
			if allowed == (why != "" || err != nil) {
				t.Errorf("allowed %t, why %q, error %v", allowed, why, err)
			}
		}
	})
}
