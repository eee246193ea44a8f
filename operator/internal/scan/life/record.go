// SPDX-License-Identifier: Apache-2.0

package life

import (
	"encoding/json"
	"maps"
	"slices"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// Record is what the operator keeps of a Scan in an annotation, which pods cannot write: what a
// restarted operator could not see in the Jobs that are left. A Scan whose Jobs all succeeded and
// stay needs only the empty record of its initialization, which costs no write of its own. Scans of
// earlier versions have no record.
type Record struct {
	// Began is the last state whose Job was started and has a TTL: Scanning or Parsing.
	Began executionv1.ScanState `json:"began,omitempty"`
	// Run is the number of the last run whose Job has a TTL; 0 for the first.
	Run int `json:"run,omitempty"`
	// Hooks are the hooks that have ended and whose Jobs have a TTL.
	Hooks map[string]executionv1.HookState `json:"hooks,omitempty"`
	// AfterFailure are the hooks that run because the Scan is Errored, by name.
	AfterFailure []string `json:"afterFailure,omitempty"`
	// End is the state in which the Scan has ended, if its Jobs do not show that.
	End executionv1.ScanState `json:"end,omitempty"`
}

// RecordOf returns the record of a Scan; false if it has none.
func RecordOf(scan *executionv1.Scan) (Record, bool) {
	text, kept := scan.Annotations[executionv1.AnnotationRecord]
	var r Record
	if !kept || json.Unmarshal([]byte(text), &r) != nil {
		return Record{}, false // a user, who may edit all of the Scan, has edited it
	}
	return r, true
}

// Text returns the value of the annotation.
func (r Record) Text() string {
	text, err := json.Marshal(r)
	if err != nil {
		return "{}" // cannot happen: strings and numbers can always be encoded
	}
	return string(text)
}

func (r Record) equal(other Record) bool {
	return r.Began == other.Began && r.End == other.End && r.Run == other.Run && maps.Equal(r.Hooks, other.Hooks) &&
		slices.Equal(r.AfterFailure, other.AfterFailure)
}

// NextRecord returns the record that fits the status s, and whether the record changes. stays says
// that the Scan has ended and is not run again; its status may be known only in part.
func NextRecord(o *Observation, s *executionv1.ScanStatus, stays bool) (next Record, changed bool) {
	was, kept := RecordOf(o.Scan)
	if !kept {
		return Record{}, false
	}
	next = was
	if !stays {
		next = currentRecord(o, s, was)
	}
	if SettledState(s) && next.End != s.State && (!jobsShowEnd(o.Scan, o.Jobs, s.State) || len(next.AfterFailure) > 0) {
		next.End = s.State
	}
	return next, !next.equal(was)
}

// currentRecord returns the record of a Scan that has not ended, without End.
func currentRecord(o *Observation, s *executionv1.ScanStatus, was Record) Record {
	next := Record{Began: beganWithTTL(o, s, was), Hooks: map[string]executionv1.HookState{}}
	for _, h := range slices.Concat(s.OrderedHookStatuses...) {
		if h.AfterFailure {
			next.AfterFailure = append(next.AfterFailure, h.HookName)
		}
		if hasOutcome(h.State) && (was.Hooks[h.HookName] == h.State || hasTTL(o, hookRole(names.LabelValue(h.HookName)))) {
			next.Hooks[h.HookName] = h.State
		}
	}
	if next.Began != "" || len(next.Hooks) > 0 {
		next.Run = o.Attempts().hookAttempt()
	}
	slices.Sort(next.AfterFailure)
	return next
}

// beganWithTTL returns the last phase of the current run whose Job has a TTL.
func beganWithTTL(o *Observation, s *executionv1.ScanStatus, was Record) executionv1.ScanState {
	switch {
	case hasTTL(o, ParserRole):
		return executionv1.ScanStateParsing
	case was.Began == executionv1.ScanStateParsing && (SettledState(s) || phases[s.State] >= PhaseParsing):
		return was.Began
	case hasTTL(o, ScannerRole):
		return executionv1.ScanStateScanning
	case was.Began != "" && (SettledState(s) || phases[s.State] >= PhaseScanning):
		return executionv1.ScanStateScanning
	default:
		return ""
	}
}

func hasTTL(o *Observation, r Role) bool {
	j, ok := o.JobOf(r)
	return ok && j.HasTTL
}

// hasOutcome reports whether a hook has ended or will not run.
func hasOutcome(s executionv1.HookState) bool {
	return s == executionv1.HookStateCompleted || s == executionv1.HookStateFailed || s == executionv1.HookStateCancelled
}

// jobsShowEnd reports whether the Jobs without a TTL show that a Scan has ended in a state.
func jobsShowEnd(scan *executionv1.Scan, jobs []Job, state executionv1.ScanState) bool {
	o := &Observation{Scan: scan, Jobs: jobs}
	stays := func(r Role, want Outcome) (Job, bool) {
		j, ok := o.JobOf(r)
		return j, ok && j.Outcome == want && !j.HasTTL
	}
	if state == executionv1.ScanStateErrored {
		_, scanner := stays(ScannerRole, Failed)
		_, parser := stays(ParserRole, Failed)
		return scanner || parser || scan.Cancelled()
	}
	parser, ok := stays(ParserRole, Complete)
	return ok && parser.ListsHooks && !slices.ContainsFunc(parser.Hooks, func(name string) bool {
		_, shown := stays(hookRole(names.LabelValue(name)), Complete)
		return !shown
	})
}

// completed returns the hooks of a status with only the outcomes that the record or a Job shows, and
// with the hooks that are missing. Without a record it returns the hooks unchanged.
func (b *Belief) completed(s *executionv1.ScanStatus, groups [][]executionv1.HookStatus) [][]executionv1.HookStatus {
	rec, kept := RecordOf(b.Scan)
	if !kept || len(s.OrderedHookStatuses) == 0 || SettledState(s) && len(rec.AfterFailure) == 0 {
		return groups
	}
	named := map[string]bool{}
	for _, g := range groups {
		for i := range g {
			h := &g[i]
			named[h.HookName] = true
			b.trueOutcome(h, rec)
		}
	}
	missing := b.missingHooks(rec, s.State)
	missing = slices.DeleteFunc(missing, func(h Hook) bool { return named[h.Name] })
	for _, g := range group(missing) {
		for i := range g {
			g[i].AfterFailure, g[i].Attempt = SettledState(s), b.runs(s).hookAttempt()
		}
		groups = append(groups, g)
	}
	return groups
}

// trueOutcome corrects the status of a hook that has no Job.
func (b *Belief) trueOutcome(h *executionv1.HookStatus, rec Record) {
	ended, recorded := rec.Hooks[h.HookName]
	switch {
	case b.hasHookJob(h.HookName):
	case recorded:
		h.State = ended
	case h.State == executionv1.HookStateInProgress && b.hookHasTTL(h.HookName): // the Job may have ended and been deleted
	default:
		h.State, h.JobName, h.Message = executionv1.HookStatePending, "", ""
	}
}

// missingHooks returns the hooks that belong to a Scan in this state, by the record or the parser's Job.
func (b *Belief) missingHooks(rec Record, state executionv1.ScanState) []Hook {
	var want []string
	outcome := executionv1.RunOnSuccess
	if state == executionv1.ScanStateErrored {
		want, outcome = rec.AfterFailure, executionv1.RunOnFailure
	} else if parser, ok := (&Observation{Scan: b.Scan, Jobs: b.Jobs}).JobOf(ParserRole); ok && parser.Outcome == Complete {
		want = parser.Hooks
	}
	return slices.DeleteFunc(hooksFor(b.Selected, outcome), func(h Hook) bool { return !slices.Contains(want, h.Name) })
}

func (b *Belief) hasHookJob(name string) bool {
	return slices.ContainsFunc(b.Jobs, func(j Job) bool { return j.Role == hookRole(names.LabelValue(name)) })
}

// hookHasTTL reports whether the Job of a hook has a TTL, so that it may have been deleted.
func (b *Belief) hookHasTTL(name string) bool {
	return slices.ContainsFunc(b.Selected, func(h Hook) bool { return h.Name == name && h.Spec.TTLSecondsAfterFinished != nil })
}

func hookNames(hooks []Hook) []string {
	all := make([]string, 0, len(hooks))
	for _, h := range hooks {
		all = append(all, h.Name)
	}
	return all
}
