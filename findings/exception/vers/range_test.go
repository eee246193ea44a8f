// SPDX-License-Identifier: Apache-2.0

package vers_test

import (
	"strings"
	"testing"

	"github.com/scanyard/scanyard/findings/exception/vers"
)

func TestContains(t *testing.T) {
	for text, versions := range map[string]struct{ in, out string }{
		"vers:npm/*":                              {"1.0.0 0.0.1-alpha", ""},
		"vers:npm/1.2.3":                          {"1.2.3 v1.2.3", "1.2.4 1.2.3-rc.1"},
		"vers:npm/=1.2.3":                         {"1.2.3", "1.2.2"},
		"vers:npm/<4.17.21":                       {"4.17.20 0.1.0 4.17.21-rc.1", "4.17.21 5.0.0"},
		"vers:npm/<=4.17.21":                      {"4.17.21", "4.17.22"},
		"vers:npm/>1.0.0":                         {"1.0.1 2.0.0", "1.0.0 0.9.0"},
		"vers:npm/>=4.0.0|<4.17.21":               {"4.0.0 4.17.20", "3.9.9 4.17.21"},
		"vers:npm/<4.17.21|>=4.0.0":               {"4.0.0 4.17.20", "3.9.9 4.17.21"},
		"vers:npm/ >= 4.0.0 | < 4.17.21 ":         {"4.0.0", "3.9.9"},
		"vers:npm/1.2.3|>=2.0.0|<5.0.0":           {"1.2.3 2.0.0 4.9.9", "1.2.4 5.0.0"},
		"vers:npm/>=1.0.0|!=1.5.0|<2.0.0":         {"1.4.9 1.5.1", "1.5.0 2.0.0"},
		"vers:npm/!=1.5.0":                        {"1.4.9 9.0.0", "1.5.0"},
		"vers:npm/<1.0.0|>=2.0.0":                 {"0.9.0 2.0.0 3.0.0", "1.0.0 1.9.9"},
		"vers:npm/<1.0.0|>=2.0.0|<3.0.0|>=4.0.0":  {"0.9.0 2.0.0 2.9.9 4.0.0", "1.0.0 3.0.0 3.9.9"},
		"vers:golang/>=v1.2.0|<v1.2.4":            {"v1.2.0 1.2.3", "v1.2.4"},
		"vers:golang/<v0.0.0-20220412211240-33da": {"v0.0.0-20210101000000-abcd", "v0.0.0-20230101000000-abcd v0.1.0"},
		"vers:deb/<1:1.2.13.dfsg-1%2Bdeb12u1":     {"1:1.2.13.dfsg-1 1.3.0", "1:1.2.13.dfsg-1+deb12u1 2:0.1"},
		"vers:deb/<2.36-9~rc2":                    {"2.36-9~rc1", "2.36-9"},
		"vers:rpm/>=1.1.1k-7.el8|<1.1.1k-9.el8":   {"1.1.1k-7.el8 1.1.1k-8.el8", "1.1.1k-9.el8 1:1.1.1k-8.el8"},
		"vers:alpine/<3.0.8-r4":                   {"3.0.8-r3 3.0.8_rc1-r9", "3.0.8-r4"},
		"vers:apk/<3.0.8-r4":                      {"3.0.8-r3", "3.0.8-r4"},
		"vers:pypi/<2.0.0":                        {"2.0.0rc1 1.9 2.0.0.dev1", "2.0.0 1!0.1"},
		"vers:gem/>=5.2|<5.2.4.3":                 {"5.2 5.2.4.2 5.2.1.pre", "5.2.4.3 5.2.0.beta"},
		"vers:maven/<2.15.0":                      {"2.14.1 2.15.0-rc1", "2.15.0 2.15.0.RELEASE1"},
		"vers:nuget/>=1.2.3.4|<1.2.3.10":          {"1.2.3.4 1.2.3.9", "1.2.3.10"},
		"vers:composer/<6.4.24":                   {"6.4.9", "6.4.24"},
	} {
		r, err := vers.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for want, list := range map[bool]string{true: versions.in, false: versions.out} {
			for v := range strings.FieldsSeq(list) {
				if got, err := r.Contains(v); err != nil || got != want {
					t.Errorf("%s contains %s: %t, %v; want %t", text, v, got, err, want)
				}
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "must look like vers:npm/",
		"npm/1.0.0":                 "must look like vers:npm/",
		"vers:npm":                  "must look like vers:npm/",
		"vers:npm/":                 "must have a version",
		"vers:npm/>=":               "must have a version",
		"vers:npm/1.0.0|*":          "must have a version",
		"vers:npm/1.0.0||2.0.0":     "must have a version",
		"vers:cobol/1.0.0":          `versions of "cobol" cannot be compared; there are alpine, apk, cargo`,
		"vers:npm/<banana":          `constraint "<banana"`,
		"vers:npm/%zz":              `constraint "%zz"`,
		"vers:npm/>=1.0.0|<1.0.0":   "a version is in two constraints",
		"vers:npm/1.0.0|v1.0.0":     "a version is in two constraints",
		"vers:npm/1.0.0|!=1.0.0":    "a version is in two constraints",
		"vers:npm/" + many(101):     "101 constraints, 100 are allowed",
		"vers:deb/<not a version !": "constraint",
	} {
		if r, err := vers.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, %v; want an error with %q", text, r, err, want)
		}
	}
}

func many(n int) string { return strings.Repeat("1.0.0|", n-1) + "1.0.0" }

// A version that is none is neither in a range nor outside of it.
func TestContainsRefusesWhatIsNoVersion(t *testing.T) {
	r, err := vers.Parse("vers:npm/<1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if in, err := r.Contains("banana"); err == nil || in {
		t.Errorf("%t, %v", in, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"vers:npm/>=1.0.0|<2.0.0", "vers:deb/<1:1%2B2", "vers:pypi/*", "vers:rpm/!=1", "vers:maven/1|2|3", "vers:gem/<1.a"} {
		f.Add(seed, "1.0.0")
	}
	f.Fuzz(func(_ *testing.T, text, v string) {
		if r, err := vers.Parse(text); err == nil {
			_, _ = r.Contains(v) // must end, and not panic
		}
	})
}
