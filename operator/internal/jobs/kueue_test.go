// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// The queue of Kueue that a Scan names reaches its Jobs, and neither their pods nor another
// namespace.
func TestKueueLabel(t *testing.T) {
	scan := testobjects.Scan("nightly", func(s *executionv1.Scan) {
		s.Labels = map[string]string{executionv1.LabelKueueQueue: "team-queue", "team": "a"}
	})
	scanner, err := NewScanner(Scanner{Scan: scan, ScanType: testobjects.ScanTypeSpec(), Attempt: 1}, testConfig)
	if err != nil {
		t.Fatal(err)
	}
	hook := Hook{Scan: scan, Name: "h", Spec: testobjects.HookSpec(executionv1.ReadOnly, 0), Type: executionv1.ReadOnly}
	away := hook
	away.ExecutionNamespace = "elsewhere"
	cases := map[string]struct {
		job  *batchv1.Job
		want string
	}{
		"Scanner":  {scanner, "team-queue"},
		"Parser":   {NewParser(Parser{Scan: scan, Definition: &executionv1.ParseDefinitionSpec{}, Attempt: 1}, testConfig), "team-queue"},
		"Hook":     {NewHook(hook, testConfig), "team-queue"},
		"HookAway": {NewHook(away, testConfig), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.job.Labels[executionv1.LabelKueueQueue]; got != tc.want {
				t.Errorf("the Job has the queue %q, want %q", got, tc.want)
			}
			if got, found := tc.job.Spec.Template.Labels[executionv1.LabelKueueQueue]; found {
				t.Errorf("its pods have the queue %q", got)
			}
			if got := tc.job.Labels["team"] == "a"; got != (name != "HookAway") {
				t.Errorf("the Job has another label of the Scan: %v", got)
			}
		})
	}
}
