// SPDX-License-Identifier: Apache-2.0

package findings_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/clitest"
	"github.com/scanyard/scanyard/cli/session"
)

// TestUnreached: findings of a scan that has reached nothing are told apart from those of one in good health.
func TestUnreached(t *testing.T) {
	w := clitest.New(t, cluster)
	reached := func(status metav1.ConditionStatus, message string) func(*executionv1.Scan) {
		return func(s *executionv1.Scan) {
			s.Status.Findings.Count = ptr.To[int64](0)
			meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
				Type: executionv1.ConditionTargetReached, Status: status, Reason: "x", Message: message,
			})
		}
	}
	w.Scan("gone", []byte("[]"), nil, reached(metav1.ConditionFalse, "0 of 1 hosts answered"))
	w.Scan("unknown", []byte("[]"), nil, reached(metav1.ConditionUnknown, "an empty list says nothing"))
	w.Scan("well", []byte("[]"), nil, reached(metav1.ConditionTrue, "1 of 1 hosts answered"))
	for name, tt := range map[string]struct {
		args     []string
		code     int
		out, err string
	}{
		"Gone":          {[]string{"findings", "gone"}, session.CodeDone, "", "nothing was reached: 0 of 1 hosts answered\nno findings\n"},
		"FailOn":        {[]string{"findings", "gone", "--fail-on", "high"}, session.CodeUnreached, "", "--fail-on: nothing was reached: 0 of 1 hosts answered (--allow-unreached lets it pass)"},
		"Allowed":       {[]string{"findings", "gone", "--fail-on", "high", "--allow-unreached"}, session.CodeDone, "", "nothing was reached: 0 of 1"},
		"JUnit":         {[]string{"findings", "gone", "-o", "junit"}, session.CodeDone, `errors="1"`, "nothing was reached"},
		"JUnitAllowed":  {[]string{"findings", "gone", "-o", "junit", "--allow-unreached"}, session.CodeDone, `errors="0"`, "nothing was reached"},
		"JSON":          {[]string{"findings", "gone", "-o", "json"}, session.CodeDone, "[]\n", "nothing was reached"},
		"Unknown":       {[]string{"findings", "unknown", "--fail-on", "low"}, session.CodeDone, "", "whether anything was reached is not known: an empty list says nothing\nno findings\n"},
		"Well":          {[]string{"findings", "well", "--fail-on", "low"}, session.CodeDone, "", "no findings\n"},
		"Diff":          {[]string{"diff", "well", "gone", "--fail-on", "low"}, session.CodeUnreached, "", "gone: nothing was reached: 0 of 1 hosts answered\n"},
		"DiffOfTheOld":  {[]string{"diff", "gone", "well", "--fail-on", "low"}, session.CodeDone, "", "gone: nothing was reached: 0 of 1 hosts answered\n"},
		"DiffIfAllowed": {[]string{"diff", "well", "gone", "--fail-on", "low", "--allow-unreached"}, session.CodeDone, "", "gone: nothing was reached"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.Run(tt.args...)
			if got.Code != tt.code || !strings.Contains(got.Out, tt.out) || !strings.Contains(got.Err, tt.err) || name == "Well" && got.Err != tt.err {
				t.Errorf("exit code %d\n%s--- stderr\n%s", got.Code, got.Out, got.Err)
			}
		})
	}
}
