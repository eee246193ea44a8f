// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/queue/fair"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// Queue decides whether a Scan may create its first Job. It lists the Scans that wait and run as
// the watches show them, lets package fair decide which may begin, and wakes these.
//
// A Scan holds a slot from the creation of its scanner Job until the Scan has ended, parser and
// hooks included. The states reserved and starting record decisions that the watches do not show
// yet; everything else is in the Scans and Jobs themselves, where a restarted operator, or another
// replica, finds it. The Queue decides nothing before it has listed all of them once.
//
// The Queue decides at once after each change of the listing, under the lock: the decision takes
// microseconds where nothing may start.
type Queue struct {
	clock clock.PassiveClock
	kueue func(context.Context) (bool, error)
	await bool

	mu      sync.Mutex
	listing *fair.State
	entries map[types.UID]*entry
	// ofJobs are the Jobs that have not ended. unended counts these Jobs by Scan, and active counts
	// those that are not suspended and are in the Scan's namespace.
	ofJobs  map[types.UID]unendedJob
	unended map[types.UID]int
	active  map[scanIn]int
	// ended are the Scans that have ended, until the Queue opens: Jobs of them may be seen later.
	ended map[types.UID]*executionv1.Scan
	// scanners are the numbers of the last scanner Jobs seen, by Scan that has not ended.
	scanners map[types.UID]int
	// known says that the limits are known, free that there are no limits, open that everything was
	// listed and this operator leads.
	known, free, open bool
	// kueueServed says that the API server serves the kinds of Kueue.
	kueueServed bool
	wake        func(req reconcile.Request, priority int)

	knowing, waking chan struct{}
	knowOnce        sync.Once
	wakeOnce        sync.Once
}

// Options are the options of a Queue.
type Options struct {
	Clock clock.PassiveClock
	// Kueue says whether the API server serves the kinds of Kueue; nil for never.
	Kueue func(context.Context) (bool, error)
	// AwaitLimits lets no Scan begin before SetLimits was called.
	AwaitLimits bool
}

// New returns a Queue without limits.
func New(o Options) *Queue {
	q := &Queue{
		clock: o.Clock, kueue: o.Kueue, await: o.AwaitLimits, listing: fair.NewState(fair.Limits{}), entries: map[types.UID]*entry{},
		ofJobs: map[types.UID]unendedJob{}, unended: map[types.UID]int{}, active: map[scanIn]int{}, ended: map[types.UID]*executionv1.Scan{},
		scanners: map[types.UID]int{}, known: !o.AwaitLimits, free: true, knowing: make(chan struct{}), waking: make(chan struct{}),
	}
	if q.known {
		q.knowOnce.Do(func() { close(q.knowing) })
	}
	return q
}

// SetLimits replaces the limits, and wakes the Scans that may begin now.
func (q *Queue) SetLimits(l fair.Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.listing.SetLimits(l)
	q.free = l.None()
	q.known = true
	q.knowOnce.Do(func() { close(q.knowing) })
	q.decide()
}

// Position returns the position of a Scan. It changes nothing.
func (q *Queue) Position(scan *executionv1.Scan) life.Turn {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := life.Turn{Limited: !q.free, Delegated: q.delegates(kueueQueue(scan) != "")}
	e := q.entries[scan.UID]
	switch {
	case t.Delegated:
		return t
	case e == nil:
		// The watch does not show the Scan yet, or the Scan is gone. In both cases the watch brings it back.
		t.Wait = !q.isOpenToAll()
		return t
	}
	// Without limits the Queue wakes no Scan: one that the watch still shows in an earlier version,
	// such as suspended, would wait for ever. A parked Scan may ask.
	t.Wait = !e.state.holds() && e.state != parked && !q.isOpenToAll()
	t.Waits = (e.state == waiting || e.state == parked) && !q.free
	t.OutOfTurn, t.Report = e.outOfTurn, e.report
	return t
}

// isOpenToAll says whether there are no limits.
func (q *Queue) isOpenToAll() bool { return q.known && q.free }

// Reserve says whether a Scan may create its first Job, and notes that the Scan is about to. A Scan
// that may not is woken when it may. A caller that did not create the Job must release the slot.
func (q *Queue) Reserve(scan *executionv1.Scan) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[scan.UID]
	if e == nil {
		return q.isOpenToAll() || q.delegates(kueueQueue(scan) != "")
	}
	q.happens(scan.UID, e, asks)
	q.consider(scan.UID, e)
	e.state = e.state.on(begins)
	return e.state.holds() || e.state == delegated || q.isOpenToAll()
}

// Why is the reason for which a slot is released.
type Why int

const (
	// NotCreated is for a Scan whose Job was about to be created and certainly does not exist.
	NotCreated Why = iota
	// Unready is for a Scan that did not begin in its pass, because it lacks something else than a
	// slot. It asks again when it has what it lacks.
	Unready
	// Interrupted is for a Scan whose next pass follows at once. It keeps its slot, and comes before
	// Scans that only wait for an ordinary pass: a slot must not wait for the thousands of Scans that
	// have just been created.
	Interrupted
)

// Release gives back the slot of a Scan that did not begin. A Scan that has begun, or may have begun, keeps its slot.
func (q *Queue) Release(uid types.UID, why Why) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[uid]
	if e == nil {
		return
	}
	switch why {
	case NotCreated:
		q.happens(uid, e, refused)
	case Unready:
		q.happens(uid, e, unready)
	case Interrupted:
		if (e.state == reserved || e.state == starting) && !q.free {
			q.wakeUp(e, admittedPriority)
		}
	}
}

// consider grants a waiting Scan a slot if one is free. The last decision has started all that
// may start, so no other Scan has to be considered.
func (q *Queue) consider(uid types.UID, e *entry) bool {
	if !q.known || !q.open && !q.free || e.state != waiting || !q.listing.Fits(string(uid)) {
		return false
	}
	q.grant(e, false)
	return true
}

// Reported notes that the condition of a Scan says its position.
func (q *Queue) Reported(uid types.UID, at *fair.Standing) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[uid]; e != nil {
		e.reported, e.reportedAt = *at, q.clock.Now()
		if e.report == at {
			e.report = nil
		}
	}
}

// ScanSeen lists a Scan as a watch shows it, in the state that the operator knows. A Scan that has
// ended counts as long as Jobs of it run.
func (q *Queue) ScanSeen(scan *executionv1.Scan) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.see(scan)
}

func (q *Queue) see(scan *executionv1.Scan) {
	if scan.Settled() && q.active[scanIn{scan.UID, scan.Namespace}] == 0 {
		if !q.open {
			q.ended[scan.UID] = scan
		}
		q.forget(scan.UID)
		return
	}
	delete(q.ended, scan.UID)
	e := q.entries[scan.UID]
	if e == nil {
		e = &entry{}
		e.reported.Position, e.reported.Limit.Kind = life.ReportedBefore(scan)
		if e.reported.Limit.Kind != fair.NoLimit {
			e.reportedAt = q.clock.Now()
		}
		q.entries[scan.UID] = e
	}
	before := e.scan
	e.look(scan)
	q.happens(scan.UID, e, q.evidence(scan.UID, e))
	if before.UID == "" || same(&before, &e.scan) {
		return
	}
	q.list(scan.UID, e)
	if before.Running {
		q.decide() // other limits may count for it now
	}
}

// evidence returns what the watches show of a Scan. The Scan runs if its state says that it has begun,
// if a Job of it runs, or if its scanner Job exists and its state will show it soon.
func (q *Queue) evidence(uid types.UID, e *entry) event {
	switch {
	case q.delegates(e.kueue):
		return seenDelegated
	case e.shown == shownSettled && q.active[scanIn{uid, e.key.Namespace}] > 0,
		e.shown == shownBegun,
		e.shown != shownSettled && q.unended[uid] > 0,
		e.shown == shownFresh && q.scanners[uid] >= e.attempt:
		return seenRunning
	case e.shown == shownFresh:
		return seenFresh
	default:
		return seenHeld
	}
}

// happens applies an event to a Scan, and decides what follows.
func (q *Queue) happens(uid types.UID, e *entry, what event) {
	before := e.state
	e.state = before.on(what)
	switch {
	case e.state == before && q.isListed(uid, e):
		return
	case e.state == parked:
		e.outOfTurn = false
	}
	q.list(uid, e)
	if e.state == parked {
		q.decide()
	}
}

// isListed says whether a Scan is listed as its state says.
func (q *Queue) isListed(uid types.UID, e *entry) bool {
	_, listed := q.listing.Get(string(uid))
	return listed == (e.state == waiting || e.state.holds()) && e.scan.Running == e.state.holds()
}

// jobSeen counts a Job as a watch shows it.
func (q *Queue) jobSeen(b *batchv1.Job, gone bool) {
	uid := types.UID(life.ScanUID(b))
	if uid == "" {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	e, j := q.entries[uid], life.NewJob(b)
	if j.Role == life.ScannerRole && (e != nil || !q.open) {
		q.scanners[uid] = max(q.scanners[uid], j.Attempt)
	}
	was, counted := q.ofJobs[b.UID]
	now := unendedJob{scanIn{uid, b.Namespace}, !j.Suspended}
	switch runs := !gone && j.Outcome == life.Running; {
	case runs:
		if counted {
			q.count(was, -1)
		}
		q.ofJobs[b.UID] = now
		q.count(now, 1)
	case counted:
		delete(q.ofJobs, b.UID)
		q.count(was, -1)
	}
	if e == nil {
		return
	}
	if e.state == starting && j.Role == life.ScannerRole && j.Attempt >= e.attempt {
		q.happens(uid, e, seenRunning) // it has begun, though it may have ended
	}
	q.happens(uid, e, q.evidence(uid, e))
	if e.shown == shownSettled && !e.state.holds() {
		q.forget(uid)
	}
}

func (q *Queue) count(j unendedJob, n int) {
	if q.unended[j.scan] += n; q.unended[j.scan] == 0 {
		delete(q.unended, j.scan)
	}
	if !j.active {
		return
	}
	if q.active[j.scanIn] += n; q.active[j.scanIn] == 0 {
		delete(q.active, j.scanIn)
	}
}

// gone forgets a Scan that was deleted.
func (q *Queue) gone(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.ended, uid)
	q.forget(uid)
}

func (q *Queue) forget(uid types.UID) {
	e := q.entries[uid]
	if e == nil {
		return
	}
	delete(q.entries, uid)
	delete(q.scanners, uid)
	q.listing.Delete(string(uid))
	if e.scan.Running {
		q.decide()
	}
}

// list adds, changes or removes a Scan in the listing as its state says, and decides what follows.
func (q *Queue) list(uid types.UID, e *entry) {
	before := e.scan.Running
	e.scan.Running, e.scan.OutOfTurn = e.state.holds(), e.outOfTurn
	switch {
	case e.state != waiting && !e.state.holds():
		q.listing.Delete(string(uid))
	case q.open:
		q.listing.Put(e.scan)
	default:
		q.listing.Load(e.scan)
	}
	switch {
	case before && !e.scan.Running:
		q.decide()
	case !q.free && q.consider(uid, e):
		q.wakeUp(e, admittedPriority)
	}
}

// decide grants slots to the Scans whose turn it is, and wakes them.
func (q *Queue) decide() {
	if !q.open || !q.known {
		return
	}
	for _, start := range slices.Clone(q.listing.Decide(q.clock.Now())) {
		e := q.entries[types.UID(start.UID)]
		q.grant(e, start.OutOfTurn)
		q.wakeUp(e, admittedPriority)
	}
}

func (q *Queue) grant(e *entry, outOfTurn bool) {
	e.state, e.outOfTurn, e.report = e.state.on(granted), outOfTurn, nil
	e.scan.Running, e.scan.OutOfTurn = true, outOfTurn
	q.listing.Put(e.scan)
}

func (q *Queue) wakeUp(e *entry, priority int) {
	if q.wake != nil {
		q.wake(reconcile.Request{NamespacedName: e.key}, priority)
	}
}

func (q *Queue) delegates(named bool) bool { return named && q.kueueServed }

// lookForKueue asks whether Kueue is served. On a change it lists those Scans again that name a queue of Kueue.
func (q *Queue) lookForKueue(ctx context.Context) error {
	if q.kueue == nil {
		return nil
	}
	served, err := q.kueue(ctx)
	if err != nil {
		return fmt.Errorf("look for Kueue: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if served == q.kueueServed {
		return nil
	}
	q.kueueServed = served
	for uid, e := range q.entries {
		if !e.kueue {
			continue
		}
		q.happens(uid, e, undelegated)
		q.happens(uid, e, q.evidence(uid, e))
		if e.shown == shownFresh {
			q.wakeUp(e, 0)
		}
	}
	q.decide()
	return nil
}
