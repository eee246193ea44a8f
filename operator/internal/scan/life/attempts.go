// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Attempts are the numbers of the current runs of scanner and parser. Both are 1 for a Scan that was
// run once. Re-runs of any part of a Scan are counted together, so that the Jobs of a later phase
// belong to those of an earlier phase if their number is not lower.
type Attempts struct{ Scanner, Parser int }

// attemptsOf returns the higher numbers of status and Jobs: the status may have been
// overwritten, and Jobs may have been deleted by their TTL.
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

// For returns the number of the current Job of scanner or parser, which a new Job gets as well.
func (r Attempts) For(role Role) int {
	if role == ParserRole {
		return max(r.Scanner, r.Parser)
	}
	return r.Scanner
}

// isParserRerun reports whether the parser was run again over a stored raw result. The end of
// the scanner does not matter then.
func (r Attempts) isParserRerun() bool { return r.Parser > r.Scanner }

// counts reports whether a Job belongs to the current run, not to an earlier one.
func (r Attempts) counts(j Job) bool {
	switch j.Role {
	case ScannerRole:
		return j.Attempt >= r.Scanner && !r.isParserRerun()
	default:
		return j.Attempt >= r.For(ParserRole)
	}
}

// hookAttempt returns the number of the hooks of the current run, as it is recorded: 0 for the first run.
func (r Attempts) hookAttempt() int {
	if n := r.For(ParserRole); n > 1 {
		return n
	}
	return 0
}

// recorded returns the field of the status; a number of 1 is left out.
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

// Attempts returns the numbers of the current runs.
func (o *Observation) Attempts() Attempts { return attemptsOf(o.Scan, o.Jobs) }

// highestAttempt returns the highest number of a run of any part of the Scan.
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

// nextAttempt returns the number of the next run of a hook; 0, which is left out, for the first.
func nextAttempt(o *Observation, hook Role) int {
	next := o.Attempts().hookAttempt()
	if last := o.lastAttempt(hook); last > 0 {
		next = max(next, last+1)
	}
	return next
}

// rerunOf returns the value of the annotation that requested the run of a new Job; "" in the first run.
func rerunOf(s *executionv1.ScanStatus, attempt int) string {
	if attempt > 1 {
		return s.LastRerun
	}
	return ""
}

// isMadeFor reports whether a Job was created for a value of the annotation.
func isMadeFor(jobs []Job, asked string) bool {
	return asked != "" && slices.ContainsFunc(jobs, func(j Job) bool { return j.Rerun == asked })
}

// StoredSince returns from when on a stored result belongs to the current run of a role; the
// zero time if every one does. false means that this is not known.
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
