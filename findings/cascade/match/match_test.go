// SPDX-License-Identifier: Apache-2.0

package match_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/cascade/match"
)

// load reads a table whose answers the JavaScript libraries gave that rules were written against: lodash and matcher.
func load[Row any](t *testing.T, name string) []Row {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

func decode(t testing.TB, text string) any {
	t.Helper()
	v, err := finding.DecodeValue([]byte(text), 0)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func TestPartialAsLodash(t *testing.T) {
	type row struct {
		Value, Wanted json.RawMessage
		Partial, Wild bool
	}
	for _, r := range load[row](t, "match.json") {
		value := decode(t, `{"k":`+string(r.Value)+`,"z":1}`)
		wanted := decode(t, `{"k":`+string(r.Wanted)+`}`)
		if got := match.Partial(value, wanted); got != r.Partial {
			t.Errorf("%s for %s: %t, want %t", r.Value, r.Wanted, got, r.Partial)
		}
		if got := match.PartialWild(value, wanted); got != r.Wild {
			t.Errorf("%s for %s with wildcards: %t, want %t", r.Value, r.Wanted, got, r.Wild)
		}
	}
}

func TestWildcardAsMatcher(t *testing.T) {
	type row struct {
		Text, Pattern string
		Want          bool
	}
	for _, r := range load[row](t, "wildcard.json") {
		if got := match.Wildcard(r.Text, r.Pattern); got != r.Want {
			t.Errorf("%q for %q: %t, want %t", r.Text, r.Pattern, got, r.Want)
		}
	}
}

func TestTopLevel(t *testing.T) {
	cases := map[string]struct {
		finding, wanted string
		want            bool
		reason          string
	}{
		"EmptyMatchesAll":    {`{"a":1}`, `{}`, true, "nothing is asked for"},
		"EmptyMatchesNull":   {`null`, `{}`, true, "not even of null"},
		"NullMatchesNothing": {`null`, `{"a":null}`, false, "null has no keys"},
		"NullIsAValue":       {`{"a":null}`, `{"a":null}`, true, "a key with null is there"},
		"MissingIsNotNull":   {`{}`, `{"a":null}`, false, "a missing key is not"},
		"HugeNumbers":        {`{"port":99999999999999999999}`, `{"port":1e20}`, true, "numbers are doubles"},
		"Infinity":           {`{"port":1e400}`, `{"port":2e400}`, true, "as in JavaScript"},
		"NumberIsNoText":     {`{"port":443}`, `{"port":"443"}`, false, "types differ"},
		"AllOrAll":           {`{"a":"!x","b":"https"}`, `{"a":"!x","b":"http*"}`, true, "!x is not x, so with wildcards all of it fits"},
		"NotHalfAndHalf":     {`{"a":"!*","b":"https"}`, `{"a":"!*","b":"http*"}`, false, "one part fits literally only, the other with wildcards only"},
		"Repeated":           {`{"a":1,"a":2}`, `{"a":2}`, true, "the last value of a key counts"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := match.Alternative(decode(t, c.finding), decode(t, c.wanted)); got != c.want {
				t.Errorf("%s: got %t", c.reason, got)
			}
		})
	}
}

func TestWildcardIsFast(t *testing.T) {
	text := strings.Repeat("a", 1<<20)
	if match.Wildcard(text, strings.Repeat("*a", 1000)+"*b") {
		t.Error("there is no b")
	}
}

// sample makes findings and conditions that are often near each other.
type sample struct{ *rand.Rand }

func (s sample) pick(texts ...string) string { return texts[s.IntN(len(texts))] }

func (s sample) scalar() string {
	return s.pick("443", "80", `"443"`, `"https"`, `"http"`, "null", "true", "-0", "0", `"!x"`, `"Open Port"`, `""`)
}

func (s sample) finding() string {
	return fmt.Sprintf(`{"category":%s,"name":%s,"attributes":%s,"severity":"LOW"}`, s.scalar(), s.scalar(), s.pick(
		"null", "[]", "{}", fmt.Sprintf(`{"port":%s,"service":%s,"list":[%s,{"a":%s}]}`, s.scalar(), s.scalar(), s.scalar(), s.scalar())))
}

func (s sample) wanted() string {
	return s.pick(s.scalar(), `"*"`, `"ht*"`, `"!http*"`, `"!!x"`, "[]", "{}", fmt.Sprintf("[%s]", s.scalar()))
}

func (s sample) condition() string {
	var members []string
	if s.IntN(2) == 0 {
		members = append(members, `"category":`+s.wanted())
	}
	if s.IntN(3) == 0 {
		members = append(members, `"name":`+s.wanted())
	}
	if s.IntN(2) == 0 {
		members = append(members, fmt.Sprintf(`"attributes":{"port":%s}`, s.wanted()))
	} else if s.IntN(2) == 0 {
		members = append(members, fmt.Sprintf(`"attributes":{"service":%s,"list":[{"a":%s}]}`, s.wanted(), s.wanted()))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// TestIndexAnswersAsBruteForce asks the index and then each rule.
func TestIndexAnswersAsBruteForce(t *testing.T) {
	hits := 0
	for seed := range uint64(200) {
		s := sample{rand.New(rand.NewPCG(seed, 7))}
		index := match.NewIndex()
		var rules [][]any
		for range 30 {
			var anyOf []any
			for range s.IntN(4) {
				anyOf = append(anyOf, decode(t, s.condition()))
			}
			if n := index.Add(anyOf); n != len(rules) {
				t.Fatalf("rule %d got number %d", len(rules), n)
			}
			rules = append(rules, anyOf)
		}
		for range 50 {
			text := s.finding()
			f := decode(t, text)
			var want []int
			for i, anyOf := range rules {
				if slices.ContainsFunc(anyOf, func(c any) bool { return match.Alternative(f, c) }) {
					want = append(want, i)
				}
			}
			got := slices.Clone(index.Match(f))
			slices.Sort(got)
			raw, err := index.MatchRaw([]byte(text))
			slices.Sort(raw)
			if err != nil || !slices.Equal(got, raw) {
				t.Fatalf("seed %d, finding %s matches %v undecoded (%v), decoded %v", seed, text, raw, err, got)
			}
			hits += len(got)
			if !slices.Equal(want, got) {
				t.Fatalf("seed %d, finding %s matches %v, want %v", seed, text, got, want)
			}
		}
	}
	if hits == 0 {
		t.Error("nothing was ever matched")
	}
}

func FuzzWildcard(f *testing.F) {
	f.Add("https-alt", "https*")
	f.Add("a\nb", "!a*b")
	f.Fuzz(func(t *testing.T, text, pattern string) {
		if strings.ToValidUTF8(text+pattern, "") != text+pattern {
			return // the regular expressions of Go see these otherwise
		}
		rest, negated := strings.CutPrefix(pattern, "!")
		parts := strings.Split(rest, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		re, err := regexp.Compile(`(?s)^` + strings.Join(parts, ".*") + `$`)
		if err != nil {
			return // longer than Go compiles
		}
		if want := re.MatchString(text) != negated; match.Wildcard(text, pattern) != want {
			t.Errorf("%q for %q: want %t", text, pattern, want)
		}
	})
}

func FuzzAlternative(f *testing.F) {
	f.Add(`{"category":"Open Port","attributes":{"port":443}}`, `{"attributes":{"port":443,"service":"!*"}}`)
	f.Add(`{"a":[1,"x",{"b":[]}]}`, `{"a":["x*",{}]}`)
	f.Add(` { "a" : { "b" : "\"}" , "c":-1e3 } , "a":{"b":"ü"} } `, `{"a":{"b":"ü"}}`)
	f.Fuzz(func(t *testing.T, value, condition string) {
		v, err := finding.DecodeValue([]byte(value), 50)
		if err != nil {
			return
		}
		c, err := finding.DecodeValue([]byte(condition), 50)
		if err != nil {
			return
		}
		want := match.Alternative(v, c)
		index := match.NewIndex()
		index.Add([]any{c})
		if got := len(index.Match(v)) > 0; got != want {
			t.Errorf("the index says %t", got)
		}
		if raw, err := index.MatchRaw([]byte(value)); err != nil || len(raw) > 0 != want {
			t.Errorf("the index says %v without decoding (%v), want %t", raw, err, want)
		}
		// Whatever matches goes on to match when the finding has more to say.
		if object, ok := v.(finding.Object); ok && match.Partial(v, c) {
			if !match.Partial(append(slices.Clone(object), finding.Member{Key: "\x00more", Value: 1.0}), c) {
				t.Error("a further key changes the answer")
			}
		}
	})
}
