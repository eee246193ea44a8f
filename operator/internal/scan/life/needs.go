// SPDX-License-Identifier: Apache-2.0

package life

import (
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/jobs"
)

// Need is something that has to be read before a row can be taken.
type Need uint

// What rows need beside the Scan, its Jobs and the settings in force.
const (
	// NeedCanceller is the user who set spec.cancel.
	NeedCanceller Need = iota + 1
	// NeedHooks are the hooks that the Scan selects.
	NeedHooks
	// NeedScanType is the ScanType: only it tells the result of a Scan that has no Job.
	NeedScanType
	// NeedResult is the type and file of the raw result: the ScanType is read if no Job tells them.
	NeedResult
	// NeedDefinition is the ParseDefinition of the raw result.
	NeedDefinition
	// NeedScanner is the scanner's Job if it should exist and was not seen, or its stored result.
	NeedScanner
	// NeedRawResult is whether the raw result is stored, of a Job that ran scanner and parser and has failed.
	NeedRawResult
	// NeedParser is the parser's Job if it should exist and was not seen, or its stored result.
	NeedParser
	// NeedHookJobs are the Jobs of hooks that the status names as running and that were not seen.
	NeedHookJobs
	// NeedStored is whether results of any run are stored.
	NeedStored
	// NeedWhole is the Scan from the API server: the cache drops the forwarder's fields of Scans that have ended.
	NeedWhole
)

// Needs is a set of Needs.
type Needs uint

// Has reports whether the set has a Need.
func (n Needs) Has(need Need) bool { return n&(1<<need) != 0 }

// With returns the set with a further Need.
func (n Needs) With(need Need) Needs { return n | 1<<need }

// NextNeed returns what has to be read next before Decide may be called; false: everything is known.
//
// A row is taken only when its needs are known. A read may show that an earlier row applies.
// So after each read NextNeed goes through the rows again, and nothing is read that no row
// needs.
func NextNeed(o *Observation) (Need, bool) {
	for _, t := range transitions {
		if !t.when(o) {
			continue
		}
		for _, n := range t.needs {
			if !o.Known.Has(n) && isWanted(o, n) {
				return n, true
			}
		}
		return 0, false
	}
	return 0, false
}

// isWanted reports whether a Need has to be read. Other needs are known already.
func isWanted(o *Observation, n Need) bool {
	switch n {
	case NeedScanType:
		return o.ScanType == nil && o.Missing == ""
	case NeedResult:
		return o.ScanType == nil && o.Missing == "" && o.RawResult() == (jobs.Result{})
	case NeedScanner:
		return isScannerUnseen(o)
	case NeedRawResult:
		return hasFusedJob(o)
	case NeedParser:
		_, seen := o.JobOf(ParserRole)
		return !seen && PhaseOf(o.Scan, o.Jobs) == PhaseParsing
	case NeedHookJobs:
		return IsSettled(o) || PhaseOf(o.Scan, o.Jobs) == PhaseHooks
	case NeedWhole:
		return awaitsDelivery(o) || HasReleaseAnnotation(o.Scan)
	case NeedStored:
		return IsSettled(o) && needsStored(o.Scan)
	default:
		return true
	}
}

// resumable is the age from which storage is checked for a Scan that has no state and no
// Job before the Scan is started: an operator that was killed right after it created the
// Job may be back only after the Job has ended and was deleted.
const resumable = time.Minute

// IsBornUnder reports whether a Scan without a state and without Jobs was created when this operator had been at work
// for a while: no operator before this one can have begun it. The while is for clocks that differ.
func IsBornUnder(scan *executionv1.Scan, jobs []Job, since time.Time) bool {
	return PhaseOf(scan, jobs) == PhaseNew && len(jobs) == 0 && scan.CreationTimestamp.After(since.Add(resumable))
}

// isScannerUnseen reports whether a scanner Job should exist, or may have existed, and was not seen.
func isScannerUnseen(o *Observation) bool {
	if _, seen := o.JobOf(ScannerRole); seen {
		return false
	}
	switch PhaseOf(o.Scan, o.Jobs) {
	case PhaseScanning:
		return true
	case PhaseNew:
		return o.Now.Sub(o.Scan.CreationTimestamp.Time) > resumable && !o.Turn.Waits && !o.Unbegun
	default:
		return false
	}
}
