// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/session"
)

// TestJudgeUnreached: a scan that has reached nothing never reads as green, and --fail-on fails on it unless it is allowed.
func TestJudgeUnreached(t *testing.T) {
	for name, tt := range map[string]struct {
		status  metav1.ConditionStatus
		message string
		high    int64
		failOn  string
		allowed bool
		says    string
		code    int
	}{
		"NothingReached": {"False", "0 of 1 hosts answered", 0, "", false, "scan gone is Done: nothing was reached: 0 of 1 hosts answered\n", session.CodeDone},
		"FailOn":         {"False", "0 of 1 hosts answered", 0, "LOW", false, "nothing was reached: 0 of 1 hosts answered\n", session.CodeUnreached},
		"Allowed":        {"False", "0 of 1 hosts answered", 0, "LOW", true, "nothing was reached: 0 of 1 hosts answered\n", session.CodeDone},
		"WithFindings":   {"False", "0 of 1 hosts answered on any port", 2, "", false, "on any port; 2 findings (2 high)\n", session.CodeDone},
		"ThresholdFirst": {"False", "x", 2, "LOW", false, "nothing was reached", session.CodeThreshold},
		"NotTold":        {"Unknown", "an empty list says nothing", 0, "LOW", false, "no findings; whether anything was reached is not known: an empty list says nothing\n", session.CodeDone},
		"NotToldFound":   {"Unknown", "x", 1, "", false, "is Done: 1 finding (1 high)\n", session.CodeDone},
		"Reached":        {"True", "1 of 1 hosts answered", 0, "LOW", false, "is Done: no findings\n", session.CodeDone},
		"NoCondition":    {"", "", 0, "LOW", false, "is Done: no findings\n", session.CodeDone},
		"Hostile":        {"False", "\x1b[31mred\n", 0, "", false, "nothing was reached: \ufffd[31mred\n", session.CodeDone},
	} {
		t.Run(name, func(t *testing.T) {
			s, out := newSession("")
			a := &waitOptions{session: s, failOn: tt.failOn, allowUnreached: tt.allowed, noExceptions: true}
			scan := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
			scan.Status.State = executionv1.ScanStateDone
			scan.Status.Findings = executionv1.FindingStats{Count: new(tt.high), FindingSeverities: executionv1.FindingSeverities{High: new(tt.high)}}
			if tt.status != "" {
				scan.Status.Conditions = []metav1.Condition{{Type: executionv1.ConditionTargetReached, Status: tt.status, Message: tt.message}}
			}
			code, err := session.Code(a.result(t.Context(), nil, scan))
			if code != tt.code || !strings.Contains(out.String(), tt.says) {
				t.Errorf("exit code %d (%v): %s", code, err, out)
			}
			if code == session.CodeUnreached && !strings.Contains(err.Error(), "--allow-unreached lets it pass") {
				t.Errorf("got %v", err)
			}
		})
	}
}
