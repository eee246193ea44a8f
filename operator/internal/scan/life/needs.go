// SPDX-License-Identifier: Apache-2.0

package life

import (
	"time"

	"github.com/scanyard/scanyard/operator/internal/jobs"
)

// Need is something that a row has to know before it is taken and that costs a read.
type Need uint

// What rows need beside the Scan, its Jobs and the settings in force.
const (
	// NeedCanceller is who has set spec.cancel.
	NeedCanceller Need = iota + 1
	// NeedHooks are the hooks that the Scan selects.
	NeedHooks
	// NeedScanType is the ScanType, which alone says of a Scan that has no Job what its result is.
	NeedScanType
	// NeedResult is the type and the file of the raw result: the ScanType, where no Job says so.
	NeedResult
	// NeedDefinition is the ParseDefinition of the raw result.
	NeedDefinition
	// NeedScanner is the scanner's Job, where there should be one that was not seen, or what it has left.
	NeedScanner
	// NeedParser is the parser's Job, where there should be one that was not seen, or what it has left.
	NeedParser
	// NeedHookJobs are the Jobs of hooks that are said to run and were not seen.
	NeedHookJobs
	// NeedStored is which results of any run are stored.
	NeedStored
	// NeedWhole is the Scan as the API server has it: of one that has ended the cache lacks what the forwarder says.
	NeedWhole
)

// Needs is a set of them.
type Needs uint

// Has says whether a Need is in the set.
func (n Needs) Has(need Need) bool { return n&(1<<need) != 0 }

// With is the set with one Need more.
func (n Needs) With(need Need) Needs { return n | 1<<need }

// NextNeed is what has to be read before Decide may be asked; false where all is known.
//
// A row is not taken before what it needs is known. What was read may show that an earlier
// row applies, so that after each read the rows are gone through anew, and nothing is read
// that no row asks for.
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

// isWanted says whether something has to be read to be known. Everything else is there already.
func isWanted(o *Observation, n Need) bool {
	switch n {
	case NeedScanType:
		return o.ScanType == nil && o.Missing == ""
	case NeedResult:
		return o.ScanType == nil && o.Missing == "" && o.RawResult() == (jobs.Result{})
	case NeedScanner:
		return isScannerUnseen(o)
	case NeedParser:
		_, seen := o.JobOf(ParserRole)
		return !seen && PhaseOf(o.Scan, o.Jobs) == PhaseParsing
	case NeedHookJobs:
		return IsSettled(o) || PhaseOf(o.Scan, o.Jobs) == PhaseHooks
	case NeedWhole:
		return awaitsDelivery(o) || CarriesRelease(o.Scan)
	case NeedStored:
		return IsSettled(o) && needsStored(o.Scan)
	default:
		return true
	}
}

// resumable is the age from which a Scan that has no state and no Job is looked up in
// storage before it is started: an operator that was killed right after it had created
// the Job may come back when the Job has ended and gone.
const resumable = time.Minute

// isScannerUnseen says whether there should be a scanner Job, or may have been one, that was not seen.
func isScannerUnseen(o *Observation) bool {
	if _, seen := o.JobOf(ScannerRole); seen {
		return false
	}
	switch PhaseOf(o.Scan, o.Jobs) {
	case PhaseScanning:
		return true
	case PhaseNew:
		return o.Now.Sub(o.Scan.CreationTimestamp.Time) > resumable && !o.Turn.Waits
	default:
		return false
	}
}
