// SPDX-License-Identifier: Apache-2.0

package limits_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/limits"
)

var start = time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// drive makes requests, waits as it is told, and gives how long all of it took.
func drive(t *testing.T, item *limits.Item, from time.Time, requests int, manifest bool) time.Duration {
	t.Helper()
	now := from
	for range requests {
		for again := true; again; {
			wait, ask, err := item.Next(now, manifest)
			if err != nil {
				t.Fatal(err)
			}
			now, again = now.Add(wait), ask
		}
	}
	return now.Sub(from)
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"2": 2 * time.Second, "0": 0, "86400": time.Hour, "Mon, 01 Sep 2025 00:00:30 GMT": 30 * time.Second, "Mon, 01 Sep 2025 12:00:00 GMT": time.Hour,
		"Sun, 31 Aug 2025 00:00:00 GMT": 0,
	} {
		if got, found := limits.RetryAfter(header("Retry-After", text), start); !found || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, found, want)
		}
	}
	for _, text := range []string{"", "-1", "soon", "1.5", "99999999999999999999"} {
		if got, found := limits.RetryAfter(header("Retry-After", text), start); found {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestBackoff(t *testing.T) {
	for n, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 160 * time.Second} {
		if got := limits.Backoff(n, 0.5); got != want {
			t.Errorf("%d: %v, want %v", n, got, want)
		}
		if low, high := limits.Backoff(n, 0), limits.Backoff(n, 1); low != want*8/10 || high != want*12/10 {
			t.Errorf("%d: from %v to %v", n, low, high)
		}
	}
}

func TestShare(t *testing.T) {
	host := limits.NewHosts(limits.DefaultBounds()).Host(limits.Key{Host: "registry.example.com"})
	for name, c := range map[string]struct {
		share, own float64
		silent     time.Duration
		want       time.Duration // of 101 requests after the burst
	}{
		"Share":         {10, 0, 0, 10 * time.Second},
		"Tightened":     {10, 5, 0, 20 * time.Second},
		"NotWidened":    {10, 100, 0, 10 * time.Second},
		"NoShare":       {0, 0, 0, 2 * time.Second},
		"OverTheBound":  {500, 0, 0, 2 * time.Second},
		"EighthForMute": {50, 0, 30 * time.Second, 16 * time.Second},
	} {
		item := host.NewItem(start, c.share, c.own)
		now := start.Add(c.silent)
		if c.silent == 0 {
			item.Share(now, c.share)
		}
		// The burst is a second of requests.
		requests := 0
		for {
			wait, _, err := item.Next(now, false)
			if err != nil {
				t.Fatal(err)
			}
			if wait > 0 {
				break
			}
			requests++
		}
		// The controller goes on to speak, or goes on not to.
		var last time.Duration
		for range 100 {
			wait, _, err := item.Next(now, false)
			if err != nil {
				t.Fatal(err)
			}
			last = wait
		}
		if diff := last - c.want; diff < -200*time.Millisecond || diff > 200*time.Millisecond {
			t.Errorf("%s: a burst of %d, then 101 requests in %v, want %v", name, requests, last, c.want)
		}
		item.Close()
	}
	free := limits.NewHosts(limits.Bounds{}).Host(limits.Key{Host: "localhost"}).NewItem(start, 0, 0)
	if got := drive(t, free, start, 100_000, false); got != 0 {
		t.Errorf("without a bound: %v", got)
	}
}

func TestForHost(t *testing.T) {
	bounds := limits.DefaultBounds()
	for host, want := range map[string]limits.Bounds{
		"registry-1.docker.io": {Items: 4, RequestsPerSecond: 10}, "docker.io": {Items: 4, RequestsPerSecond: 10},
		"registry.example.com": {Items: 8, RequestsPerSecond: 50}, "notdocker.io": {Items: 8, RequestsPerSecond: 50},
	} {
		if got := bounds.ForHost(host); got != want {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
	if got := (limits.Bounds{Items: 2}).ForHost("docker.io"); got != (limits.Bounds{Items: 2, RequestsPerSecond: 10}) {
		t.Error(got)
	}
}

func TestThrottled(t *testing.T) {
	hosts := limits.NewHosts(limits.DefaultBounds())
	key := limits.Key{Host: "registry.example.com"}
	host := hosts.Host(key)
	first, second := host.NewItem(start, 25, 0), host.NewItem(start, 25, 0)
	until, ends := host.Throttled(start, header("Retry-After", "2"), 0, 0.5)
	if ends || until != start.Add(2*time.Second) {
		t.Error(until, ends)
	}
	for _, item := range []*limits.Item{first, second} {
		wait, again, err := item.Next(start, false)
		if err != nil || !again || wait != 2*time.Second {
			t.Errorf("%v %v %v: all items of the host wait", wait, again, err)
		}
	}
	if got := drive(t, first, start, 1, true); got != 2*time.Second {
		t.Error(got)
	}
	// Another account and another host know nothing of it.
	for _, other := range []limits.Key{{Host: key.Host, Account: "uid"}, {Host: "other.example.com"}} {
		if got := drive(t, hosts.Host(other).NewItem(start, 25, 0), start, 1, true); got != 0 {
			t.Errorf("%v waits %v", other, got)
		}
	}
	if until, ends = host.Throttled(start, header("Retry-After", "61"), 0, 0.5); !ends || until != start.Add(61*time.Second) {
		t.Error(until, ends)
	}
	_, _, err := second.Next(start, false)
	paused, isPaused := errors.AsType[*limits.PausedError](err)
	if !isPaused || !paused.Until.Equal(until) || paused.Error() != "host is paused until 2025-09-01T00:01:01Z" {
		t.Error(err)
	}
	if host.PausedUntil(start) != until || !host.PausedUntil(until).IsZero() {
		t.Error("pause does not end at its end")
	}
	host.Resume()
	if got := drive(t, first, start.Add(3*time.Second), 1, false); got != 0 {
		t.Errorf("a new Secret waits %v", got)
	}
	for times, want := range []bool{false, false, false, false, true, true} {
		if _, ends := host.Throttled(start, header(), times, 0.5); ends != want {
			t.Errorf("time %d: ends %v", times, ends)
		}
	}
	if _, ends := host.Throttled(start, header("Retry-After", "1"), 5, 0.5); !ends {
		t.Error("the sixth time in a row is waited for")
	}
}

func TestFailed(t *testing.T) {
	host := limits.NewHosts(limits.DefaultBounds()).Host(limits.Key{Host: "registry.example.com"})
	now := start
	for n, want := range []float64{30, 60, 120, 240, 480, 960, 1800, 1800} {
		until := host.Failed(now)
		if until.Sub(now).Seconds() != want {
			t.Errorf("failure %d: %v", n, until.Sub(now))
		}
		if again := host.Failed(now); again != until {
			t.Errorf("failure %d: a second one at the same time pauses until %v", n, again)
		}
		now = until
	}
	now = now.Add(time.Hour)
	host.Observe(now, header())
	if got := host.Failed(now).Sub(now); got != 30*time.Second {
		t.Errorf("after an answer: %v", got)
	}
}

func TestAllowance(t *testing.T) {
	for name, c := range map[string]struct {
		header    http.Header
		remaining int64
		resets    time.Duration
		get       time.Duration // of 11 GETs
		fails     bool
	}{
		"Plenty":     {header("RateLimit-Limit", "100;w=21600", "RateLimit-Remaining", "90;w=21600"), 90, 6 * time.Hour, 0, false},
		"Scarce":     {header("RateLimit-Limit", "1000;w=60", "RateLimit-Remaining", "60;w=60"), 60, time.Minute, 10 * time.Second, false},
		"Foreign":    {header("X-RateLimit-Limit", "1000", "X-RateLimit-Remaining", "30", "X-RateLimit-Reset", "30"), 30, 30 * time.Second, 10 * time.Second, false},
		"Epoch":      {header("X-RateLimit-Limit", "1000", "X-RateLimit-Remaining", "999", "X-RateLimit-Reset", "1756684830"), 999, 30 * time.Second, 0, false},
		"NothingYet": {header("RateLimit-Limit", "100;w=21600", "RateLimit-Remaining", "0;w=21600"), 0, 6 * time.Hour, 0, true},
		"SoonAgain":  {header("RateLimit-Limit", "100;w=20", "RateLimit-Remaining", "0;w=20"), 0, 20 * time.Second, 20 * time.Second, false},
		"NoWindow":   {header("RateLimit-Limit", "100", "RateLimit-Remaining", "0"), 0, time.Hour, 0, true},
	} {
		host := limits.NewHosts(limits.Bounds{Items: 8}).Host(limits.Key{Host: "registry.example.com"})
		item := host.NewItem(start, 0, 0)
		host.Observe(start, c.header)
		if got, told := host.RateLimit(); !told || got.Remaining != c.remaining || !got.ResetTime.Equal(start.Add(c.resets)) {
			t.Errorf("%s: %v %v", name, got, told)
		}
		if got := drive(t, item, start, 100, false); got != 0 {
			t.Errorf("%s: HEADs wait %v", name, got)
		}
		if c.fails {
			if _, _, err := item.Next(start, true); err == nil {
				t.Errorf("%s: a GET is let in", name)
			}
			continue
		}
		got := drive(t, item, start, 11, true)
		if diff := got - c.get; diff < -time.Second || diff > time.Second {
			t.Errorf("%s: 11 GETs in %v, want %v", name, got, c.get)
		}
	}
	host := limits.NewHosts(limits.Bounds{}).Host(limits.Key{})
	for range 20 {
		host.NewItem(start, 0, 0)
	}
	item := host.NewItem(start, 0, 0)
	host.Observe(start, header("RateLimit-Limit", "100;w=100", "RateLimit-Remaining", "20;w=100"))
	if got := drive(t, item, start, 3, true); got != 10*time.Second {
		t.Errorf("fewer remain than items are in flight: 3 GETs in %v, want 10 s", got)
	}
	host.Observe(start, header("RateLimit-Remaining", "many"))
	if got, told := host.RateLimit(); !told || got.Remaining != 20 {
		t.Error("a header that is not a number is read")
	}
	for range 2 {
		item.Close()
	}
	host.Observe(start, header("RateLimit-Limit", "100;w=100", "RateLimit-Remaining", "20;w=100"))
	if got := drive(t, host.NewItem(start, 0, 0), start.Add(time.Hour), 3, true); got != 0 {
		t.Errorf("after the window: %v", got)
	}
}
