// SPDX-License-Identifier: Apache-2.0

package termsafe_test

import (
	"testing"

	"github.com/scanyard/scanyard/cli/termsafe"
)

func TestColumns(t *testing.T) {
	for text, want := range map[string]struct {
		width int
		fit   string // to 5 columns
	}{
		"":             {0, ""},
		"abc":          {3, "abc"},
		"abcde":        {5, "abcde"},
		"abcdef":       {6, "abcd…"},
		"漏洞":           {4, "漏洞"},
		"漏洞扫描":         {8, "漏洞…"},
		"e\u0301tude":  {5, "e\u0301tude"},
		"a\u200bb":     {2, "a\u200bb"},
		"äöüßäö":       {6, "äöüß…"},
		"\xff\xfe":     {2, "\xff\xfe"},
		"Ω≈ç√∫":        {5, "Ω≈ç√∫"},
		"👩‍👩‍👧 family": {9, "👩‍👩‍👧 f…"},
	} {
		if got := termsafe.Width(text); got != want.width {
			t.Errorf("width of %q is %d, want %d", text, got, want.width)
		}
		if got := termsafe.Fit(text, 5); got != want.fit {
			t.Errorf("%q becomes %q, want %q", text, got, want.fit)
		}
	}
}
