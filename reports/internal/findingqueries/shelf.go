// SPDX-License-Identifier: Apache-2.0

package findingqueries

import (
	"context"
	"slices"
	"sync"
	"time"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

const (
	// worthKeeping is how long an answer has to take to be kept: others are always those of now.
	worthKeeping = 50 * time.Millisecond
	// keptTimes is for how many times as long as an answer took it is given again: whatever is asked all the time costs a fiftieth of a core,
	// as it is renewed when half of its time is over.
	keptTimes = 100
	// keptLongest bounds that.
	keptLongest = 30 * time.Second
	// maxKept is how many answers are kept, and mostGroups how many groups one may have.
	maxKept    = 128
	mostGroups = 1000
)

// shelf keeps answers that took long, for those who ask the same in the same scope soon after. The zero shelf is empty.
type shelf struct {
	mu      sync.Mutex
	answers map[string]*kept
	order   []string // the oldest first
}

type kept struct {
	status *reportsv1.FindingQueryStatus
	at     time.Time
	took   time.Duration
	// renewing is closed when who computes the answer anew is done; nil while nobody does.
	renewing chan struct{}
}

func (k *kept) life() time.Duration { return min(keptTimes*k.took, keptLongest) }

// find returns an answer that is recent enough. Without one, and also when half of its time is over, one asker has it computed anew: that
// is the one that gets done, which has to be called then. All others get the answer before, or wait until there is a new one.
func (s *shelf) find(ctx context.Context, key string, now func() time.Time) (status *reportsv1.FindingQueryStatus, done func(), err error) {
	for {
		status, wait, done := s.look(key, now())
		if wait == nil {
			return status, done, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (s *shelf) look(key string, now time.Time) (status *reportsv1.FindingQueryStatus, wait <-chan struct{}, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.answers[key]
	if k == nil {
		return nil, nil, func() {}
	}
	age := now.Sub(k.at)
	switch {
	case age < k.life()/2, age < k.life() && k.renewing != nil:
		return k.status, nil, nil
	case k.renewing != nil:
		return nil, k.renewing, nil
	}
	k.renewing = make(chan struct{})
	if age < k.life() {
		status = k.status // while the new one is made
	}
	return status, nil, func() { s.renewed(k) }
}

func (s *shelf) renewed(k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(k.renewing)
	k.renewing = nil
}

// keep keeps an answer that took long, and forgets one that does not any more.
func (s *shelf) keep(key string, status *reportsv1.FindingQueryStatus, at time.Time, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.answers[key]
	switch {
	case took < worthKeeping || len(status.Groups) > mostGroups:
		if k != nil {
			delete(s.answers, key)
			s.order = slices.DeleteFunc(s.order, func(other string) bool { return other == key })
		}
		return
	case k != nil:
		k.status, k.at, k.took = status, at, took
		return
	case s.answers == nil:
		s.answers = map[string]*kept{}
	}
	if len(s.order) == maxKept {
		delete(s.answers, s.order[0])
		s.order = slices.Delete(s.order, 0, 1)
	}
	s.answers[key], s.order = &kept{status: status, at: at, took: took}, append(s.order, key)
}
