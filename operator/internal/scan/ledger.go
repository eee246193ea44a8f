// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// ledger keeps the status that this operator has last written for every Scan, or has come to
// believe. Pods may patch the status of their Scan: no decision is taken from what pods write
// except the counts of findings, and the operator puts the rest back.
//
// Of a Scan that has ended the ledger keeps only little, see brief. The ledger of an operator that
// was just started is empty; [believe] says what it takes from a status then.
type ledger struct {
	mu      sync.Mutex
	entries map[types.UID]*executionv1.ScanStatus
	// since is when this operator began to work; zero before that.
	since time.Time
	// unbegun are the Scans that were born under this operator and that it has not tried to begin.
	unbegun map[types.UID]struct{}
	// made are Jobs that this operator has made, by their Scan, until the cache shows them.
	made map[types.UID][]*batchv1.Job
}

// madeTrusted is how long a Job counts as there that this operator has made and that the cache does not show: the cache is behind by
// moments. Afterwards the API server is asked.
const madeTrusted = 5 * time.Second

func newLedger() *ledger {
	return &ledger{entries: map[types.UID]*executionv1.ScanStatus{}, unbegun: map[types.UID]struct{}{}, made: map[types.UID][]*batchv1.Job{}}
}

// open notes when this operator began to work, and returns it.
func (l *ledger) open(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() {
		l.since = now
	}
	return l.since
}

// noteBirth notes that a Scan was born under this operator.
func (l *ledger) noteBirth(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unbegun[uid] = struct{}{}
}

// noteBegin notes that a Job of the Scan may exist from now on.
func (l *ledger) noteBegin(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unbegun, uid)
}

// isUnbegun reports whether it is certain that no Job of the Scan was ever made.
func (l *ledger) isUnbegun(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, is := l.unbegun[uid]
	return is
}

// believed returns a Scan with the status that the ledger has of it, if there is one.
func (l *ledger) believed(scan *executionv1.Scan) *executionv1.Scan {
	known := l.recall(scan.UID)
	if known == nil {
		return scan
	}
	believed := *scan
	believed.Status = *known
	return &believed
}

// recall returns the remembered status of a Scan, which must not be changed; nil if there is none.
func (l *ledger) recall(uid types.UID) *executionv1.ScanStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[uid]
}

// note remembers a status, which must not be changed afterwards.
func (l *ledger) note(uid types.UID, s *executionv1.ScanStatus) {
	if life.IsBrief(s) {
		s = life.Brief(s)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[uid] = s
}

func (l *ledger) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.entries, uid)
	delete(l.unbegun, uid)
	delete(l.made, uid)
}

// noteMade remembers a Job of a Scan as the API server has made it.
func (l *ledger) noteMade(scan types.UID, b *batchv1.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made[scan] = append(l.made[scan], keptOf(b))
}

// unseen returns the Jobs of a Scan that were made a moment ago and that the cache does not show, and forgets all others. They must not be changed.
func (l *ledger) unseen(scan types.UID, now time.Time, shown []batchv1.Job) []*batchv1.Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := slices.DeleteFunc(l.made[scan], func(m *batchv1.Job) bool {
		return now.Sub(m.CreationTimestamp.Time) >= madeTrusted || slices.ContainsFunc(shown, func(b batchv1.Job) bool { return b.UID == m.UID })
	})
	if len(left) == 0 {
		delete(l.made, scan)
		return nil
	}
	l.made[scan] = left
	return slices.Clone(left)
}

// awaits reports whether a Scan has a Job that the cache did not show when the Scan was observed.
func (l *ledger) awaits(scan types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.made[scan]) > 0
}

// adopt adds a Scan to the ledger: the Scan is new, or the operator was just started.
func (r *Reconciler) adopt(ctx context.Context, o *life.Observation) error {
	b := life.Belief{Scan: o.Scan, Jobs: o.Jobs, Now: o.Now}
	var err error
	if b.Stored, err = r.hasStored(ctx, &b); err != nil {
		return err
	}
	if life.SettledState(&o.Scan.Status) && !b.BelievesEnd() {
		// The Scan continues: the cache has left out what a running Scan needs, since this one claims to have ended.
		if err := r.readWhole(ctx, o); err != nil {
			return err
		}
		b.Scan = o.Scan
	}
	if len(o.Scan.Status.OrderedHookStatuses) > 0 {
		found, err := r.catalog.Hooks(ctx, o.Scan)
		if _, invalid := errors.AsType[*catalog.InvalidSelectorError](err); err != nil && !invalid {
			return err
		}
		b.Selected = hooksOf(found)
	}
	s, lowered := life.Believe(b)
	o.Trust(s)
	o.Lowered = lowered
	r.ledger.note(o.Scan.UID, s.DeepCopy())
	if life.IsBornUnder(o.Scan, o.Jobs, r.ledger.open(o.Now)) {
		r.ledger.noteBirth(o.Scan.UID)
		o.Unbegun = true
	}
	if o.Forged {
		log.FromContext(ctx).Info("The status says what the Jobs do not", "was", o.Found.State, "is", s.State)
		r.queue.ScanSeen(o.Scan)
	}
	return nil
}
