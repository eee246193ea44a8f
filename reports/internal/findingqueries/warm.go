// SPDX-License-Identifier: Apache-2.0

package findingqueries

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/answer"
)

const (
	// warmLongest is how old an answer may be that is kept warm. Who asks after a pause gets one of up to that age, and has it renewed.
	warmLongest = 5 * time.Minute
	// warmFor is for how long after somebody has asked: from Friday's evening until Monday's morning, and a day more.
	warmFor = 4 * 24 * time.Hour
	// warmEvery is how often is looked for an answer to renew, and warmShare bounds what that costs: a fiftieth of a core.
	warmEvery = 5 * time.Second
	warmShare = 50
)

// Warmer keeps answers of questions that take long, and were asked in the last days, so recent that nobody has to wait for them. It ends with the
// program: after a start the first one who asks waits.
type Warmer struct{ desk *desk }

// Run works until the context ends.
func (w *Warmer) Run(ctx context.Context) error {
	w.desk.shelf.keepWarm()
	for {
		pause := time.NewTimer(max(warmEvery, warmShare*w.once(ctx)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
	}
}

// once renews the answer that needs it most, if one does, and says how long that took.
func (w *Warmer) once(ctx context.Context) time.Duration {
	d := w.desk
	begun := d.config.Clock.Now()
	if !d.shelf.mayBeDue(begun) {
		return 0 // the database is asked for nothing while nobody asks this server
	}
	revision, err := d.config.Revision(ctx)
	if err != nil {
		return 0 // who asks hears of it
	}
	key, asked, done := d.shelf.due(begun, revision)
	if done == nil {
		return 0
	}
	input := *asked
	input.Now = begun
	// What is wrong with it hears who asks when this answer is too old.
	_, _ = d.anew(request.WithUser(ctx, &user.DefaultInfo{Name: renewing + key}), &input, key, done)
	return d.config.Clock.Since(begun)
}

// keepWarm has answers of questions that take long be good for longer from now on: somebody renews them.
func (s *shelf) keepWarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warm = true
}

// isWarm tells whether the answer is renewed while nobody asks.
func (k *kept) isWarm(now time.Time) bool {
	return k.input != nil && k.took >= worthWaiting && k.status.Rows == nil && now.Sub(k.asked) < warmFor
}

// mayBeDue tells whether an answer might have to be renewed, whatever was written.
func (s *shelf) mayBeDue(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.answers {
		if k.isWarm(now) && now.Sub(k.at) >= warmLongest/2 {
			return true
		}
	}
	return false
}

// due is the question whose answer is the oldest of those that have been good for half of their time. The caller has it answered, and calls done.
func (s *shelf) due(now time.Time, revision int64) (key string, input *answer.Input, done func(*reportsv1.FindingQueryStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *kept
	for name, k := range s.answers {
		if s.flights[name] != nil || !k.isWarm(now) || now.Sub(k.at) < s.life(k, revision)/2 {
			continue
		}
		if oldest == nil || k.at.Before(oldest.at) {
			key, oldest = name, k
		}
	}
	if oldest == nil {
		return "", nil, nil
	}
	return key, oldest.input, s.begin(key)
}
