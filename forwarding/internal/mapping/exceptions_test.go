// SPDX-License-Identifier: Apache-2.0

package mapping_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/exception/exceptiontest"
	"github.com/scanyard/scanyard/forwarding/internal/mapping"
)

// TestCasesOfExceptions runs the cases of exceptions through records.
func TestCasesOfExceptions(t *testing.T) {
	const namespace = "team-a"
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	scan := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop", UID: "u-1"}}
	exceptiontest.Each(t, "forwarding records", namespace, now, func(t *testing.T, c *exceptiontest.Case) {
		source := mapping.Source{ClusterID: "c", Scan: scan, NoSummary: true}
		plain := next(t, source, c.Finding)
		text, err := exception.HandOver(c.List, exception.Scan{Namespace: namespace, Name: "shop"}, now)
		if err != nil {
			t.Fatal(err)
		}
		if text != nil {
			if source.Exceptions, err = exception.TakeOver(text); err != nil {
				t.Fatal(err)
			}
		}
		got, want := next(t, source, c.Finding), strings.Replace(c.Want, "FindingException/", namespace+"/", 1)
		want = strings.TrimPrefix(want, "Cluster"+namespace+"/")
		if got.GetException() != want || got.GetSuppressed() != c.Suppressed || (got.GetOutcome() == mapping.OutcomeExcepted) != c.Suppressed {
			t.Errorf("exception %q, suppressed %t, outcome %s; want %q, %t", got.GetException(), got.GetSuppressed(), got.GetOutcome(), want, c.Suppressed)
		}
		before, err := mapping.FindingOf(plain)
		if err != nil {
			t.Fatal(err)
		}
		after, err := mapping.FindingOf(got)
		if err != nil {
			t.Fatal(err)
		}
		was, err := before.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if is, err := after.AppendJSON(nil); err != nil || string(is) != string(was) {
			t.Errorf("the finding of the record is %s, want %s; %v", is, was, err)
		}
	})
}

func next(t *testing.T, source mapping.Source, finding string) *forwardingv1.Result {
	t.Helper()
	record, err := mapping.NewReader(source, strings.NewReader("["+finding+"]")).Next()
	if err != nil {
		t.Fatal(err)
	}
	return record.Message.GetResult()
}

// TestOutcomeOfOpenFindings judges a Scan by what no exception suppresses.
func TestOutcomeOfOpenFindings(t *testing.T) {
	scan := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "shop", UID: "u-1"}}
	scan.Status.State, scan.Status.Findings.FindingSeverities.High = executionv1.ScanStateDone, new(int64(2))
	outcome := func() string {
		t.Helper()
		record, err := mapping.NewReader(mapping.Source{ClusterID: "c", Scan: scan}, nil).Next()
		if err != nil {
			t.Fatal(err)
		}
		return record.Message.GetScanSummary().GetOutcome()
	}
	if got := outcome(); got != mapping.OutcomeFail {
		t.Errorf("two high ones: %s", got)
	}
	scan.Status.Findings.Excepted, scan.Status.Findings.Open = new(int64(2)), &executionv1.FindingSeverities{High: new(int64(0))}
	if got := outcome(); got != mapping.OutcomePass {
		t.Errorf("both excepted: %s", got)
	}
}
