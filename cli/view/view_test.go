// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
}

func condition(kind string, status metav1.ConditionStatus, reason string, seconds int) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "says " + reason, LastTransitionTime: at(seconds)}
}

func stats(count int64, high, low *int64) executionv1.FindingStats {
	return executionv1.FindingStats{Count: &count, FindingSeverities: executionv1.FindingSeverities{High: high, Low: low}}
}

func TestFindings(t *testing.T) {
	for name, tc := range map[string]struct {
		stats executionv1.FindingStats
		want  string
	}{
		"NotYet": {executionv1.FindingStats{}, "no findings yet"},
		"None":   {stats(0, nil, nil), "no findings"},
		"One":    {stats(1, ptr.To[int64](1), nil), "1 finding (1 high)"},
		"Many":   {stats(7, ptr.To[int64](2), ptr.To[int64](5)), "7 findings (2 high, 5 low)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Findings(tc.stats); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAtOrAbove(t *testing.T) {
	f := stats(7, ptr.To[int64](2), ptr.To[int64](5))
	for severity, want := range map[string]int64{"HIGH": 2, "MEDIUM": 2, "LOW": 7, "INFORMATIONAL": 7} {
		if got := AtOrAbove(f, severity); got != want {
			t.Errorf("%s: got %d, want %d", severity, got, want)
		}
	}
}

func TestNext(t *testing.T) {
	scan := func(state executionv1.ScanState, conditions ...metav1.Condition) *executionv1.Scan {
		return &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Status: executionv1.ScanStatus{State: state, Conditions: conditions}}
	}
	failed := func(phase, reason string) *executionv1.Scan {
		return scan(executionv1.ScanStateErrored, condition(executionv1.ConditionReady, metav1.ConditionFalse, reason, 1), condition(phase, metav1.ConditionFalse, reason, 1))
	}
	found := scan(executionv1.ScanStateDone)
	found.Status.Findings = stats(1, nil, nil)
	suspended := scan(executionv1.ScanStateScanning, condition(executionv1.ConditionReady, metav1.ConditionUnknown, "Suspended", 1))
	suspended.Spec.Suspend = new(true)
	for name, tc := range map[string]struct {
		scan *executionv1.Scan
		want []string
	}{
		"New":           {scan(""), []string{"doctor", "wait x", "cancel x"}},
		"Done":          {scan(executionv1.ScanStateDone), []string{"raw x"}},
		"Found":         {found, []string{"findings x", "raw x"}},
		"Suspended":     {suspended, []string{"resume x"}},
		"ScannerFailed": {failed(executionv1.ConditionScanned, executionv1.ReasonScannerFailed), []string{"logs x scanner", "retry x"}},
		"ParserFailed":  {failed(executionv1.ConditionParsed, executionv1.ReasonParserFailed), []string{"logs x parser", "raw x", "retry x"}},
		"HookFailed":    {failed(executionv1.ConditionHooksCompleted, executionv1.ReasonHookFailed), []string{"logs x hooks", "findings x", "retry x"}},
		"NotInstalled":  {failed(executionv1.ConditionScanned, executionv1.ReasonScanTypeNotFound), []string{"(install the scanner", "retry x"}},
		"NoImage":       {scan(executionv1.ScanStateScanning, condition(executionv1.ConditionReady, metav1.ConditionUnknown, executionv1.ReasonImagePull, 1)), []string{"(check the image", "wait x", "cancel x"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range Next(tc.scan) {
				if len(a.Command) > 0 {
					got = append(got, strings.Join(a.Command, " "))
					continue
				}
				words := strings.Fields(a.Text)
				got = append(got, "("+strings.Trim(strings.Join(words[:3], " "), ",'s"))
			}
			for i := range got {
				got[i] = strings.TrimSuffix(got[i], "'s")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestQuoted(t *testing.T) {
	if got, want := Quoted([]string{"-p", "80", "it's", "", "a b"}), `-p 80 'it'\''s' '' 'a b'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
