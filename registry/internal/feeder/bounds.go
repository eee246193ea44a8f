// SPDX-License-Identifier: Apache-2.0

package feeder

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/scanyard/scanyard/registry/internal/feed"
	"github.com/scanyard/scanyard/registry/internal/inventory"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

const (
	// hubConcurrent items and hubRequests a second are what Docker Hub gets at most.
	hubConcurrent = 4
	hubRequests   = 10
	// tellAgain is how often workers hear of their share: one that hears nothing for 30 s asks eight times less.
	tellAgain = 10 * time.Second
)

// of are the bounds of a host.
func (b Bounds) of(host string) (concurrent int, requests float64) {
	name, _, _ := strings.Cut(host, ":")
	if name == "docker.io" || strings.HasSuffix(name, ".docker.io") {
		return min(cmp.Or(b.HostConcurrent, hubConcurrent), hubConcurrent), min(b.HostRequests, hubRequests)
	}
	return b.HostConcurrent, b.HostRequests
}

// telling is what workers have heard of a host.
type telling struct {
	queue.Limits

	at time.Time
}

// shares are how often an item in flight may ask its host: all of them together ask no more than the host bears.
func (f *Feeder) shares() map[string]float64 {
	working := map[string]int{}
	for _, at := range f.flights {
		if at.item.Host != "" {
			working[at.item.Host]++
		}
	}
	shares := map[string]float64{}
	for host, n := range working {
		_, requests := f.bounds.of(host)
		shares[host] = requests / float64(n)
	}
	return shares
}

// tell tells workers what has changed of hosts, and now and then what has not.
func (f *Feeder) tell(q Queue) error {
	f.mu.Lock()
	now := f.clock.Now()
	var all []queue.Limits
	say := func(about account, l queue.Limits) {
		if last, told := f.told[about]; !told || last.Limits != l || now.Sub(last.at) >= tellAgain {
			f.told[about] = telling{l, now}
			all = append(all, l)
		}
	}
	shares := f.shares()
	for host, share := range shares {
		say(account{host: host}, queue.Limits{Host: host, RequestsPerSecond: share})
	}
	for at, p := range f.paused {
		if p.until.After(now) {
			say(account{at.host, "paused " + at.name}, queue.Limits{Host: at.host, Account: p.uid, Until: p.until})
		}
	}
	f.mu.Unlock()
	for _, l := range all {
		if err := q.Limit(l); err != nil {
			return err
		}
	}
	return nil
}

// namespace is a tenant as feed has it.
func (f *Feeder) namespace(o Offer, now time.Time) *feed.Namespace {
	n := &feed.Namespace{Name: o.Namespace, Weight: max(o.Own.Weight, 1), Concurrent: tighter(f.bounds.Concurrent, o.Own.Concurrent)}
	if bound := tighter(f.bounds.Bytes, o.Own.Bytes); bound > 0 {
		n.Bytes = new(max(bound-f.spent.sum(ofNamespace(o.Namespace), now)-f.reserved(func(i feed.Item) bool { return i.Namespace == o.Namespace }), 0))
	}
	return n
}

// tighter is the lower of two bounds, of which 0 is none.
func tighter[T int | int64](bound, own T) T {
	if bound == 0 || own > 0 && own < bound {
		return own
	}
	return bound
}

// reserved are the bytes that items in flight may still fetch.
func (f *Feeder) reserved(of func(feed.Item) bool) int64 {
	var sum int64
	for _, at := range f.flights {
		if at.item.Step == feed.SBOM && of(at.item) {
			sum += at.item.Bytes
		}
	}
	return sum
}

// affordable are those whose bytes the Registry's own bound covers.
func (f *Feeder) affordable(o Offer, all []bundled, now time.Time) []bundled {
	if o.Bytes == 0 {
		return all
	}
	left := o.Bytes - f.spent.sum(o.RegistryUID, now) - f.reserved(func(i feed.Item) bool { return i.Registry == o.RegistryUID })
	var kept []bundled
	for _, b := range all {
		if b[0].Step == feed.SBOM {
			if b[0].Bytes > left {
				continue
			}
			left -= b[0].Bytes
		}
		kept = append(kept, b)
	}
	return kept
}

// budget is what may be fetched for a namespace, or for a Registry where that is less; 0: there is no bound.
func (f *Feeder) budget(o Offer, now time.Time) int64 {
	var left int64
	if bound := tighter(f.bounds.Bytes, o.Own.Bytes); bound > 0 {
		left = max(bound-f.spent.sum(ofNamespace(o.Namespace), now), 1)
	}
	if o.Bytes > 0 {
		left = tighter(left, max(o.Bytes-f.spent.sum(o.RegistryUID, now), 1))
	}
	return left
}

// OverQuota tells whether a namespace, or a Registry of it, has fetched what it may.
func (f *Feeder) OverQuota(jobUID string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, found := f.offers[jobUID]
	if !found {
		return false
	}
	now := f.clock.Now()
	n := f.namespace(o, now)
	if f.reserved(func(i feed.Item) bool { return i.Namespace == o.Namespace }) > 0 {
		return false // what is in flight may need less
	}
	return slices.ContainsFunc(o.Heads, func(h inventory.Head) bool {
		return h.Step == feed.SBOM && (n.Bytes != nil && h.Bytes > *n.Bytes || len(f.affordable(o, []bundled{{h}}, now)) == 0)
	})
}

// UsedRatio is how much of its bytes of a day the namespace has fetched that has fetched most.
func (f *Feeder) UsedRatio() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bounds.Bytes == 0 {
		return 0
	}
	var most int64
	for key := range f.spent {
		if strings.HasPrefix(key, namespacePrefix) {
			most = max(most, f.spent.sum(key, f.clock.Now()))
		}
	}
	return float64(most) / float64(f.bounds.Bytes)
}

const (
	// hours of a ledger.
	hours           = 24
	namespacePrefix = "namespace/"
)

// ofNamespace is the key of a namespace in the ledger. A Registry has its UID, which has no such prefix.
func ofNamespace(name string) string { return namespacePrefix + name }

// ledger counts bytes by the hour, so that what is a day old counts no more. Deleting a Registry leaves its namespace's bytes.
type ledger map[string]map[int64]int64

func (l ledger) add(key string, now time.Time, bytes int64) {
	if bytes <= 0 {
		return
	}
	if l[key] == nil {
		l[key] = map[int64]int64{}
	}
	l[key][hourOf(now)] += bytes
}

func (l ledger) sum(key string, now time.Time) int64 {
	var sum int64
	for hour, bytes := range l[key] {
		if hour <= hourOf(now)-hours {
			delete(l[key], hour)
			continue
		}
		sum += bytes
	}
	return sum
}

func hourOf(t time.Time) int64 { return t.Unix() / int64(time.Hour/time.Second) }
