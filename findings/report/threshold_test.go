// SPDX-License-Identifier: Apache-2.0

package report

import "testing"

func TestParseThreshold(t *testing.T) {
	for text, want := range map[string]string{
		"high": "high", "Med": "medium", "INFO": "informational", "low": "low", "critical": "critical", "CRI": "critical",
	} {
		if got, err := ParseThreshold(text); err != nil || got.String() != want {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "h", "lo", "hgih"} {
		if got, err := ParseThreshold(bad); err == nil {
			t.Errorf("%q is taken for %s", bad, got)
		}
	}
}
