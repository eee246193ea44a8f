// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"testing"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/retry"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func TestFailed(t *testing.T) {
	now := time.Unix(1000, 0)
	bounds := retry.Bounds{Initial: time.Second, Max: 5 * time.Minute}
	for name, c := range map[string]struct {
		before State
		err    sink.Error
		retry  retry.Bounds
		random float64
		health Health
		delay  time.Duration
		share  float64
	}{
		"FirstTransport":   {State{Share: 1}, sink.Error{Class: sink.Transport}, bounds, 1, Retrying, time.Second, 1},
		"FourthTransport":  {State{Share: 1, Failures: 3}, sink.Error{Class: sink.Transport}, bounds, 1, Retrying, 8 * time.Second, 1},
		"Jitter":           {State{Share: 1, Failures: 3}, sink.Error{Class: sink.Transport}, bounds, 0.25, Retrying, 2 * time.Second, 1},
		"ManyTransport":    {State{Share: 1, Failures: 500}, sink.Error{Class: sink.Transport}, bounds, 1, Retrying, 5 * time.Minute, 1},
		"FirstAuth":        {State{Share: 1}, sink.Error{Class: sink.Auth}, bounds, 0, AuthFailed, 5 * time.Second, 1},
		"ThirdAuth":        {State{Share: 1, Failures: 2}, sink.Error{Class: sink.Auth}, bounds, 0, AuthFailed, 20 * time.Second, 1},
		"ManyAuth":         {State{Share: 1, Failures: 20}, sink.Error{Class: sink.Auth}, bounds, 0, AuthFailed, time.Minute, 1},
		"AuthLowMax":       {State{Share: 1}, sink.Error{Class: sink.Auth}, retry.Bounds{Initial: time.Second, Max: 2 * time.Second}, 0, AuthFailed, 2 * time.Second, 1},
		"Incompatible":     {State{Share: 1}, sink.Error{Class: sink.Incompatible}, bounds, 0, Incompatible, time.Minute, 1},
		"OverloadSays":     {State{Share: 1}, sink.Error{Class: sink.Overload, RetryAfter: 7 * time.Second}, bounds, 0, Overloaded, 7 * time.Second, 0.5},
		"OverloadTooLong":  {State{Share: 1}, sink.Error{Class: sink.Overload, RetryAfter: time.Hour}, bounds, 0, Overloaded, 10 * time.Minute, 0.5},
		"OverloadSilent":   {State{Share: 0.5, Failures: 1}, sink.Error{Class: sink.Overload}, bounds, 1, Overloaded, 2 * time.Second, 0.25},
		"UnknownIsRetried": {State{Share: 1}, sink.Error{Class: "other"}, bounds, 1, Retrying, time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.before.failed(&c.err, c.retry, now, c.random)
			if got.Health != c.health || got.NextTry.Sub(now) != c.delay || got.Share != c.share || got.Failures != c.before.Failures+1 {
				t.Errorf("got %+v, delay %s", got, got.NextTry.Sub(now))
			}
		})
	}
}

func TestDeliveredGrowsByATenth(t *testing.T) {
	s := State{Health: Overloaded, Class: sink.Overload, Failures: 3, Share: 0.5}
	if s = s.delivered(); s.Share != 0.55 || s.Health != Healthy || s.Failures != 0 {
		t.Errorf("got %+v", s)
	}
	for range 20 {
		s = s.delivered()
	}
	if s.Share != 1 {
		t.Errorf("the share is %v", s.Share)
	}
}

func TestPickIsFairInBytes(t *testing.T) {
	deficit := map[string]int64{}
	sent := map[string]int64{}
	for range 1000 { // both wait always; one sends batches of four times the size
		waiting := []*turn{{tenant: "large", size: 1 << 20}, {tenant: "small", size: 1 << 18}}
		chosen := waiting[pick(waiting, deficit)]
		sent[chosen.tenant] += chosen.size
	}
	if large, small := sent["large"], sent["small"]; large > small*11/10 || small > large*11/10 {
		t.Errorf("sent %v", sent)
	}
}
