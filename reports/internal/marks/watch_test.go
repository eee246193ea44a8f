// SPDX-License-Identifier: Apache-2.0

package marks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/exception/exceptiontest"
	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/marks"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// running marks until the test ends.
func (h *house) running() {
	h.Helper()
	ctx, cancel := context.WithCancel(h.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.marker.Run(ctx) }()
	h.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			h.Error(err)
		}
	})
}

// becomes waits by a watch until a report's first result is what is wanted.
func (h *house) becomes(seen watch.Interface, name, want string) {
	h.Helper()
	for h.state(name) != want {
		select {
		case <-seen.ResultChan():
		case <-h.Context().Done():
			h.Fatalf("%s is %q, want %q", name, h.state(name), want)
		}
	}
}

// timeless is a clock whose tickers never tick.
type timeless struct{ clock.RealClock }

func (timeless) NewTicker(time.Duration) clock.Ticker { return timeless{} }

func (timeless) C() <-chan time.Time { return nil }

func (timeless) Stop() {}

// TestEvents marks what is written and what is excepted when it happens: the time between two looks never comes.
func TestEvents(t *testing.T) {
	h := newHouse(t, dbtest.New(t, sqldb.SQLite))
	h.marker = marks.New(marks.Config{Store: h.store, Reports: h.reports, Source: h.source, Clock: timeless{}})
	seen, err := h.reports.Watch(t.Context(), "/reports/", storage.ListOptions{Recursive: true, Predicate: storage.Everything})
	h.must(err)
	defer seen.Stop()
	h.source.set(excepting("one", nil))
	h.running()
	h.put("a", nil, nil, exceptiontest.Finding)
	h.becomes(seen, "a", "skip FindingException/one")
	h.source.set(excepting("two", nil))
	h.becomes(seen, "a", "skip FindingException/two")
	h.put("b", nil, nil, exceptiontest.Finding)
	h.becomes(seen, "b", "skip FindingException/two")
	h.source.set()
	h.becomes(seen, "a", "fail ")
	h.becomes(seen, "b", "fail ")
}

// TestPages marks more reports than one question asks for.
func TestPages(t *testing.T) {
	h := newHouse(t, dbtest.New(t, sqldb.SQLite))
	const reports = 1_100
	for i := range reports {
		h.put(fmt.Sprintf("r-%04d", i), nil, nil, exceptiontest.Finding)
	}
	h.once()
	h.source.set(excepting("one", nil))
	h.once()
	h.counted("marked", fmt.Sprintf("5 1 %d", reports))
	h.source.set()
	h.once()
	h.counted("open again", fmt.Sprintf("2 0 %d", reports))
}

// TestChangesThatAreMissing looks at all reports where the changes are no longer there.
func TestChangesThatAreMissing(t *testing.T) {
	h := newHouse(t, dbtest.New(t, sqldb.SQLite))
	h.source.set(excepting("one", nil))
	h.once()
	h.put("a", nil, nil, exceptiontest.Finding)
	_, err := h.store.Advance(t.Context(), 1_000_000)
	h.must(err)
	h.put("b", nil, nil, exceptiontest.Finding)
	if err := h.marker.Once(t.Context()); err != nil {
		t.Log(err) // says that changes are missing: the next look goes on
	}
	h.once()
	h.expect("written before the gap", "a", "skip FindingException/one")
	h.expect("written behind the gap", "b", "skip FindingException/one")
}

// TestLease lets one of two replicas mark, and the other one when the first has gone.
func TestLease(t *testing.T) {
	for _, driver := range []sqldb.Driver{sqldb.PostgreSQL, sqldb.MySQL} {
		t.Run(string(driver), func(t *testing.T) {
			t.Parallel()
			config := dbtest.New(t, driver)
			h := newHouse(t, config)
			h.source.set(excepting("one", nil))
			second, err := mvcc.Open(t.Context(), config, mvcc.Options{Clock: h.clock, CompactEvery: -1, Unindex: kinds.Unindex})
			h.must(err)
			t.Cleanup(func() {
				if err := second.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			first := h.marker
			other := marks.New(marks.Config{Store: second, Reports: h.storageOf(second), Source: h.source, Clock: h.clock})
			look := func(m *marks.Marker) {
				t.Helper()
				h.source.tell()
				h.must(m.Once(t.Context()))
			}
			look(first)
			h.put("a", nil, nil, exceptiontest.Finding)
			look(other)
			h.expect("written while the first has the lease, after a look of the other one", "a", "fail ")
			look(first)
			h.expect("after a look of the first", "a", "skip FindingException/one")
			h.clock.Step(20 * time.Second)
			look(first) // keeps the lease
			h.clock.Step(20 * time.Second)
			h.put("b", nil, nil, exceptiontest.Finding)
			look(other)
			h.expect("the lease was kept", "b", "fail ")
			h.clock.Step(time.Minute)
			look(other)
			h.expect("the first has gone", "b", "skip FindingException/one")
			h.put("c", nil, nil, exceptiontest.Finding)
			look(first)
			h.expect("the first has come back and does not have the lease", "c", "fail ")
			// The other replica hears of what the first has written from the database, by and by.
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for h.state("c") != "skip FindingException/one" {
				<-tick.C
				h.clock.Step(50 * time.Millisecond)
				look(other)
			}
		})
	}
}

// set makes these the exceptions that there are, and tells of it.
func (k *known) set(list ...exception.Exception) {
	k.mu.Lock()
	k.list = list
	k.mu.Unlock()
	k.tell()
}
