// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// IsBrief reports whether a status belongs to a Scan that has nothing left to do.
func IsBrief(s *executionv1.ScanStatus) bool {
	return SettledState(s) && !hasOpenFailureHook(s.OrderedHookStatuses)
}

// Brief is what the operator remembers of an ended Scan: the fields that would start or delete it.
func Brief(s *executionv1.ScanStatus) *executionv1.ScanStatus {
	return &executionv1.ScanStatus{State: s.State, FinishedAt: s.FinishedAt, LastRerun: s.LastRerun, Attempts: s.Attempts}
}

// Recalled returns the remembered status of a Scan, with the present findings, progress of sinks, and conditions
// of types that the operator does not write.
func Recalled(scan *executionv1.Scan, known *executionv1.ScanStatus) *executionv1.ScanStatus {
	if IsBrief(known) {
		return recalledEnd(scan, known)
	}
	s := known.DeepCopy()
	s.Findings, s.Forwarding = scan.Status.Findings, scan.Status.Forwarding
	for _, c := range scan.Status.Conditions {
		if !slices.Contains(ConditionTypes, c.Type) && FindCondition(s.Conditions, c.Type) == nil {
			s.Conditions = append(s.Conditions, c)
		}
	}
	return s
}

// recalledEnd returns the status of an ended Scan. Fields that the cache drops stay
// empty.
func recalledEnd(scan *executionv1.Scan, known *executionv1.ScanStatus) *executionv1.ScanStatus {
	s := scan.Status.DeepCopy()
	s.State, s.FinishedAt, s.Attempts = known.State, known.FinishedAt, known.Attempts
	if scan.Annotations[executionv1.AnnotationRerun] != "" || s.LastRerun != "" {
		s.LastRerun = known.LastRerun
	}
	s.OrderedHookStatuses = slices.DeleteFunc(s.OrderedHookStatuses, isOpenFailureGroup)
	return s
}

// IsForged reports whether a status differs from the believed one. The cache drops the numbers of runs of
// ended Scans; the next write restores them.
func IsForged(is, should *executionv1.ScanStatus) bool {
	if IsBrief(should) {
		return is.State != should.State || !is.FinishedAt.Equal(should.FinishedAt) || is.LastRerun != should.LastRerun ||
			len(is.OrderedHookStatuses) != len(should.OrderedHookStatuses)
	}
	return !equality.Semantic.DeepEqual(is, should)
}

// Belief is the input of Believe.
type Belief struct {
	Scan *executionv1.Scan
	// Jobs are the Jobs of the Scan.
	Jobs []Job
	// Selected are the hooks that the Scan selects now. They are read if the status
	// names hooks.
	Selected []Hook
	// Stored is true if storage has results of a Scan that has no Jobs and whose status is final.
	Stored bool
	Now    time.Time
}

// Believe returns the part of a status, which any client may have written, that the operator believes: everything that
// the Jobs do not contradict, and of what starts something only what the Jobs show. lowered is true if the status claims
// results that no Job shows: storage must have them.
func Believe(b Belief) (s *executionv1.ScanStatus, lowered bool) {
	s = b.Scan.Status.DeepCopy()
	last := b.lastRun(s)
	runs := b.runs(s)
	rec, kept := RecordOf(b.Scan)
	switch {
	case rec.End != "":
		s.State = rec.End
	case SettledState(s) && !b.BelievesEnd():
		s.State, s.FinishedAt, s.ErrorDescription, s.ContainerFailure = executionv1.ScanStateNew, nil, "", nil
	}
	if !SettledState(s) {
		lowered = b.lower(s, runs, rec, kept)
		s.FinishedAt = nil
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == executionv1.ConditionCancelled })
	}
	s.OrderedHookStatuses = b.completed(s, BelievedHooks(s, b.Jobs, b.Selected, last))
	if !SettledState(s) && phases[s.State] < PhaseHooks {
		s.ReadAndWriteHookStatus = nil // of old versions of secureCodeBox, which wrote it when hooks ran
	}
	if s.State != executionv1.ScanStateNew {
		s.Queue = nil
	}
	if names.CheckFile(s.RawResultFile) != nil {
		s.RawResultFile = ""
	}
	b.boundTimes(s)
	return s, lowered
}

// runs returns the believed numbers of the runs, and sets them in a status.
func (b *Belief) runs(s *executionv1.ScanStatus) Attempts {
	s.Attempts = boundAttempts(s.Attempts, b.lastRun(s))
	trusted := b.Scan.DeepCopy()
	trusted.Status = *s
	return attemptsOf(trusted, b.own())
}

// BelievesEnd reports whether the operator believes a final status: no Job runs, and the record or the Jobs
// of the Scan show the end, or the Scan is older than records.
func (b *Belief) BelievesEnd() bool {
	s := b.Scan.Status.DeepCopy()
	rec, kept := RecordOf(b.Scan)
	if rec.End != "" {
		return rec.End == s.State
	}
	if b.contradictsEnd(s, b.runs(s)) {
		return false
	}
	return !kept || b.Stored || jobsShowEnd(b.Scan, b.Jobs, s.State)
}

// own returns the Jobs in the Scan's namespace.
func (b *Belief) own() []Job {
	return slices.DeleteFunc(slices.Clone(b.Jobs), func(j Job) bool { return j.Namespace != b.Scan.Namespace })
}

// MaxRun bounds the number of a run that no Job shows.
const MaxRun = 1 << 20

// lastRun returns the highest number that a run may have: the number of the last Job, or the next one if
// a re-run was asked for and no Job runs.
func (b *Belief) lastRun(s *executionv1.ScanStatus) int {
	last, runs := 0, false
	for _, j := range b.own() {
		last, runs = max(last, j.Attempt), runs || isActive(j)
	}
	rec, kept := RecordOf(b.Scan)
	if kept {
		last = max(last, rec.Run, 1)
	}
	asked := b.Scan.Annotations[executionv1.AnnotationRerun]
	switch {
	case last == 0:
		return MaxRun
	case !runs && asked != "" && asked == s.LastRerun:
		return min(last, MaxRun) + 1
	default:
		return last
	}
}

func boundAttempts(a *executionv1.PhaseAttempts, last int) *executionv1.PhaseAttempts {
	if a == nil {
		return nil
	}
	bounded := executionv1.PhaseAttempts{Scanner: min(max(a.Scanner, 0), last), Parser: min(max(a.Parser, 0), last)}
	if max(bounded.Scanner, bounded.Parser) <= 1 {
		return nil
	}
	return &bounded
}

// isActive reports whether pods of a Job may run.
func isActive(j Job) bool { return j.Outcome == Running && !j.Suspended && j.Deleted.IsZero() }

// contradictsEnd reports whether a Job runs although the status is final. Failure hooks may run, and
// Jobs that a cancelled Scan left are deleted.
func (b *Belief) contradictsEnd(s *executionv1.ScanStatus, r Attempts) bool {
	if b.Scan.Cancelled() {
		return false
	}
	return slices.ContainsFunc(b.own(), func(j Job) bool {
		return isActive(j) && r.counts(j) && !runsForFailure(s, j)
	})
}

func runsForFailure(s *executionv1.ScanStatus, j Job) bool {
	return s.State == executionv1.ScanStateErrored && slices.ContainsFunc(s.OrderedHookStatuses, func(g []executionv1.HookStatus) bool {
		return slices.ContainsFunc(g, func(h executionv1.HookStatus) bool {
			return h.AfterFailure && hookRole(names.LabelValue(h.HookName)) == j.Role
		})
	})
}

// lower sets the state of a running Scan to the state that its Jobs show. If the Jobs are gone, it sets
// the state in which storage is checked for their results.
//
// The record of a Scan names every Job that is gone; the other Jobs show the state.
func (b *Belief) lower(s *executionv1.ScanStatus, r Attempts, rec Record, kept bool) bool {
	if kept {
		if shown := b.shown(r); phases[rec.Began] <= phases[shown] {
			if phases[s.State] > phases[shown] && shown != executionv1.ScanStateHookProcessing {
				s.State = shown
			}
			return false
		}
	}
	said, shown := phases[s.State], PhaseNew
	scanning, parsing := false, false
	for _, j := range b.own() {
		if !r.counts(j) {
			continue
		}
		switch {
		case j.Role == ScannerRole && j.Outcome != Complete:
			scanning = true
		case j.Role == ScannerRole:
			shown = max(shown, PhaseScanned)
		case j.Role == ParserRole && j.Outcome != Complete:
			parsing = true
		default:
			shown = PhaseHooks
		}
	}
	switch {
	case said <= PhaseScanning, said <= shown:
	case scanning:
		s.State = executionv1.ScanStateScanning
	case parsing, said > PhaseParsing:
		s.State = executionv1.ScanStateParsing
	case said == PhaseScanned && !r.isParserRerun():
		s.State = executionv1.ScanStateScanning
	}
	return phases[s.State] < said && !scanning && !parsing
}

// shown returns the state of a running Scan that its present Jobs show.
func (b *Belief) shown(r Attempts) executionv1.ScanState {
	state := executionv1.ScanStateNew
	if r.isParserRerun() {
		state = executionv1.ScanStateScanCompleted
	}
	for _, j := range b.Jobs {
		is := executionv1.ScanStateHookProcessing
		switch {
		case !r.counts(j):
			continue
		case j.Role == ScannerRole && j.Outcome != Complete:
			is = executionv1.ScanStateScanning
		case j.Role == ScannerRole:
			is = executionv1.ScanStateScanCompleted
		case j.Role == ParserRole && j.Outcome != Complete:
			is = executionv1.ScanStateParsing
		}
		if phases[is] > phases[state] {
			state = is
		}
	}
	return state
}

// BelievedHooks returns the hooks of a status that the Scan selects or that have a Job, each once, with the
// fields of their specs. The operator believes that a hook has ended, since that starts nothing.
func BelievedHooks(s *executionv1.ScanStatus, jobs []Job, selected []Hook, last int) [][]executionv1.HookStatus {
	var groups [][]executionv1.HookStatus
	seen := map[string]bool{}
	for _, g := range s.OrderedHookStatuses {
		var group []executionv1.HookStatus
		for _, h := range g {
			if seen[h.HookName] || !believeHook(&h, s.State, jobs, selected) {
				continue
			}
			seen[h.HookName] = true
			h.Attempt = min(max(h.Attempt, 0), last)
			group = append(group, h)
		}
		if len(group) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

func believeHook(h *executionv1.HookStatus, state executionv1.ScanState, jobs []Job, selected []Hook) bool {
	if h.AfterFailure && state != executionv1.ScanStateErrored {
		return false
	}
	has := slices.ContainsFunc(jobs, func(j Job) bool { return j.Role == hookRole(names.LabelValue(h.HookName)) })
	i := slices.IndexFunc(selected, func(c Hook) bool { return c.Name == h.HookName })
	if i < 0 {
		return has
	}
	outcome := executionv1.RunOnSuccess
	if h.AfterFailure {
		outcome = executionv1.RunOnFailure
	}
	if !has && len(hooksFor(selected[i:i+1], outcome)) == 0 {
		return false
	}
	spec := selected[i].Spec
	h.Type, h.Priority, h.FailurePolicy = spec.Type, spec.Priority, spec.FailurePolicy
	return true
}

// boundTimes keeps the times of a status between the creation of the Scan and the present, so that deadlines end.
func (b *Belief) boundTimes(s *executionv1.ScanStatus) {
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = *notAfter(&s.Conditions[i].LastTransitionTime, b.Now)
	}
	s.StartedAt, s.FinishedAt = notAfter(s.StartedAt, b.Now), notAfter(s.FinishedAt, b.Now)
	for _, j := range b.own() {
		if s.FinishedAt != nil && s.FinishedAt.Before(&metav1.Time{Time: j.Finished}) {
			s.FinishedAt = &metav1.Time{Time: j.Finished}
		}
	}
}

// notAfter returns a time, or the present if the time is later than clocks may differ.
func notAfter(t *metav1.Time, now time.Time) *metav1.Time {
	if t != nil && t.After(now.Add(time.Minute)) {
		return &metav1.Time{Time: now.Truncate(time.Second)}
	}
	return t
}
