// SPDX-License-Identifier: Apache-2.0

package termsafe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/cli/termsafe"
)

func TestWrap(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		most int
		want []string
	}{
		"Empty":     {"", 5, []string{""}},
		"Fits":      {"a b c", 5, []string{"a b c"}},
		"NoBound":   {"a b c", 0, []string{"a b c"}},
		"Words":     {"one two three", 7, []string{"one two", "three"}},
		"Exact":     {"one two", 3, []string{"one", "two"}},
		"LongWord":  {"a nmap-service-versions b", 6, []string{"a", "nmap-service-versions", "b"}},
		"LongFirst": {"nmap-service-versions b", 6, []string{"nmap-service-versions", "b"}},
		"Spaces":    {`-p  "a  b" c`, 10, []string{`-p  "a  b"`, "c"}},
		"Wide":      {"漏洞 扫描 ab", 7, []string{"漏洞", "扫描 ab"}},
		"Narrowest": {"ab cd", 1, []string{"ab", "cd"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, termsafe.Wrap(tc.text, tc.most)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
