// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/scanyard/scanyard/operator/internal/queue/fair"
)

const (
	// reportEvery is how often the Queue selects Scans to report positions to, and reportPer how
	// many it selects each time. reportBurst is how many it may select at once after a pause.
	reportEvery = time.Second
	reportPer   = 10
	reportBurst = 100
	// reportAfter is how long a Scan waits before its position is reported for the first time,
	// reportAgain how long before a new position is reported.
	reportAfter = 2 * time.Second
	reportAgain = time.Minute
	// slowBy is how many waiting Scans make the interval longer by reportEvery.
	slowBy = 10_000
	// kueueEvery is how often the Queue asks whether Kueue was installed or removed.
	kueueEvery = time.Minute

	// admittedPriority is the priority of Scans that got a slot: before those that only wait for
	// an ordinary pass, and after those that have begun.
	admittedPriority = 50
	// reportPriority is the priority of Scans that are woken only to write their position.
	reportPriority = -50
)

// runner opens the Queue in the operator that leads, and reports positions to waiting Scans.
type runner struct {
	queue  *Queue
	synced []toolscache.InformerSynced
}

// Start implements manager.Runnable.
func (k *runner) Start(ctx context.Context) error {
	q := k.queue
	if !toolscache.WaitForCacheSync(ctx.Done(), k.synced...) {
		return nil // the operator ends
	}
	for _, c := range []chan struct{}{q.knowing, q.waking} {
		select {
		case <-c:
		case <-ctx.Done():
			return nil
		}
	}
	k.lookForKueue(ctx)
	q.openUp()
	look := time.NewTicker(kueueEvery)
	defer look.Stop()
	next := time.NewTimer(reportEvery)
	defer next.Stop()
	budget := reportBurst
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			k.lookForKueue(ctx)
		case <-next.C:
			reported, waiting := q.reportSome(budget)
			pause := 1 + waiting/slowBy
			budget = min(budget-reported+reportPer*pause, reportBurst)
			next.Reset(time.Duration(pause) * reportEvery)
		}
	}
}

func (k *runner) lookForKueue(ctx context.Context) {
	if err := k.queue.lookForKueue(ctx); err != nil {
		// The last known result holds until the next look.
		log.FromContext(ctx).Error(err, "Kueue may have been installed or removed")
	}
}

// openUp begins to decide.
func (q *Queue) openUp() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for p := range q.active {
		if s := q.ended[p.scan]; s != nil && s.Namespace == p.namespace {
			q.see(s)
		}
	}
	q.open, q.ended = true, nil
	for uid := range q.scanners {
		if q.entries[uid] == nil {
			delete(q.scanners, uid) // those of Scans that have ended
		}
	}
	if !q.free {
		q.decide()
		return
	}
	// Earlier passes were let through, or asked before the limits were known.
	for _, e := range q.entries {
		if e.state == waiting && q.await {
			q.wakeUp(e, 0)
		}
	}
}

// reportSome wakes Scans whose position is to be reported, the first ones first, and at most as
// many as the budget allows. It returns how many it woke and how many wait.
func (q *Queue) reportSome(budget int) (reported, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free || budget <= 0 {
		return 0, q.listing.Waiting()
	}
	now := q.clock.Now()
	for at := range q.listing.Standings {
		if reported >= budget {
			break
		}
		e := q.entries[types.UID(at.UID)]
		if e == nil || e.report != nil || at.Limit.Kind == fair.NoLimit || !e.needsReport(at, now) {
			continue
		}
		standing := at
		e.report = &standing
		q.wakeUp(e, reportPriority)
		reported++
	}
	return reported, q.listing.Waiting()
}

// needsReport says whether a Scan's position should be reported: for the first time when the Scan
// has waited for a moment; later when another limit holds it, or when its position is half or
// double of the one reported.
func (e *entry) needsReport(at fair.Standing, now time.Time) bool {
	if e.reportedAt.IsZero() {
		return now.Sub(e.scan.Created) >= reportAfter
	}
	if now.Sub(e.reportedAt) < reportAgain {
		return false
	}
	return at.Limit.Kind != e.reported.Limit.Kind || 2*at.Position <= e.reported.Position || at.Position >= 2*e.reported.Position
}
