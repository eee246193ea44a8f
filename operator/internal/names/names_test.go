// SPDX-License-Identifier: Apache-2.0

package names

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestJob(t *testing.T) {
	const uid = types.UID("8f7c1f6e-0c53-4a4e-9d3a-0f4a6f0a1b2c")
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
			got := Job(tc.prefix, uid, "scanner", 1)
			if !strings.HasPrefix(got, tc.want) || len(got) != len(tc.want)+hashDigits {
				t.Errorf("%s: Job(%q) = %q, want %q and %d digits", tc.reason, tc.prefix, got, tc.want, hashDigits)
			}
			if errs := validation.IsDNS1123Subdomain(got); len(errs) > 0 {
				t.Errorf("Job(%q) = %q is no valid name: %v", tc.prefix, got, errs)
			}
			if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
				t.Errorf("Job(%q) = %q is no valid label value: %v", tc.prefix, got, errs)
			}
		})
	}
}

func TestJobDistinguishes(t *testing.T) {
	seen := map[string]string{}
	for _, uid := range []types.UID{"a", "b"} {
		for _, role := range []string{"scanner", "parser", "hook/x", "hook/xy"} {
			for _, attempt := range []int{1, 2, 11} {
				name := Job("scan-s", uid, role, attempt)
				key := string(uid) + "|" + role
				if before, dup := seen[name]; dup {
					t.Errorf("%q names both %q and %q", name, before, key)
				}
				seen[name] = key
				if again := Job("scan-s", uid, role, attempt); again != name {
					t.Errorf("the same Job is called %q and %q", name, again)
				}
			}
		}
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
			got := LabelValue(tc.in)
			if !strings.HasPrefix(got, tc.wantPrefix) {
				t.Errorf("LabelValue(%q) = %q, want prefix %q", tc.in, got, tc.wantPrefix)
			}
			if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
				t.Errorf("LabelValue(%q) = %q: %v", tc.in, got, errs)
			}
		})
	}
	if HookAccess(long, "u") != HookAccess(LabelValue(long), "u") {
		t.Error("a long hook name and its label value name different Roles")
	}
	if LabelValue(long) == LabelValue(long+"x") {
		t.Error("two long names share a label value")
	}
}
