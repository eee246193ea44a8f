// SPDX-License-Identifier: Apache-2.0

package item

import (
	"time"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// Step is what a message asks for.
type Step string

// The steps.
const (
	Discover Step = "Discover"
	SBOM     Step = "SBOM"
	Match    Step = "Match"
)

// states are those of a step.
type states struct{ waiting, working, done, failed string }

var statesOf = map[Step]states{
	Discover: {reportsv1.RepositoryWaiting, reportsv1.RepositoryWorking, reportsv1.RepositoryDone, reportsv1.RepositoryFailed},
	SBOM:     {reportsv1.ImagePending, reportsv1.ImageGeneratingSBOM, reportsv1.ImageWaitingForMatch, reportsv1.ImageFailed},
	Match:    {reportsv1.ImageWaitingForMatch, reportsv1.ImageMatching, reportsv1.ImageScanned, reportsv1.ImageFailed},
}

const (
	// maxCrashes of an adapter over an item, maxLost of workers, before it is quarantined.
	maxCrashes = 2
	maxLost    = 4
	// aloneAfter that many lost tries the item needs a worker that does nothing else.
	aloneAfter = 2
	// maxAttempts before the item fails.
	maxAttempts = 6
)

// Database is what there is to match with.
type Database int

// What there may be to match with.
const (
	DatabaseGood Database = iota
	DatabaseMissing
	// DatabaseStale is too old, where the installation stops then.
	DatabaseStale
)

// Observation is what is known of an item when a message names it.
type Observation struct {
	Step Step
	// Now is the time of the reports API, which has set the lease.
	Now time.Time

	// Gone: the item or its Registry is not there, has another UID, or the image has left the registry.
	Gone bool
	// State is that of the item; Scanned: an image has a report.
	State   string
	Scanned bool
	// Claimed: somebody works on it. Mine: this worker does, and looks again.
	Claimed, Mine          bool
	Lease                  time.Time
	Attempt, Crashes, Lost int32
	Reason                 string
	NotBefore              time.Time
	Redelivered            bool
	// Cancelled: the job has cancel, or is gone, and no other job of the Registry wants the item.
	Cancelled bool
	// Paused: Registry or job suspended, a window closed, the host paused.
	Paused bool
	// Again: the item begins anew, whatever became of it before; a job wants that.
	Again bool
	// Idle: the worker does nothing else.
	Idle bool
	// Unfit is why the item cannot be worked on at all, such as TooLarge.
	Unfit string
	// QuotaUntil is when the namespace may fetch again.
	QuotaUntil time.Time
	Database   Database
	// Wanted: a scanned image is to be matched again.
	Wanted bool
}

// Action is what the worker does.
type Action int

// What a worker may do.
const (
	// Nothing: the message is acknowledged, the item stays as it is.
	Nothing Action = iota
	// Release ends a claim without a try: the item is as before it.
	Release
	// Wait writes why the item waits.
	Wait
	// Settle writes a state in which the item stays.
	Settle
	// Claim is the beginning of a try: the worker claims, asks for what there is to reuse, and works.
	Claim
)

// Decision is what Decide has decided.
type Decision struct {
	// Row is the name of the row, for logs and tests.
	Row    string
	Action Action
	// State, Reason and NotBefore are written by Release, Wait and Settle.
	State, Reason string
	NotBefore     time.Time
	// Attempt, Crashes and Lost are those of the item from now on.
	Attempt, Crashes, Lost int32
	// TakenOver: another holder has lost the item.
	TakenOver bool
}

// The reasons that Decide writes.
const (
	ReasonAdapterCrashed  = "AdapterCrashed"
	ReasonWorkerLost      = "WorkerLost"
	ReasonAttemptsUsedUp  = "AttemptsUsedUp"
	ReasonQuotaExceeded   = "QuotaExceeded"
	ReasonDatabaseMissing = "DatabaseMissing"
	ReasonDatabaseStale   = "DatabaseStale"
)

// row is one of the table: when holds, then decides.
type row struct {
	name string
	when func(o Observation) bool
	then func(o Observation, d *Decision)
}

// before are the rows that look at the claim as it is.
var before = []row{
	{"Deleted", func(o Observation) bool { return o.Gone }, release},
	{"Cancelled", func(o Observation) bool { return o.Cancelled && !held(o) }, release},
	{"Mine", func(o Observation) bool { return o.Mine }, nothing},
	{"NotNow", func(o Observation) bool { return o.Paused || o.NotBefore.After(o.Now) && !o.Again }, nothing},
	{"Busy", held, nothing},
}

// after are the rows that look at the item once a claim that nobody holds any more is counted as lost.
var after = []row{
	{"Poison", func(o Observation) bool { return o.Crashes >= maxCrashes }, quarantine(ReasonAdapterCrashed)},
	{"Poison", func(o Observation) bool { return o.Lost >= maxLost }, quarantine(ReasonWorkerLost)},
	{"Alone", func(o Observation) bool { return o.Lost >= aloneAfter && !o.Idle }, back},
	{"UsedUp", func(o Observation) bool { return o.Attempt >= maxAttempts && wants(o) }, usedUp},
	{"Unfit", func(o Observation) bool { return o.Unfit != "" && o.Step != Match && waits(o) }, unfit},
	{"OverQuota", func(o Observation) bool { return o.Step != Match && waits(o) && o.QuotaUntil.After(o.Now) }, overQuota},
	{"NoDatabase", func(o Observation) bool { return o.Step == Match && wants(o) && o.Database != DatabaseGood }, noDatabase},
	{"Discover", func(o Observation) bool { return o.Step == Discover && waits(o) }, claim},
	{"MakeSBOM", func(o Observation) bool { return o.Step == SBOM && waits(o) }, claim},
	{"Match", func(o Observation) bool { return o.Step == Match && wants(o) }, claim},
	{"Settled", func(Observation) bool { return true }, back},
}

// Decide says what to do with an item that a message names.
func Decide(o Observation) Decision {
	for _, r := range before {
		if r.when(o) {
			return decide(r, o, false)
		}
	}
	takenOver := o.Claimed && o.State == statesOf[o.Step].working
	if takenOver {
		o.Lost++
	}
	o.State = unclaimed(o)
	if o.Again && isAside(o) {
		o.State, o.Attempt, o.Crashes, o.Lost = statesOf[o.Step].waiting, 0, 0, 0
	}
	for _, r := range after {
		if r.when(o) {
			return decide(r, o, takenOver)
		}
	}
	return Decision{}
}

func decide(r row, o Observation, takenOver bool) Decision {
	d := Decision{Row: r.name, State: o.State, Attempt: o.Attempt, Crashes: o.Crashes, Lost: o.Lost, TakenOver: takenOver}
	r.then(o, &d)
	return d
}

// held tells whether another worker works on the item. One that has not spoken for so long that the queue delivers its message again
// does not, whatever its lease says.
func held(o Observation) bool {
	return o.Claimed && !o.Mine && o.Lease.After(o.Now) && !o.Redelivered
}

// unclaimed is the state of the item without its claim. A claim for another step is none of this message's business.
func unclaimed(o Observation) string {
	s := statesOf[o.Step]
	switch {
	case o.State != s.working:
		return o.State
	case o.Step == Match && o.Scanned:
		return s.done
	default:
		return s.waiting
	}
}

func isAside(o Observation) bool {
	switch o.State {
	case reportsv1.ImageFailed, reportsv1.ImageQuarantined, reportsv1.ImageSkipped:
		return true
	case reportsv1.RepositoryDone:
		return o.Step == Discover
	}
	return false
}

func waits(o Observation) bool { return o.State == statesOf[o.Step].waiting }

// wants tells whether there is something to do.
func wants(o Observation) bool {
	return waits(o) || o.Step == Match && o.State == reportsv1.ImageScanned && o.Wanted
}

func nothing(Observation, *Decision) {}

func release(o Observation, d *Decision) {
	if o.Claimed && !held(o) {
		d.Action, d.State = Release, unclaimed(o)
	}
}

// back leaves the item as it is. A claim that was lost is ended, so that the loss is counted once.
func back(_ Observation, d *Decision) {
	if d.TakenOver {
		d.Action = Release
	}
}

func quarantine(reason string) func(Observation, *Decision) {
	return func(o Observation, d *Decision) {
		d.Action, d.State, d.Reason = Settle, reportsv1.ImageQuarantined, reason
		if isAside(o) {
			d.Action, d.State, d.Reason = Nothing, o.State, ""
		}
	}
}

func usedUp(o Observation, d *Decision) {
	d.Action, d.State, d.Reason = Settle, statesOf[o.Step].failed, o.Reason
	if d.Reason == "" {
		d.Reason = ReasonAttemptsUsedUp
	}
}

func unfit(o Observation, d *Decision) {
	d.Action, d.State, d.Reason = Settle, reportsv1.ImageSkipped, o.Unfit
	if o.Step == Discover {
		d.State = statesOf[Discover].failed
	}
}

func overQuota(o Observation, d *Decision) {
	d.Action, d.Reason, d.NotBefore = Wait, ReasonQuotaExceeded, o.QuotaUntil
}

func noDatabase(o Observation, d *Decision) {
	d.Reason = ReasonDatabaseMissing
	if o.Database == DatabaseStale {
		d.Reason = ReasonDatabaseStale
	}
	// Writing the same again would wake everybody who watches.
	if o.Reason != d.Reason || d.TakenOver {
		d.Action = Wait
	}
}

func claim(o Observation, d *Decision) {
	d.Action, d.State, d.Attempt = Claim, statesOf[o.Step].working, o.Attempt+1
}
