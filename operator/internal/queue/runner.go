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
	// reportEvery is how often the Queue looks whom to tell where it stands, and reportPer how
	// many it tells then. reportBurst is how many it may tell at once after a pause.
	reportEvery = time.Second
	reportPer   = 10
	reportBurst = 100
	// reportAfter is how long a Scan waits before it is told so for the first time, reportAgain
	// how long it is until a new place is told.
	reportAfter = 2 * time.Second
	reportAgain = time.Minute
	// slowBy is how many waiting Scans make the looks rarer by reportEvery.
	slowBy = 10_000
	// kueueEvery is how often the Queue asks whether Kueue was installed or removed.
	kueueEvery = time.Minute

	// admittedPriority is that of Scans that the Queue lets begin: before those that only come
	// to be looked at, and after what has begun.
	admittedPriority = 50
	// reportPriority is that of Scans that are only to be told where they stand.
	reportPriority = -50
)

// runner opens the Queue in the operator that leads, and tells those who wait where
// they stand.
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
			told, waiting := q.reportSome(budget)
			pause := 1 + waiting/slowBy
			budget = min(budget-told+reportPer*pause, reportBurst)
			next.Reset(time.Duration(pause) * reportEvery)
		}
	}
}

func (k *runner) lookForKueue(ctx context.Context) {
	if err := k.queue.lookForKueue(ctx); err != nil {
		// What was known last holds until the next look.
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
	// Passes that came before were let through, or asked for limits that were not known.
	for _, e := range q.entries {
		if e.state == waiting && q.await {
			q.wakeUp(e, 0)
		}
	}
}

// reportSome wakes Scans that are to be told where they stand, first ones first, and no more
// than a budget allows. It returns how many were woken and how many wait.
func (q *Queue) reportSome(budget int) (told, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free || budget <= 0 {
		return 0, q.listing.Waiting()
	}
	now := q.clock.Now()
	for at := range q.listing.Standings {
		if told >= budget {
			break
		}
		e := q.entries[types.UID(at.UID)]
		if e == nil || e.report != nil || at.Limit.Kind == fair.NoLimit || !e.needsReport(at, now) {
			continue
		}
		tell := at
		e.report = &tell
		q.wakeUp(e, reportPriority)
		told++
	}
	return told, q.listing.Waiting()
}

// needsReport says whether a Scan should be told where it stands: the first time when it has
// waited for a moment, later when another limit holds it, or when its place is half or
// double of what it was.
func (e *entry) needsReport(at fair.Standing, now time.Time) bool {
	if e.reportedAt.IsZero() {
		return now.Sub(e.scan.Created) >= reportAfter
	}
	if now.Sub(e.reportedAt) < reportAgain {
		return false
	}
	return at.Limit.Kind != e.reported.Limit.Kind || 2*at.Position <= e.reported.Position || at.Position >= 2*e.reported.Position
}
