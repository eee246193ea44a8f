// SPDX-License-Identifier: Apache-2.0

package findingqueries

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

const (
	// worthKeeping is how long an answer has to take to be kept while nothing is written.
	worthKeeping = 5 * time.Millisecond
	// worthWaiting is how long an answer has to take to be given again although something was written since: others are always those of now.
	worthWaiting = 50 * time.Millisecond
	// keptTimes is for how many times as long as it took that is: whatever is asked all the time costs a fiftieth of a core, as it is renewed when
	// half of its time is over.
	keptTimes = 100
	// keptLongest bounds that.
	keptLongest = 30 * time.Second
	// sameLongest is how long an answer is given again while nothing is written: what is removed because of its age raises no counter.
	sameLongest = 10 * time.Minute
	// maxWeight is what all answers together may weigh, and mostGroups and mostRows are how many groups and rows one may have. A group weighs 1
	// and takes some 400 bytes, a row weighs rowWeight.
	maxWeight  = 20_000
	mostGroups = 5000
	mostRows   = 100
	rowWeight  = 4
)

// shelf keeps answers that took long, for those who ask the same in the same scope soon after, and has one of those who ask the same at the
// same time compute the answer. The zero shelf is empty.
type shelf struct {
	mu      sync.Mutex
	answers map[string]*kept
	order   []string // what was not asked for longest first
	weight  int      // of all answers
	flights map[string]*flight
}

type kept struct {
	status *reportsv1.FindingQueryStatus
	at     time.Time
	took   time.Duration
	// until is how long the answer is right, whatever the clock says, if nothing is written.
	until time.Time
}

// life is for how long the answer is given again while the counter of the database stands at revision, 0 if that is not known. Rows are those of
// now: who has changed something looks for it among them.
func (k *kept) life(revision int64) time.Duration {
	life := time.Duration(0)
	if k.took >= worthWaiting && k.status.Rows == nil {
		life = min(keptTimes*k.took, keptLongest)
	}
	if revision > 0 && asOf(k.status) >= revision {
		life = max(life, min(k.until.Sub(k.at), sameLongest))
	}
	return life
}

func (k *kept) weight() int { return 1 + len(k.status.Groups) + rowWeight*len(k.status.Rows) }

// asOf is the revision that an answer is of, 0 if it does not say so.
func asOf(status *reportsv1.FindingQueryStatus) int64 {
	revision, err := strconv.ParseInt(status.AsOf, 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// flight is an answer that somebody computes.
type flight struct {
	done   chan struct{} // closed when status is set
	status *reportsv1.FindingQueryStatus
}

// asking is a question at a moment.
type asking struct {
	key string
	now func() time.Time
	// revision is where the counter of the database stands; 0 if that is not known.
	revision int64
}

// find returns an answer that is recent enough. Without one, and also when half of its time is over, one asker has it computed anew: that
// is the one that gets done, which has to be called then, with the answer or nil. All others get the answer before, or wait for the new one.
func (s *shelf) find(ctx context.Context, q asking) (status *reportsv1.FindingQueryStatus, done func(*reportsv1.FindingQueryStatus), err error) {
	for {
		status, wait, done := s.look(q.key, q.now(), q.revision)
		if wait == nil {
			return status, done, nil
		}
		select {
		case <-wait.done:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		// A quick answer is not kept, but has everything that was written before these asked.
		if wait.status != nil && q.revision > 0 && asOf(wait.status) >= q.revision {
			return wait.status, nil, nil
		}
	}
}

func (s *shelf) look(key string, now time.Time, revision int64) (status *reportsv1.FindingQueryStatus, wait *flight, done func(*reportsv1.FindingQueryStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inWork := s.flights[key]
	if k := s.answers[key]; k != nil {
		age, life := now.Sub(k.at), k.life(revision)
		s.order = append(slices.DeleteFunc(s.order, func(other string) bool { return other == key }), key)
		if age < life/2 || age < life && inWork != nil {
			return k.status, nil, nil
		}
		if age < life {
			status = k.status // while the new one is made
		}
	}
	if inWork != nil {
		return nil, inWork, nil
	}
	if s.flights == nil {
		s.flights = map[string]*flight{}
	}
	mine := &flight{done: make(chan struct{})}
	s.flights[key] = mine
	return status, nil, func(status *reportsv1.FindingQueryStatus) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.flights, key)
		mine.status = status
		close(mine.done)
	}
}

// keep keeps an answer that took long, and forgets one that does not any more.
func (s *shelf) keep(key string, answer kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(key)
	if answer.took < worthKeeping || len(answer.status.Groups) > mostGroups || len(answer.status.Rows) > mostRows {
		return
	}
	for s.weight+answer.weight() > maxWeight {
		s.forget(s.order[0])
	}
	if s.answers == nil {
		s.answers = map[string]*kept{}
	}
	s.answers[key], s.order, s.weight = &answer, append(s.order, key), s.weight+answer.weight()
}

func (s *shelf) forget(key string) {
	if k := s.answers[key]; k != nil {
		delete(s.answers, key)
		s.order = slices.DeleteFunc(s.order, func(other string) bool { return other == key })
		s.weight -= k.weight()
	}
}
