// SPDX-License-Identifier: Apache-2.0

package names_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/scanyard/scanyard/apis/names"
)

func TestDerive(t *testing.T) {
	cases := map[string]struct {
		reason string
		prefix string
		want   string
	}{
		"Short":       {"the readable part stays whole", "scan-nightly", "scan-nightly-"},
		"Long":        {"the readable part is cut to fit a label value", "scan-" + strings.Repeat("a", 253), "scan-" + strings.Repeat("a", 47) + "-"},
		"CutAtDot":    {"a name must not have a dot beside the hyphen", "scan-" + strings.Repeat("a", 46) + ".b", "scan-" + strings.Repeat("a", 46) + "-"},
		"OnlySpecial": {"a prefix without a usable character leaves the hash", "...", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := names.Derive(tc.prefix, "8f7c1f6e-0c53-4a4e-9d3a-0f4a6f0a1b2c", "scanner", "1")
			if !strings.HasPrefix(got, tc.want) || len(got) != len(tc.want)+names.HashDigits {
				t.Errorf("%s: Derive(%q) = %q, want %q and %d digits", tc.reason, tc.prefix, got, tc.want, names.HashDigits)
			}
			if errs := validation.IsDNS1123Subdomain(got); len(errs) > 0 {
				t.Errorf("Derive(%q) = %q is not a valid name: %v", tc.prefix, got, errs)
			}
			if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
				t.Errorf("Derive(%q) = %q is not a valid label value: %v", tc.prefix, got, errs)
			}
		})
	}
}

// TestDeriveKnowsWhereAPartEnds tells lists of parts apart that join to the same text.
func TestDeriveKnowsWhereAPartEnds(t *testing.T) {
	if names.Derive("x", "ab", "c") == names.Derive("x", "a", "bc") {
		t.Error("two lists of parts share a name")
	}
}

func TestLabelValue(t *testing.T) {
	long := strings.Repeat("hook.", 30)
	cases := map[string]struct{ in, wantPrefix string }{
		"Valid":   {"generic-webhook", "generic-webhook"},
		"TooLong": {long, long[:20]},
		"BadEnd":  {"hook-", "hook-"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := names.LabelValue(tc.in)
			if !strings.HasPrefix(got, tc.wantPrefix) {
				t.Errorf("LabelValue(%q) = %q, want prefix %q", tc.in, got, tc.wantPrefix)
			}
			if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
				t.Errorf("LabelValue(%q) = %q: %v", tc.in, got, errs)
			}
		})
	}
	if names.LabelValue(long) == names.LabelValue(long+"x") {
		t.Error("two long names share a label value")
	}
}
