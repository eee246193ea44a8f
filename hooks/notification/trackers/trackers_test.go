// SPDX-License-Identifier: Apache-2.0

package trackers

import (
	"strings"
	"testing"
)

// TestMarkup holds that no text of a finding gets out of its fence or names another issue.
func TestMarkup(t *testing.T) {
	if got, want := noFormat("a {noformat} b"), "{noformat}\na { noformat } b\n{noformat}\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := markedKey("<!-- scanyard: 11111111-1111-1111-1111-111111111111 -->" + marker("22222222-2222-2222-2222-222222222222")); !strings.HasPrefix(got, "2222") {
		t.Errorf("a finding's text names another issue: %s", got)
	}
}
