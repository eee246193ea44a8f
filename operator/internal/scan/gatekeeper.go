// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/tenancy/queue"
)

const (
	// tellEvery is how often the Gate looks whom to tell where it stands, and tellPer how
	// many it tells then. tellBurst is how many it may tell at once after a pause.
	tellEvery = time.Second
	tellPer   = 10
	tellBurst = 100
	// tellAfter is how long a Scan waits before it is told so for the first time, tellAgain
	// how long it is until a new place is told.
	tellAfter = 2 * time.Second
	tellAgain = time.Minute
	// slowBy is how many waiting Scans make the looks rarer by tellEvery.
	slowBy = 10_000
	// kueueEvery is how often the Gate asks whether Kueue was installed or removed.
	kueueEvery = time.Minute

	// tellPriority is that of Scans that are only to be told where they stand.
	tellPriority = -50
)

// setupGate lets the watches of the manager's cache fill the Gate.
func setupGate(ctx context.Context, mgr ctrl.Manager, g *Gate) error {
	// Before the first pass: it could take a Job that Kueue holds back for one that is late.
	if err := g.lookForKueue(ctx); err != nil {
		return err
	}
	var synced []toolscache.InformerSynced
	for _, w := range []struct {
		object client.Object
		follow toolscache.ResourceEventHandler
	}{
		{&executionv1.Scan{}, following(g.scanSeen, func(s *executionv1.Scan) { g.gone(s.UID) })},
		{&batchv1.Job{}, following(func(b *batchv1.Job) { g.jobSeen(b, false) }, func(b *batchv1.Job) { g.jobSeen(b, true) })},
	} {
		informer, err := mgr.GetCache().GetInformer(ctx, w.object, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		registration, err := informer.AddEventHandler(w.follow)
		if err != nil {
			return fmt.Errorf("watch %T for the queue: %w", w.object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	return mgr.Add(&gatekeeper{gate: g, synced: synced})
}

// following calls see for each new version of an object and gone when it is deleted.
func following[T any](see, gone func(T)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if t, ok := o.(T); ok {
				see(t)
			}
		},
		UpdateFunc: func(_, o any) {
			if t, ok := o.(T); ok {
				see(t)
			}
		},
		DeleteFunc: func(o any) {
			if d, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = d.Obj
			}
			if t, ok := o.(T); ok {
				gone(t)
			}
		},
	}
}

// connect is the source of the controller through which the Gate wakes Scans.
func (g *Gate) connect(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wake = func(req reconcile.Request, priority int) { add(q, req, priority) }
	g.wakeOnce.Do(func() { close(g.waking) })
	return nil
}

func add(q workqueue.TypedRateLimitingInterface[reconcile.Request], req reconcile.Request, priority int) {
	if pq, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		pq.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, req)
		return
	}
	q.Add(req)
}

// gatekeeper opens the Gate in the operator that leads, and tells those who wait where
// they stand.
type gatekeeper struct {
	gate   *Gate
	synced []toolscache.InformerSynced
}

// Start implements manager.Runnable.
func (k *gatekeeper) Start(ctx context.Context) error {
	g := k.gate
	if !toolscache.WaitForCacheSync(ctx.Done(), k.synced...) {
		return nil // the operator ends
	}
	for _, c := range []chan struct{}{g.knowing, g.waking} {
		select {
		case <-c:
		case <-ctx.Done():
			return nil
		}
	}
	k.lookForKueue(ctx)
	g.openUp()
	look := time.NewTicker(kueueEvery)
	defer look.Stop()
	next := time.NewTimer(tellEvery)
	defer next.Stop()
	budget := tellBurst
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			k.lookForKueue(ctx)
		case <-next.C:
			told, waiting := g.tellSome(budget)
			pause := 1 + waiting/slowBy
			budget = min(budget-told+tellPer*pause, tellBurst)
			next.Reset(time.Duration(pause) * tellEvery)
		}
	}
}

func (k *gatekeeper) lookForKueue(ctx context.Context) {
	if err := k.gate.lookForKueue(ctx); err != nil {
		// What was known last holds until the next look.
		log.FromContext(ctx).Error(err, "Kueue may have been installed or removed")
	}
}

// openUp begins to decide.
func (g *Gate) openUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
	for uid := range g.scanners {
		if g.records[uid] == nil {
			delete(g.scanners, uid) // those of Scans that have ended
		}
	}
	if !g.free {
		g.decide()
		return
	}
	// Passes that came before were let through, or asked for limits that were not known.
	for _, rec := range g.records {
		if rec.waits() && g.await {
			g.wakeUp(rec, 0)
		}
	}
}

// tellSome wakes Scans that are to be told where they stand, first ones first, and no more
// than a budget allows. It returns how many were woken and how many wait.
func (g *Gate) tellSome(budget int) (told, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.free || budget <= 0 {
		return 0, g.state.Waiting()
	}
	now := g.clock.Now()
	for at := range g.state.Standings {
		if told >= budget {
			break
		}
		rec := g.records[types.UID(at.UID)]
		if rec == nil || rec.tell != nil || at.Limit.Kind == queue.NoLimit || !rec.isNews(at, now) {
			continue
		}
		tell := at
		rec.tell = &tell
		g.wakeUp(rec, tellPriority)
		told++
	}
	return told, g.state.Waiting()
}

// isNews says whether a Scan should be told where it stands: the first time when it has
// waited for a moment, later when another limit holds it, or when its place is half or
// double of what it was.
func (rec *record) isNews(at queue.Standing, now time.Time) bool {
	if rec.toldAt.IsZero() {
		return now.Sub(rec.scan.Created) >= tellAfter
	}
	if now.Sub(rec.toldAt) < tellAgain {
		return false
	}
	return at.Limit.Kind != rec.told.Limit.Kind || 2*at.Position <= rec.told.Position || at.Position >= 2*rec.told.Position
}
