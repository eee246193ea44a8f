// SPDX-License-Identifier: Apache-2.0

package distribution

import (
	"fmt"
	"net/url"
	"testing"
)

func TestParseChallenges(t *testing.T) {
	for text, want := range map[string]string{
		`Bearer realm="https://auth.example.com/token",service="registry",scope="repository:a/b:pull,push"`: `[{bearer map[realm:https://auth.example.com/token scope:repository:a/b:pull,push service:registry]}]`,
		`Basic realm="a \"b\" c"`:               `[{basic map[realm:a "b" c]}]`,
		`Negotiate, Basic realm=x`:              `[{negotiate map[]} {basic map[realm:x]}]`,
		`BASIC Realm = "x" , Bearer realm="y"`:  `[{basic map[realm:x]} {bearer map[realm:y]}]`,
		`Bearer realm=https://a.example.com/t`:  `[{bearer map[realm:https://a.example.com/t]}]`,
		`Bearer realm="open`:                    `[{bearer map[]}]`,
		`Bearer realm="a\`:                      `[{bearer map[]}]`,
		`realm="x"`:                             `[]`,
		``:                                      `[]`,
		`"`:                                     `[]`,
		`Bearer realm="x", error="invalid" , ,`: `[{bearer map[error:invalid realm:x]}]`,
	} {
		if got := fmt.Sprint(parseChallenges([]string{text})); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func page(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse("https://registry.example.com:5000/v2/a/tags/list?n=1000")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestNextPage(t *testing.T) {
	for text, want := range map[string]string{
		`</v2/a/tags/list?last=x&n=5>; rel="next"`:                    "https://registry.example.com:5000/v2/a/tags/list?last=x&n=5 false",
		`<list?last=x>;rel=next`:                                      "https://registry.example.com:5000/v2/a/tags/list?last=x false",
		`<?last=x>; title="a, b"; REL="NEXT"`:                         "https://registry.example.com:5000/v2/a/tags/list?last=x false",
		`<https://Registry.Example.com:5000/v2/x?last=y#f>; rel=next`: "https://registry.example.com:5000/v2/x?last=y false",
		`</first>; rel="first", </second>; rel="next"`:                "https://registry.example.com:5000/second false",
		`<https://registry.example.com/v2/x>; rel="next"`:             "https://registry.example.com:5000/v2/x false",
		`<http://registry.example.com:5000/v2/x>; rel="next"`:         "https://registry.example.com:5000/v2/x false",
		`<https://u:p@registry.example.com:5000/v2/x>; rel="next"`:    "<nil> true",
		`<//evil.example.org/v2/x>; rel="next"`:                       "<nil> true",
		`</v2/x>`:                                                     "<nil> false",
		`</v2/x>; rel="prev"`:                                         "<nil> false",
		`</v2/x`:                                                      "<nil> false",
		`</v2/%zz>; rel="next"`:                                       "<nil> false",
		`rel="next"`:                                                  "<nil> false",
		``:                                                            "<nil> false",
		`<:>; rel=next, </b>; rel=next`:                               "https://registry.example.com:5000/b false",
	} {
		next, foreign := nextPage([]string{text}, page(t))
		if got := fmt.Sprint(next, foreign); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func FuzzNextPage(f *testing.F) {
	f.Add(`</v2/a/tags/list?last=x&n=5>; rel="next"`)
	f.Add(`<a>; rel="x", <b>; rel=next; title="c, <d>"`)
	f.Fuzz(func(t *testing.T, text string) {
		at := page(t)
		next, foreign := nextPage([]string{text}, at)
		if next != nil && (foreign || next.Scheme != at.Scheme || next.User != nil || next.Host != at.Host) {
			t.Errorf("%q leads to %s", text, next)
		}
	})
}

func FuzzChallenges(f *testing.F) {
	f.Add(`Bearer realm="https://auth.example.com/token",service="registry"`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range parseChallenges([]string{text}) {
			if c.scheme == "" {
				t.Errorf("%q has a challenge without a scheme", text)
			}
		}
	})
}
