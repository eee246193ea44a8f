// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// TestTooLargeScanFails: the cause and what to do are told.
func TestTooLargeScanFails(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*executionv1.Scan)
		want string
	}{
		"Spec": {func(s *executionv1.Scan) { s.Spec.Volumes = []corev1.Volume{{Name: strings.Repeat("x", largestScan)}} }, "more than the 256 KiB"},
		"Labels": {func(s *executionv1.Scan) {
			s.Labels = map[string]string{"a": strings.Repeat("x", LargestLabels)}
		}, "metadata.labels have 8 KiB"},
		"Largest": {func(s *executionv1.Scan) { s.Spec.Parameters = []string{strings.Repeat("x", largestScan-1024)} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(observationOf(testobjects.Scan("s", tc.edit)))
			if tc.want == "" {
				if d.Step == "Invalid" {
					t.Errorf("step %s: %s", d.Step, d.Status.ErrorDescription)
				}
				return
			}
			if d.Status == nil || d.Status.State != executionv1.ScanStateErrored || !strings.Contains(d.Status.ErrorDescription, tc.want) {
				t.Errorf("step %s, status %+v, want Errored with %q", d.Step, d.Status, tc.want)
			}
		})
	}
}
