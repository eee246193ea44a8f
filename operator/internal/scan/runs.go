// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// runs are the numbers of the runs of scanner and parser that count. A Scan that was run
// once has ones. Re-runs of any part of a Scan are counted together, so that the Jobs of
// a later phase belong to those of an earlier one if their number is not lower.
type runs struct{ scanner, parser int }

// runsOf returns the higher of what the status and the Jobs show: the one may have been
// overwritten, the others go by their TTL.
func runsOf(scan *executionv1.Scan, jobs []job) runs {
	r := runs{1, 1}
	if a := scan.Status.Attempts; a != nil {
		r.scanner, r.parser = max(r.scanner, a.Scanner), max(r.parser, a.Parser)
	}
	for _, j := range jobs {
		switch j.role {
		case scannerRole:
			r.scanner = max(r.scanner, j.attempt)
		case parserRole:
			r.parser = max(r.parser, j.attempt)
		}
	}
	return r
}

// of is the number that a new Job of scanner or parser gets, and that its present one has.
func (r runs) of(role role) int {
	if role == parserRole {
		return max(r.scanner, r.parser)
	}
	return r.scanner
}

// givenRaw says whether the parser was run again over a raw result that was there. How
// the scanner ended does not matter then.
func (r runs) givenRaw() bool { return r.parser > r.scanner }

// counts says whether a Job belongs to the run that counts, and not to one before.
func (r runs) counts(j job) bool {
	switch j.role {
	case scannerRole:
		return j.attempt >= r.scanner && !r.givenRaw()
	default:
		return j.attempt >= r.of(parserRole)
	}
}

// again is the number of the hooks of a run, as it is recorded: 0 for the first run.
func (r runs) again() int {
	if n := r.of(parserRole); n > 1 {
		return n
	}
	return 0
}

// recorded is how the status says it; a number of 1 is not written.
func (r runs) recorded() *executionv1.PhaseAttempts {
	var a executionv1.PhaseAttempts
	if r.scanner > 1 {
		a.Scanner = r.scanner
	}
	if n := r.of(parserRole); n > 1 {
		a.Parser = n
	}
	return &a
}

func (o *observed) runs() runs { return runsOf(o.scan, o.jobs) }

// lastRun is the highest number that any part of the Scan was run with.
func lastRun(o *observed) int {
	r := o.runs()
	last := max(r.scanner, r.parser)
	for _, j := range o.jobs {
		last = max(last, j.attempt)
	}
	for _, g := range o.scan.Status.OrderedHookStatuses {
		for _, h := range g {
			last = max(last, h.Attempt)
		}
	}
	return last
}

// nextAttempt numbers a further run of a hook; 0, which is not written, for the first.
func nextAttempt(o *observed, hook role) int {
	next := o.runs().again()
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
func isMadeFor(jobs []job, asked string) bool {
	return asked != "" && slices.ContainsFunc(jobs, func(j job) bool { return j.rerun == asked })
}

// storedSince is from when on a stored result is one of the present run of a role; the
// zero time where every one is. false means that nothing tells.
func storedSince(o *observed, r role) (time.Time, bool) {
	if o.runs().of(r) == 1 {
		return time.Time{}, true
	}
	if r == scannerRole {
		if at := o.scan.Status.StartedAt; at != nil {
			return at.Time, true
		}
		return time.Time{}, false
	}
	if c := findCondition(o.scan.Status.Conditions, executionv1.ConditionParsed); c != nil && c.Status == metav1.ConditionUnknown {
		return c.LastTransitionTime.Time, true
	}
	return time.Time{}, false
}
