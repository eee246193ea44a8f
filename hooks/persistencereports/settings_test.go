// SPDX-License-Identifier: Apache-2.0

package persistencereports

import (
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	for name, c := range map[string]struct{ key, value, says string }{
		"Group":         {"REPORTS_GROUP", "example.com", "want wgpolicyk8s.io or openreports.io"},
		"Chunk":         {"REPORTS_CHUNK_RESULTS", "1001", "want 1000 at most"},
		"NoChunk":       {"REPORTS_CHUNK_RESULTS", "0", "want a number of 1 or more"},
		"Severity":      {"REPORTS_MIN_SEVERITY", "critical", "want INFORMATIONAL, LOW, MEDIUM or HIGH"},
		"Informational": {"REPORTS_INFORMATIONAL_RESULT", "ok", "want one of pass, fail, warn, error, skip"},
		"Zero":          {"REPORTS_ZERO_FINDINGS", "perhaps", "neither true nor false"},
		"Keep":          {"REPORTS_KEEP", "perhaps", "neither true nor false"},
		"History":       {"REPORTS_HISTORY_PER_SCHEDULE", "-1", "want a number of 1 or more"},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{c.key: c.value}
			_, err := newHandler(func(key string) (string, bool) { value, ok := env[key]; return value, ok })
			if err == nil || !strings.Contains(err.Error(), c.key) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %s and %q", err, c.key, c.says)
			}
		})
	}
}
