// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// TestManySchedules lets many ScheduledScans come due within a short time. Every tenth
// status write meets a conflict, and the operator is killed and started again while they
// start. Each starts its one Scan. SCANYARD_SCHEDULES=10000 is the size that is promised,
// within one minute; it takes some minutes and reports what it has measured.
func TestManySchedules(t *testing.T) {
	count, window := 500, 5*time.Second
	if text := os.Getenv("SCANYARD_SCHEDULES"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		window = time.Minute
	}
	w := newQuietWorld(t)
	w.SetDefaultEventuallyTimeout(10 * time.Minute)
	w.Create(w.scanType())
	due := time.Now().UTC().Truncate(time.Hour).Add(3 * time.Hour)
	w.createSchedules(count, due, window)

	stop := w.startOperator()
	w.Eventually(func() int {
		return w.count(func(s *executionv1.ScheduledScan) bool { return s.Status.NextScheduleTime != nil })
	}).WithPolling(500 * time.Millisecond).Should(Equal(count))
	stop()
	t.Logf("before: RSS %d MiB; calls %s", usage.OfT(t, os.Getpid()).Resident>>20, w.calls)

	w.calls.reset()
	w.faults.set(everyTenthStatus(), nil)
	w.clock.shift(time.Until(due) - time.Second)
	began, born := w.clock.Now(), w.watchBirths()
	stop = w.startOperator()
	w.Eventually(born.count).WithPolling(20 * time.Millisecond).Should(BeNumerically(">=", count/2))
	stop()
	restarted := w.clock.Now()
	w.Cleanup(w.startOperator())
	w.Eventually(born.count).WithPolling(50 * time.Millisecond).Should(BeNumerically(">=", count))
	w.Eventually(func() int {
		return w.count(func(s *executionv1.ScheduledScan) bool {
			return s.Status.LastScheduleTime != nil && s.Status.NextScheduleTime != nil && s.Status.NextScheduleTime.After(due.Add(time.Hour))
		})
	}).WithPolling(500 * time.Millisecond).Should(Equal(count))
	w.settled()

	perSchedule := map[string]int{}
	for _, s := range w.scans() {
		perSchedule[s.OwnerReferences[0].Name]++
	}
	w.Expect(perSchedule).To(HaveLen(count))
	for name, n := range perSchedule {
		w.Expect(n).To(Equal(1), "Scans of %s", name)
	}
	last := born.last()
	t.Logf("%d schedules due within %s: the first Scan %.1f s after the first was due, the last %.1f s after the last was due; restarted after %.1f s",
		count, window, born.first().Sub(due).Seconds(), last.Sub(due.Add(window)).Seconds(), restarted.Sub(began).Seconds())
	t.Logf("RSS %d MiB (test and operator); calls from then on: %s", usage.OfT(t, os.Getpid()).Resident>>20, w.calls)
}

// createSchedules creates ScheduledScans that come due one after the other.
func (w *world) createSchedules(count int, due time.Time, window time.Duration) {
	w.Helper()
	unlimited := rest.CopyConfig(cluster.Config)
	unlimited.QPS = -1
	c, err := client.New(unlimited, client.Options{Scheme: cluster.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(count); i = next.Add(1) {
				s := w.scheduled(fmt.Sprintf("s%05d", i), cronOf(fmt.Sprintf("0 %d * * *", due.Hour())), retrigger, func(s *executionv1.ScheduledScan) {
					s.Namespace, s.Spec.Jitter = w.Namespace, window.String()
				})
				if err := c.Create(w.Context(), s); err != nil {
					w.Errorf("create %s: %v", s.Name, err)
				}
			}
		})
	}
	wg.Wait()
}

// count counts ScheduledScans.
func (w *world) count(which func(*executionv1.ScheduledScan) bool) int {
	w.Helper()
	var list executionv1.ScheduledScanList
	w.Expect(w.Client.List(w.Context(), &list, client.InNamespace(w.Namespace))).To(Succeed())
	n := 0
	for i := range list.Items {
		if which(&list.Items[i]) {
			n++
		}
	}
	return n
}

// everyTenthStatus lets each tenth status write meet a conflict.
func everyTenthStatus() func(string, int) error {
	var mu sync.Mutex
	n := 0
	return func(call string, _ int) error {
		if !strings.HasPrefix(call, "status ") {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		if n%10 == 0 {
			return apierrors.NewConflict(resource, strings.TrimPrefix(call, "status "), errors.New("a conflict of the test"))
		}
		return nil
	}
}

// births are the times at which Scans have appeared, by the operator's clock.
type births struct {
	mu  sync.Mutex
	uid map[types.UID]time.Time
}

func (w *world) watchBirths() *births {
	w.Helper()
	watching, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	events, err := watching.Watch(w.Context(), &executionv1.ScanList{}, client.InNamespace(w.Namespace))
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(events.Stop)
	b := &births{uid: map[types.UID]time.Time{}}
	go func() {
		for e := range events.ResultChan() {
			if s, ok := e.Object.(*executionv1.Scan); ok {
				b.add(s.UID, w.clock.Now())
			}
		}
	}()
	return b
}

func (b *births) add(uid types.UID, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.uid[uid]; !ok {
		b.uid[uid] = at
	}
}

func (b *births) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.uid)
}

func (b *births) first() time.Time { return b.extreme(-1) }

func (b *births) last() time.Time { return b.extreme(1) }

func (b *births) extreme(sign int) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.MaxFunc(slices.Collect(maps.Values(b.uid)), func(a, b time.Time) int { return sign * a.Compare(b) })
}

func (c *callCounter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.counts)
}

// String lists the calls.
func (c *callCounter) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, call := range slices.Sorted(maps.Keys(c.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", call, c.counts[call]))
	}
	return strings.Join(parts, ", ")
}
