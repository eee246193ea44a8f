// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

// TestFaultsOfTheController are the rows in which a controller is lost, or what it has put into the queue. All rows share one cluster,
// one reports API and one registry; each has a namespace, controllers that are processes, and workers.
func TestFaultsOfTheController(t *testing.T) {
	p := newPlace(t)

	// F3: a controller that is killed again and again is followed by one that goes on: one job of each planned time, and right sums.
	t.Run("F3 killed again and again", func(t *testing.T) {
		w := p.row(t)
		w.push(sized(12, 200))
		port := w.freePort()
		controller := w.control(port)
		worker := w.work("one", port)
		w.apply()
		for what, reached := range w.stages {
			w.until(what, reached)
			kill(controller)
			controller = w.control(port)
		}
		w.same(worker)
	})

	// F4: the embedded queue is lost with its controller while messages are in it. The next one begins with an empty stream.
	t.Run("F4 the queue is lost", func(t *testing.T) {
		w := p.row(t)
		w.push(sized(12, 200))
		port := w.freePort()
		controller := w.control(port)
		worker := w.work("one", port)
		q := w.connect(port, queue.ControllerUser)
		w.apply()
		w.until("messages that wait, and messages that are worked on", func(ctx context.Context) (bool, error) {
			waiting, inFlight, err := q.Waiting(ctx, queue.SBOM, "mini")
			return err == nil && waiting > 0 && inFlight > 0, nil // the consumer is made when the worker has spoken
		})
		kill(controller)
		w.control(port)
		w.same(worker)
	})

	// F7: messages that are lost are let in again.
	t.Run("F7 every third message is dropped", func(t *testing.T) {
		w := p.row(t)
		w.push(sized(12, 200))
		port := w.freePort()
		w.control(port)
		lost := w.rob(port, func(ctx context.Context, d *queue.Delivery) error { return d.Done(ctx) })
		worker := w.work("one", port)
		w.apply()
		w.same(worker)
		if n := lost(); n < 2 {
			t.Errorf("%d messages were dropped", n)
		}
	})

	// F32: two controllers that both believe to lead, each with a queue and a worker.
	t.Run("F32 two leaders", func(t *testing.T) {
		w := p.row(t)
		w.push(sized(12, 200))
		first, second := w.freePort(), w.freePort()
		w.control(first)
		w.control(second)
		workers := []*running{w.work("one", first), w.work("two", second)}
		w.apply()
		w.same(workers...)
	})

	// F34: a namespace with few images beside one with many that began before: while its images get their SBOMs, the other one gets no more
	// than its share. feed.TestSmallTenantIsNotStarved has the numbers of the specification.
	t.Run("F34 few images beside many", func(t *testing.T) {
		few := p.row(t)
		many := p.space(t)
		few.push(4)
		many.push(40)
		port := few.freePort()
		few.control(port, many.namespace)
		ended := make(chan queue.Ended, 1000)
		q := few.connect(port, queue.ControllerUser)
		go func() {
			_ = q.Listen(t.Context(), queue.Heard{Ended: func(e queue.Ended) { ended <- e }}, func() {})
		}()
		few.work("one", port)
		many.apply()
		done := map[string]int{}
		hear := func(until func() bool) {
			t.Helper()
			deadline := time.After(patience)
			for !until() {
				select {
				case e := <-ended:
					if e.Step == queue.SBOM && e.Outcome == "Done" {
						done[e.Namespace]++
					}
				case <-deadline:
					t.Fatalf("SBOMs: %v", done)
				}
			}
		}
		hear(func() bool { return done[many.namespace] > 0 })
		few.apply()
		hear(func() bool { return done[few.namespace] > 0 })
		before := done[many.namespace]
		hear(func() bool { return done[few.namespace] == few.images })
		if n := done[many.namespace] - before; n > 3*few.images {
			t.Errorf("%d SBOMs of the other namespace were made between the first and the last of %d", n, few.images)
		}
		few.ended()
		many.ended()
	})

	// F35: while a job runs, a worker is replaced by the next, and messages come that it does not know: they go to the dead letters, and
	// their items are let in again.
	t.Run("F35 upgrade of a worker", func(t *testing.T) {
		w := p.row(t)
		w.push(sized(12, 200))
		port := w.freePort()
		w.control(port)
		js := w.stream(port)
		lost := w.rob(port, func(ctx context.Context, d *queue.Delivery) error {
			newer := d.Message
			newer.Schema++
			text, err := json.Marshal(newer)
			if err != nil {
				return err
			}
			if _, err := js.Publish(ctx, "scanyard.registry.v1.work."+strings.ToLower(string(d.Step))+"."+d.Adapter, text); err != nil {
				return err
			}
			return d.Done(ctx)
		})
		old := w.work("old", port)
		w.apply()
		w.until("work of the old one", func(context.Context) (bool, error) {
			return old.count("work_total", map[string]string{"step": "SBOM"}) > 0, nil
		})
		young := w.work("young", port)
		old.end()
		w.same(old, young)
		// The last one may still be on its way to the dead letters: its item was let in again.
		buried := 0
		w.until("the dead letters", func(ctx context.Context) (bool, error) {
			dead, err := js.Stream(ctx, queue.DeadStream)
			if err == nil {
				buried = int(dead.CachedInfo().State.Msgs)
			}
			return buried >= lost(), err
		})
		if buried == 0 || buried != lost() {
			t.Errorf("%d dead letters of %d messages", buried, lost())
		}
	})
}

// stages are how far a discovery comes, each a moment to end its controller.
func (w *world) stages(yield func(string, func(context.Context) (bool, error)) bool) {
	images := func(is func(*reportsv1.Image) bool) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			list := &reportsv1.ImageList{}
			err := w.client.List(ctx, list, client.InNamespace(w.namespace))
			for i := range list.Items {
				if is(&list.Items[i]) {
					return true, nil
				}
			}
			return false, err
		}
	}
	_ = yield("the job", func(ctx context.Context) (bool, error) {
		list := &registryv1alpha1.DiscoveryJobList{}
		err := w.client.List(ctx, list, client.InNamespace(w.namespace))
		return len(list.Items) > 0, err
	}) && yield("an image", images(func(*reportsv1.Image) bool { return true })) &&
		yield("an SBOM", images(func(i *reportsv1.Image) bool { return i.Status.SBOM != nil })) &&
		yield("a report", images(func(i *reportsv1.Image) bool { return i.Status.State == reportsv1.ImageScanned }))
}

// rob takes a message of each step from the queue, and then one after every two items that have ended: a third of the messages. lost
// counts them.
func (w *world) rob(port int, do func(context.Context, *queue.Delivery) error) (lost func() int) {
	w.t.Helper()
	q := w.connect(port, queue.ControllerUser)
	ended, counted := make(chan queue.Ended, 1000), make(chan int, 1)
	counted <- 0
	ctx := w.t.Context()
	go func() {
		_ = q.Listen(ctx, queue.Heard{Ended: func(e queue.Ended) { ended <- e }}, func() {})
	}()
	for step, adapter := range map[queue.Step]string{queue.Discover: queue.AnyAdapter, queue.SBOM: "mini", queue.Match: "mini"} {
		go func() {
			for {
				d, err := q.Take(ctx, step, adapter)
				switch {
				case ctx.Err() != nil:
					return
				case err != nil:
					_ = hastyClock{}.Wait(ctx, look) // the consumer is made when the worker has spoken
					continue
				}
				if err := do(ctx, d); err != nil {
					w.t.Errorf("rob the queue: %v", err)
				}
				counted <- <-counted + 1
				for range 2 {
					select {
					case <-ended:
					case <-ctx.Done():
						return
					}
				}
			}
		}()
	}
	return func() int {
		n := <-counted
		counted <- n
		return n
	}
}

// ended waits for the good end of the one job.
func (w *world) ended() registryv1alpha1.DiscoveryJobStatus {
	w.t.Helper()
	jobs := &registryv1alpha1.DiscoveryJobList{}
	w.until("the end of the job", func(ctx context.Context) (bool, error) {
		if err := w.client.List(ctx, jobs, client.InNamespace(w.namespace)); err != nil || len(jobs.Items) == 0 {
			return false, err
		}
		return jobs.Items[0].Status.CompletionTime != nil, nil
	})
	status := jobs.Items[0].Status
	if len(jobs.Items) != 1 || status.State != registryv1alpha1.ReasonSucceeded {
		w.t.Fatalf("%d jobs, the first is %s: %+v", len(jobs.Items), status.State, status.Conditions)
	}
	return status
}

// same waits for the end of the job, and holds what came of it against a run that nobody disturbs: one job, every image scanned with its
// findings, sums that are right, and no SBOM made twice.
func (w *world) same(workers ...*running) {
	w.t.Helper()
	n, status := int64(w.images), w.ended()
	if *status.Images != (registryv1alpha1.FoundImages{Found: n, New: n}) || status.SBOMs.Made != n || status.Reports.Made != n || status.Repositories.Done != 1 {
		w.t.Errorf("the sums: %+v, %+v, %+v, %+v", status.Images, status.SBOMs, status.Reports, status.Repositories)
	}
	registry := &registryv1alpha1.Registry{}
	w.until("the sums of the Registry", func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "prod"}, registry)
		return registry.Status.Images != nil && registry.Status.Images.Scanned == n, err
	})
	if c := meta.FindStatusCondition(registry.Status.Conditions, registryv1alpha1.ConditionUpToDate); c == nil || c.Status != metav1.ConditionTrue {
		w.t.Errorf("the Registry: %+v", registry.Status)
	}
	images := &reportsv1.ImageList{}
	w.must(w.client.List(w.t.Context(), images, client.InNamespace(w.namespace)))
	if len(images.Items) != w.images {
		w.t.Errorf("%d images, want %d", len(images.Items), w.images)
	}
	for i := range images.Items {
		s := images.Items[i].Status
		if v := s.Vulnerabilities; s.State != reportsv1.ImageScanned || v == nil || fmt.Sprint(*v.Critical, *v.High, *v.Medium, *v.Low) != "2 2 0 1" || s.Work.Claim != "" {
			w.t.Errorf("%s: %+v", images.Items[i].Name, s)
		}
	}
	made := 0
	for _, worker := range workers {
		made += worker.count("work_total", map[string]string{"step": "SBOM", "outcome": "Done"})
	}
	if made != w.images {
		w.t.Errorf("%d SBOMs were made of %d images", made, w.images)
	}
}
