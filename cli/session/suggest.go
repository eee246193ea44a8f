// SPDX-License-Identifier: Apache-2.0

package session

import "strings"

// Suggest returns a command of this program for a user to type, with the flags that choose the cluster and
// the namespace of this call.
func (s *Session) Suggest(args ...string) string {
	parts := append([]string{s.Program}, args...)
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"-n", s.ConfigFlags.Namespace},
		{"--context", s.ConfigFlags.Context},
		{"--kubeconfig", s.ConfigFlags.KubeConfig},
		{"--as", s.ConfigFlags.Impersonate},
	} {
		if f.value != nil && *f.value != "" {
			parts = append(parts, f.name, *f.value)
		}
	}
	return strings.Join(parts, " ")
}
