// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// scanIn is a Scan and a namespace.
type scanIn struct {
	scan      types.UID
	namespace string
}

type unendedJob struct {
	scanIn

	active bool
}

// shown is what the Scan itself shows, in the state that the operator knows.
type shown int

const (
	// shownFresh is a Scan that has not begun and that may begin, as far as its spec says.
	shownFresh shown = iota
	// shownBegun is one whose state says that it has begun.
	shownBegun
	// shownResting is one that starts nothing further: only its Jobs that still run count.
	shownResting
	// shownSettled is one that has ended. The Queue keeps it only because Jobs of it have not ended.
	shownSettled
)

// entry is what the Queue knows of a Scan that has not ended.
type entry struct {
	key   types.NamespacedName
	state state
	// scan is the Scan as package fair lists it.
	scan  fair.Scan
	shown shown
	// attempt is the number of the run that the Scan is in or waits for.
	attempt int
	// kueue says that the Scan names a queue of Kueue.
	kueue bool
	// outOfTurn says that the Scan got its slot ahead of others.
	outOfTurn bool

	// reported is the standing that the Scan's condition says, report the one to write next; nil if none is due.
	reported   fair.Standing
	reportedAt time.Time
	report     *fair.Standing
}

// look copies from a Scan what the Queue needs.
func (e *entry) look(scan *executionv1.Scan) {
	e.key = types.NamespacedName{Namespace: scan.Namespace, Name: scan.Name}
	e.shown = showing(scan)
	e.kueue, e.attempt = kueueQueue(scan) != "", scan.ScannerAttempt()
	e.scan = fair.Scan{
		UID: string(scan.UID), Namespace: scan.Namespace, Name: scan.Name, ScanType: scan.Spec.ScanType, Labels: scan.Labels,
		Created: WaitsSince(scan), Running: e.scan.Running, OutOfTurn: e.outOfTurn,
	}
	if scan.Spec.Priority != nil {
		e.scan.Priority = *scan.Spec.Priority
	}
	if e.shown != shownFresh {
		e.report, e.reported, e.reportedAt = nil, fair.Standing{}, time.Time{}
	}
}

func showing(scan *executionv1.Scan) shown {
	suspended := scan.Spec.Suspend != nil && *scan.Spec.Suspend
	isNew := scan.Status.State == executionv1.ScanStateNew
	switch {
	case scan.Settled():
		return shownSettled
	case suspended, !scan.DeletionTimestamp.IsZero(), isNew && scan.Cancelled():
		return shownResting
	case isNew:
		return shownFresh
	default:
		return shownBegun
	}
}

// WaitsSince returns when a Scan began to wait: when it was created, or when its next run was requested.
func WaitsSince(scan *executionv1.Scan) time.Time {
	since := scan.CreationTimestamp.Time
	if scan.ScannerAttempt() > 1 {
		if c := life.FindCondition(scan.Status.Conditions, executionv1.ConditionRerun); c != nil && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

// same reports whether two versions of a Scan are equal for the queue. Whether the Scan runs is
// not compared.
func same(a, b *fair.Scan) bool {
	return a.Priority == b.Priority && a.ScanType == b.ScanType && a.Created.Equal(b.Created) && maps.Equal(a.Labels, b.Labels)
}

// --- Kueue ---

// kueueQueue returns the queue of Kueue that a Scan names, or "".
func kueueQueue(scan *executionv1.Scan) string { return scan.Labels[executionv1.LabelKueueQueue] }
