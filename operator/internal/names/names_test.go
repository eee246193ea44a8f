// SPDX-License-Identifier: Apache-2.0

package names

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

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

// TestHookAccess knows a hook by its name and by the label value that stands for it.
func TestHookAccess(t *testing.T) {
	long := strings.Repeat("hook.", 30)
	if HookAccess(long, "u") != HookAccess(LabelValue(long), "u") {
		t.Error("a long hook name and its label value name different Roles")
	}
}
