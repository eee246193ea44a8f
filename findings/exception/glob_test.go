// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"regexp"
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	for pattern, texts := range map[string]struct{ fit, not []string }{
		"abc":     {[]string{"abc"}, []string{"", "ab", "abcd", "ABC"}},
		"a*":      {[]string{"a", "abc", "a\nb"}, []string{"", "ba"}},
		"*c":      {[]string{"c", "abc"}, []string{"", "ca"}},
		"a*b*c":   {[]string{"abc", "a--b--c", "abbcc", "abcbc"}, []string{"ac", "acb", "ab"}},
		"a?c":     {[]string{"abc", "aüc", "a?c"}, []string{"ac", "abbc"}},
		"?":       {[]string{"ü", "x"}, []string{"", "xy"}},
		"*?":      {[]string{"x", "xy"}, []string{""}},
		"a*?c":    {[]string{"abc", "abbc"}, []string{"ac"}},
		"*a?c*":   {[]string{"abc", "xxabcxx", "aacabc"}, []string{"ac"}},
		"??*??":   {[]string{"abcd", "abcde"}, []string{"abc"}},
		"a*aa":    {[]string{"aaa", "aabaa"}, []string{"aa"}},
		"https:*": {[]string{"https://a"}, []string{"http://a"}},
		"[a-c]":   {[]string{"[a-c]"}, []string{"b"}},
		"":        {[]string{""}, []string{"a"}},
		"**":      {[]string{"", "abc"}, nil},
	} {
		g := compileGlob(pattern)
		for _, text := range texts.fit {
			if !g.fits(text) {
				t.Errorf("%q does not fit %q", pattern, text)
			}
		}
		for _, text := range texts.not {
			if g.fits(text) {
				t.Errorf("%q fits %q", pattern, text)
			}
		}
	}
}

// A glob answers as the regular expression that says the same.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{{"a*b?c", "axxbyc"}, {"*?*", "ü"}, {"??", "a"}, {"a*a*a", "aaaa"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 100 || len(text) > 1000 || strings.ToValidUTF8(pattern, "") != pattern || strings.ToValidUTF8(text, "") != text {
			t.Skip()
		}
		quoted := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
		want := regexp.MustCompile(`\A(?s:` + quoted + `)\z`).MatchString(text)
		g := compileGlob(pattern)
		if got := g.fits(text); got != want {
			t.Errorf("%q fits %q: %t, want %t", pattern, text, got, want)
		}
		if want && !strings.HasPrefix(text, g.prefix()) {
			t.Errorf("%q fits %q, which does not begin with %q", pattern, text, g.prefix())
		}
	})
}
