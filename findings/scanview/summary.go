// SPDX-License-Identifier: Apache-2.0

package scanview

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// States that stand in no status: the API knows them by other fields.
const (
	StateDeleting  = "Deleting"
	StateSuspended = "Suspended"
	// StateQueued is a Scan that has a place in the queue.
	StateQueued = "Queued"
	// StateWaiting is a Scan that has not begun for another reason.
	StateWaiting = "Waiting"
)

// State is the state of a Scan in a word: one of the above, or status.state.
func State(s *executionv1.Scan) string {
	switch {
	case s.DeletionTimestamp != nil:
		return StateDeleting
	case s.Settled():
		return string(s.Status.State)
	case s.Spec.Suspend != nil && *s.Spec.Suspend:
		return StateSuspended
	case Place(s) != "":
		return StateQueued
	case s.Status.State == executionv1.ScanStateNew:
		return StateWaiting
	}
	return string(s.Status.State)
}

// Place is where a Scan stands in the queue, such as "3 of 12"; empty for one that does not wait there.
func Place(s *executionv1.Scan) string {
	if s.Status.Queue == nil || s.Status.State != executionv1.ScanStateNew {
		return ""
	}
	return strconv.Itoa(s.Status.Queue.Position) + " of " + strconv.Itoa(s.Status.Queue.Of)
}

// Ready is the condition that sums up a Scan; the zero condition if there is none.
func Ready(s *executionv1.Scan) metav1.Condition { return condition(s, executionv1.ConditionReady) }

func condition(s *executionv1.Scan, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(s.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Says is the most important sentence about a Scan now.
func Says(s *executionv1.Scan) string {
	ready := Ready(s)
	switch {
	case s.Status.State == executionv1.ScanStateErrored && s.Status.ErrorDescription != "":
		return s.Status.ErrorDescription
	case ready.Message != "":
		return ready.Message
	case s.Status.State == executionv1.ScanStateNew:
		return "It waits for the operator."
	}
	return ""
}

// Severities from the worst to the least, as the API writes them.
var Severities = []string{"HIGH", "MEDIUM", "LOW", "INFORMATIONAL"}

// Counts are the findings by severity, in the order of Severities.
func Counts(f executionv1.FindingStats) []int64 {
	out := make([]int64, len(Severities))
	for i, n := range []*int64{f.FindingSeverities.High, f.FindingSeverities.Medium, f.FindingSeverities.Low, f.FindingSeverities.Informational} {
		if n != nil {
			out[i] = *n
		}
	}
	return out
}

// Total is the number of findings; false where none were counted yet.
func Total(f executionv1.FindingStats) (int64, bool) {
	if f.Count == nil {
		return 0, false
	}
	return *f.Count, true
}

// Lifetime is how long a Scan has taken from the start of its scanner, or takes until now; 0 if it has not started.
func Lifetime(s *executionv1.Scan, now time.Time) time.Duration {
	switch {
	case s.Status.StartedAt == nil:
		return 0
	case s.Status.FinishedAt != nil:
		return max(0, s.Status.FinishedAt.Sub(s.Status.StartedAt.Time))
	}
	return max(0, now.Sub(s.Status.StartedAt.Time))
}
