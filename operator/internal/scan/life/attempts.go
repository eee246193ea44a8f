// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Attempts are the numbers of the runs of scanner and parser that count. A Scan that was run
// once has ones. Re-runs of any part of a Scan are counted together, so that the Jobs of
// a later phase belong to those of an earlier one if their number is not lower.
type Attempts struct{ Scanner, Parser int }

// attemptsOf returns the higher of what the status and the Jobs show: the one may have been
// overwritten, the others go by their TTL.
func attemptsOf(scan *executionv1.Scan, jobs []Job) Attempts {
	r := Attempts{1, 1}
	if a := scan.Status.Attempts; a != nil {
		r.Scanner, r.Parser = max(r.Scanner, a.Scanner), max(r.Parser, a.Parser)
	}
	for _, j := range jobs {
		switch j.Role {
		case ScannerRole:
			r.Scanner = max(r.Scanner, j.Attempt)
		case ParserRole:
			r.Parser = max(r.Parser, j.Attempt)
		}
	}
	return r
}

// For is the number that a new Job of scanner or parser gets, and that its present one has.
func (r Attempts) For(role Role) int {
	if role == ParserRole {
		return max(r.Scanner, r.Parser)
	}
	return r.Scanner
}

// givenRaw says whether the parser was run again over a raw result that was there. How
// the scanner ended does not matter then.
func (r Attempts) givenRaw() bool { return r.Parser > r.Scanner }

// counts says whether a Job belongs to the run that counts, and not to one before.
func (r Attempts) counts(j Job) bool {
	switch j.Role {
	case ScannerRole:
		return j.Attempt >= r.Scanner && !r.givenRaw()
	default:
		return j.Attempt >= r.For(ParserRole)
	}
}

// further is the number of the hooks of a run, as it is recorded: 0 for the first run.
func (r Attempts) further() int {
	if n := r.For(ParserRole); n > 1 {
		return n
	}
	return 0
}

// recorded is how the status says it; a number of 1 is not written.
func (r Attempts) recorded() *executionv1.PhaseAttempts {
	var a executionv1.PhaseAttempts
	if r.Scanner > 1 {
		a.Scanner = r.Scanner
	}
	if n := r.For(ParserRole); n > 1 {
		a.Parser = n
	}
	return &a
}

// Attempts are the numbers of the present runs.
func (o *Observation) Attempts() Attempts { return attemptsOf(o.Scan, o.Jobs) }

// highestAttempt is the highest number that any part of the Scan was run with.
func highestAttempt(o *Observation) int {
	r := o.Attempts()
	last := max(r.Scanner, r.Parser)
	for _, j := range o.Jobs {
		last = max(last, j.Attempt)
	}
	for _, g := range o.Scan.Status.OrderedHookStatuses {
		for _, h := range g {
			last = max(last, h.Attempt)
		}
	}
	return last
}

// nextAttempt numbers a further run of a hook; 0, which is not written, for the first.
func nextAttempt(o *Observation, hook Role) int {
	next := o.Attempts().further()
	if last := o.lastAttempt(hook); last > 0 {
		next = max(next, last+1)
	}
	return next
}

// rerunOf is the value of the annotation that a new Job is made for; "" in the first run.
func rerunOf(s *executionv1.ScanStatus, attempt int) string {
	if attempt > 1 {
		return s.LastRerun
	}
	return ""
}

// isMadeFor says whether a Job shows that an annotation was acted upon.
func isMadeFor(jobs []Job, asked string) bool {
	return asked != "" && slices.ContainsFunc(jobs, func(j Job) bool { return j.Rerun == asked })
}

// StoredSince is from when on a stored result is one of the present run of a role; the
// zero time where every one is. false means that nothing tells.
func StoredSince(o *Observation, r Role) (time.Time, bool) {
	if o.Attempts().For(r) == 1 || o.Lowered {
		return time.Time{}, true
	}
	if r == ScannerRole {
		if at := o.Scan.Status.StartedAt; at != nil {
			return at.Time, true
		}
		return time.Time{}, false
	}
	if c := FindCondition(o.Scan.Status.Conditions, executionv1.ConditionParsed); c != nil && c.Status == metav1.ConditionUnknown {
		return c.LastTransitionTime.Time, true
	}
	return time.Time{}, false
}
