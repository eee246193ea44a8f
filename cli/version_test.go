// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
)

// TestVersion tells of the program also where no cluster is.
func TestVersion(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want []string
	}{
		{"client", []string{"version", "--client"}, []string{"scanyard v1 ("}},
		{"flag", []string{"--version"}, []string{"scanyard v1 ("}},
		{"no cluster", []string{"version", "--kubeconfig", "/nonexistent/config"}, []string{"scanyard v1 (", "kubernetes: not asked, since", "/nonexistent/config"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, root, out := newRoot(t, "scanyard")
			root.SetArgs(tc.args)
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q lacks %q", out, want)
				}
			}
		})
	}
}

// TestColor: the flag decides over what the terminal says.
func TestColor(t *testing.T) {
	for value, want := range map[string]bool{"always": true, "never": false, "auto": false} {
		s, root, _ := newRoot(t, "scanyard")
		root.SetArgs([]string{"version", "--client", "--color", value})
		if err := root.Execute(); err != nil || s.Color != want {
			t.Errorf("--color %s: colored %t (%v), want %t", value, s.Color, err, want)
		}
	}
	s, root, _ := newRoot(t, "scanyard")
	root.SetArgs([]string{"version", "--client", "--color", "sometimes"})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "must be auto, always or never") || s.Color {
		t.Errorf("a wrong value: %v", err)
	}
}
