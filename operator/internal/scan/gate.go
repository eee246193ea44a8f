// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/tenancy/queue"
)

// Gate stands before the first Job of every Scan. It lists the Scans that wait and run as
// the watches show them, decides by package queue which may begin, and wakes these.
//
// A Scan holds a slot from the creation of its scanner Job until it has ended: parser and
// hooks included. What was decided here and is not yet to be seen is held in granted; the
// rest is in the Scans and Jobs themselves, so that a restarted operator, or another
// replica, finds it there. Nothing is decided before all of them were listed once.
//
// Each change of the listing is followed by the decision at once, under the lock: it takes
// microseconds where nothing may start.
type Gate struct {
	clock clock.PassiveClock
	kueue func(context.Context) (bool, error)
	await bool

	mu      sync.Mutex
	state   *queue.State
	records map[types.UID]*record
	// ofJobs are the Scans of Jobs that have not ended, unended counts these by Scan.
	ofJobs  map[types.UID]types.UID
	unended map[types.UID]int
	// scanners are the numbers of the last scanner Jobs seen of Scans that have not ended.
	scanners map[types.UID]int
	// known says that the limits are, free that there are none, open that everything was
	// listed and this operator leads.
	known, free, open bool
	// kueueServed says that the API server knows Kueue.
	kueueServed bool
	wake        func(req reconcile.Request, priority int)

	knowing, waking chan struct{}
	knowOnce        sync.Once
	wakeOnce        sync.Once
}

// record is what the Gate knows of a Scan that has not ended.
type record struct {
	key  types.NamespacedName
	scan queue.Scan
	// begun says that the state of the Scan shows that it has, fresh that it has not and
	// may, as far as it is asked.
	begun, fresh bool
	// resting says that only Jobs that still run count: nothing further is started.
	resting bool
	// attempt is the number of the run that the Scan is in or waits for.
	attempt int
	// kueue says that the Scan names a queue of Kueue.
	kueue bool
	// granted says that it may begin and has not been seen to have. used says that its Job
	// may be there already.
	granted, outOfTurn, used bool
	// passed says that its turn came and it could not begin. It waits again when it asks.
	passed bool

	// told is what its condition says, tell what it is to say next; nil for nothing new.
	told   queue.Standing
	toldAt time.Time
	tell   *queue.Standing
}

// GateOptions are what a Gate is made of.
type GateOptions struct {
	Clock clock.PassiveClock
	// Kueue says whether the API server serves the kinds of Kueue; nil for never.
	Kueue func(context.Context) (bool, error)
	// AwaitLimits lets no Scan begin before SetLimits was called.
	AwaitLimits bool
}

// NewGate returns a Gate without limits.
func NewGate(o GateOptions) *Gate {
	g := &Gate{
		clock: o.Clock, kueue: o.Kueue, await: o.AwaitLimits,
		state: queue.NewState(queue.Limits{}), records: map[types.UID]*record{},
		ofJobs: map[types.UID]types.UID{}, unended: map[types.UID]int{}, scanners: map[types.UID]int{},
		known: !o.AwaitLimits, free: true,
		knowing: make(chan struct{}), waking: make(chan struct{}),
	}
	if g.known {
		g.knowOnce.Do(func() { close(g.knowing) })
	}
	return g
}

// SetLimits replaces the limits. What may begin now is woken.
func (g *Gate) SetLimits(l queue.Limits) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.SetLimits(l)
	g.free = l.None()
	g.known = true
	g.knowOnce.Do(func() { close(g.knowing) })
	g.decide()
}

// admission is what the Gate says to a pass over a Scan.
type admission struct {
	// wait says that the Scan may not begin yet.
	wait bool
	// outOfTurn says that it goes ahead of others.
	outOfTurn bool
	// limited says that there are limits, so that Scans may have to wait.
	limited bool
	// aside says that Kueue holds the Jobs of the Scan back, and not this queue.
	aside bool
	// tell is where the Scan stands, if that is to be written; nil leaves what is.
	tell *queue.Standing
}

// ask says whether a Scan that is ready to begin may. One that may not is woken when it may.
func (g *Gate) ask(scan *executionv1.Scan) admission {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := admission{limited: !g.free, aside: g.steppedAside(kueueQueue(scan) != "")}
	rec := g.records[scan.UID]
	switch {
	case a.aside:
		return a
	case rec == nil:
		// The watch has not shown it here, or it is gone. It comes to its turn in any case.
		a.wait = !g.known || !g.free
		return a
	}
	if rec.passed {
		rec.passed = false
		g.list(scan.UID, rec)
	}
	g.consider(scan.UID, rec)
	a.wait, a.outOfTurn, a.tell = !rec.scan.Running, rec.outOfTurn, rec.tell
	return a
}

// waits says whether a Scan is known to wait for its turn.
func (g *Gate) waits(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	rec := g.records[uid]
	return rec != nil && rec.fresh && !rec.granted && !rec.scan.Running && !g.free && !g.steppedAside(rec.kueue)
}

// consider grants a waiting Scan its slot where one is free. When nothing else may start,
// which the last decision has made sure of, that is all there is to decide.
func (g *Gate) consider(uid types.UID, rec *record) bool {
	if !g.known || !g.open && !g.free || !rec.waits() || !g.state.Fits(string(uid)) {
		return false
	}
	g.grant(rec, false)
	return true
}

// waits says whether the Scan is listed as waiting.
func (rec *record) waits() bool { return rec.fresh && !rec.passed && !rec.granted && !rec.scan.Running }

// beginning notes that the scanner Job of a Scan is about to be created.
func (g *Gate) beginning(uid types.UID) { g.use(uid, true) }

// notBegun notes that the API server has refused it.
func (g *Gate) notBegun(uid types.UID) { g.use(uid, false) }

func (g *Gate) use(uid types.UID, used bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if rec := g.records[uid]; rec != nil {
		rec.used = used
	}
}

// goOn brings a Scan that may begin back before those that only come to be looked at: a
// slot must not wait for the thousands that have just been created.
func (g *Gate) goOn(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if rec := g.records[uid]; rec != nil && rec.granted && !g.free {
		g.wakeUp(rec, admittedPriority)
	}
}

// pass gives back the slot of a Scan that did not begin: what it lacks is not a turn. It
// asks again when it has what it lacks.
func (g *Gate) pass(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	rec := g.records[uid]
	if rec == nil || !rec.granted || rec.used || rec.begun || g.unended[uid] > 0 {
		return
	}
	rec.granted, rec.outOfTurn, rec.passed = false, false, true
	g.list(uid, rec)
	g.decide()
}

// wasTold notes that the condition of a Scan says where it stands.
func (g *Gate) wasTold(uid types.UID, at *queue.Standing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if rec := g.records[uid]; rec != nil {
		rec.told, rec.toldAt = *at, g.clock.Now()
		if rec.tell == at {
			rec.tell = nil
		}
	}
}

// scanSeen lists a Scan as a watch shows it.
func (g *Gate) scanSeen(scan *executionv1.Scan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if scan.Settled() {
		g.forget(scan.UID)
		return
	}
	rec := g.records[scan.UID]
	if rec == nil {
		rec = &record{}
		rec.told.Position, rec.told.Limit.Kind = toldBefore(scan)
		if rec.told.Limit.Kind != queue.NoLimit {
			rec.toldAt = g.clock.Now()
		}
		g.records[scan.UID] = rec
	}
	before := rec.scan
	rec.look(scan)
	if rec.begun || !rec.fresh {
		rec.granted = rec.granted && rec.used && !rec.begun // its Job may be about to be seen
		rec.tell, rec.told, rec.toldAt, rec.passed = nil, queue.Standing{}, time.Time{}, false
	}
	if before.UID != "" && same(&before, &rec.scan) {
		g.relist(scan.UID, rec)
		return
	}
	g.list(scan.UID, rec)
	if before.Running {
		g.decide() // the limits that it counts for may be others now
	}
}

// look takes from a Scan what counts.
func (rec *record) look(scan *executionv1.Scan) {
	suspended := scan.Spec.Suspend != nil && *scan.Spec.Suspend
	rec.key = types.NamespacedName{Namespace: scan.Namespace, Name: scan.Name}
	rec.resting = suspended || !scan.DeletionTimestamp.IsZero()
	rec.begun = scan.Status.State != executionv1.ScanStateNew
	rec.fresh = !rec.begun && !rec.resting && !scan.Cancelled()
	rec.kueue, rec.attempt = kueueQueue(scan) != "", scan.ScannerAttempt()
	rec.scan = queue.Scan{
		UID: string(scan.UID), Namespace: scan.Namespace, Name: scan.Name, ScanType: scan.Spec.ScanType, Labels: scan.Labels,
		Created: waitsSince(scan), Running: rec.scan.Running, OutOfTurn: rec.outOfTurn,
	}
	if scan.Spec.Priority != nil {
		rec.scan.Priority = *scan.Spec.Priority
	}
	if c := findCondition(scan.Status.Conditions, executionv1.ConditionAdmitted); rec.begun {
		rec.outOfTurn = c != nil && c.Status == metav1.ConditionTrue && c.Reason == executionv1.ReasonWaitedLongest
	}
}

// waitsSince is when a Scan began to wait: when it was created, or asked to run again.
func waitsSince(scan *executionv1.Scan) time.Time {
	since := scan.CreationTimestamp.Time
	if scan.ScannerAttempt() > 1 {
		if c := findCondition(scan.Status.Conditions, executionv1.ConditionRerun); c != nil && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

// same says whether two looks at a Scan make no difference to the queue but, perhaps, for
// whether it runs.
func same(a, b *queue.Scan) bool {
	return a.Priority == b.Priority && a.ScanType == b.ScanType && a.Created.Equal(b.Created) && maps.Equal(a.Labels, b.Labels)
}

// jobSeen counts a Job as a watch shows it.
func (g *Gate) jobSeen(b *batchv1.Job, gone bool) {
	uid := types.UID(scanUID(b))
	if uid == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	rec, j := g.records[uid], newJob(b)
	if j.role == scannerRole && (rec != nil || !g.open) {
		g.scanners[uid] = max(g.scanners[uid], j.attempt)
	}
	_, counted := g.ofJobs[b.UID]
	switch runs := !gone && j.outcome == running; {
	case runs && !counted:
		g.ofJobs[b.UID] = uid
		g.unended[uid]++
		if rec != nil {
			rec.granted, rec.used = false, false // the Job itself shows that the Scan runs
		}
	case !runs && counted:
		delete(g.ofJobs, b.UID)
		if g.unended[uid]--; g.unended[uid] == 0 {
			delete(g.unended, uid)
		}
	}
	if rec != nil {
		g.relist(uid, rec)
	}
}

// gone forgets a Scan that was deleted.
func (g *Gate) gone(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(uid)
}

func (g *Gate) forget(uid types.UID) {
	rec := g.records[uid]
	if rec == nil {
		return
	}
	delete(g.records, uid)
	delete(g.scanners, uid)
	g.state.Delete(string(uid))
	if rec.scan.Running {
		g.decide()
	}
}

// runs says whether a Scan holds a slot: its state shows that it has begun, a Job of it
// runs, its scanner Job is there and its state is about to show it, or it may begin.
func (g *Gate) runs(uid types.UID, rec *record) bool {
	return rec.begun && !rec.resting || g.unended[uid] > 0 || rec.fresh && g.scanners[uid] >= rec.attempt || rec.granted
}

// relist lists a Scan anew where whether it runs, or waits, has changed.
func (g *Gate) relist(uid types.UID, rec *record) {
	_, listed := g.state.Get(string(uid))
	aside := g.steppedAside(rec.kueue)
	if runs := g.runs(uid, rec); runs != rec.scan.Running || listed != (!aside && (runs || rec.waits())) {
		g.list(uid, rec)
	}
}

// list puts a Scan where it belongs in the listing, and decides what follows from it.
func (g *Gate) list(uid types.UID, rec *record) {
	before := rec.scan.Running
	rec.scan.Running, rec.scan.OutOfTurn = g.runs(uid, rec), rec.outOfTurn
	switch {
	case g.steppedAside(rec.kueue), !rec.scan.Running && !rec.waits():
		g.state.Delete(string(uid))
	case g.open:
		g.state.Put(rec.scan)
	default:
		g.state.Load(rec.scan)
	}
	switch {
	case before && !rec.scan.Running:
		g.decide()
	case !g.free && g.consider(uid, rec):
		g.wakeUp(rec, admittedPriority)
	}
}

// decide grants slots to those whose turn it is, and wakes them.
func (g *Gate) decide() {
	if !g.open || !g.known {
		return
	}
	for _, start := range slices.Clone(g.state.Decide(g.clock.Now())) {
		rec := g.records[types.UID(start.UID)]
		g.grant(rec, start.OutOfTurn)
		g.wakeUp(rec, admittedPriority)
	}
}

func (g *Gate) grant(rec *record, outOfTurn bool) {
	rec.granted, rec.outOfTurn, rec.used, rec.tell = true, outOfTurn, false, nil
	rec.scan.Running, rec.scan.OutOfTurn = true, outOfTurn
	g.state.Put(rec.scan)
}

func (g *Gate) wakeUp(rec *record, priority int) {
	if g.wake != nil {
		g.wake(reconcile.Request{NamespacedName: rec.key}, priority)
	}
}

// --- Kueue ---

// LabelKueueQueue names the queue of Kueue that holds the Jobs of a Scan back.
const LabelKueueQueue = "kueue.x-k8s.io/queue-name"

// kueueQueue is the queue of Kueue that a Scan names, or "".
func kueueQueue(scan *executionv1.Scan) string { return scan.Labels[executionv1.LabelKueueQueue] }

func (g *Gate) steppedAside(named bool) bool { return named && g.kueueServed }

// stepsAside says whether Kueue holds back the Jobs of a Scan, and not this queue.
func (g *Gate) stepsAside(scan *executionv1.Scan) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.steppedAside(kueueQueue(scan) != "")
}

// lookForKueue asks whether Kueue is served and lists anew those that name a queue of it.
func (g *Gate) lookForKueue(ctx context.Context) error {
	if g.kueue == nil {
		return nil
	}
	served, err := g.kueue(ctx)
	if err != nil {
		return fmt.Errorf("look for Kueue: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if served == g.kueueServed {
		return nil
	}
	g.kueueServed = served
	for uid, rec := range g.records {
		if !rec.kueue {
			continue
		}
		g.list(uid, rec)
		if rec.fresh {
			g.wakeUp(rec, 0)
		}
	}
	g.decide()
	return nil
}
