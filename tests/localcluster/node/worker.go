// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Why a pod's containers are ended.
var (
	errDeleted  = errors.New("the pod was deleted")
	errGone     = errors.New("the pod is gone")
	errDeadline = errors.New("the pod's deadline has passed")
)

// worker runs one pod from its volumes to its final status.
type worker struct {
	a     *Agent
	pod   *corev1.Pod
	dir   string
	start metav1.Time

	// life ends when the worker is done.
	life context.Context
	// stop ends when the pod's containers are to end; its cause says why.
	stop     context.Context
	stopWith context.CancelCauseFunc

	changed chan struct{}

	// done and left belong to Agent.mu: the work is done, the pod left the watch.
	done, left bool

	mu         sync.Mutex
	grace      time.Duration
	containers map[string]corev1.ContainerStatus
	conditions []corev1.PodCondition
	finished   bool
	refreshing map[string]bool
}

func newWorker(a *Agent, p *corev1.Pod) *worker {
	now := metav1.NewTime(a.o.Now())
	w := &worker{
		a: a, pod: p, dir: filepath.Join(a.o.Dir, "pods", string(p.UID)), start: now,
		changed: make(chan struct{}, 1), containers: map[string]corev1.ContainerStatus{},
		conditions: p.Status.Conditions, refreshing: map[string]bool{},
	}
	if p.Status.StartTime != nil {
		w.start = *p.Status.StartTime
	}
	w.stop, w.stopWith = context.WithCancelCause(context.Background()) // ends by terminate, not with a caller
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			w.containers[list[i].Name] = firstStatus(p, &list[i], now)
		}
	}
	return w
}

// terminate ends the pod's containers, at most grace after they were asked to.
// A later call can only shorten the time.
func (w *worker) terminate(grace time.Duration, cause error) {
	w.mu.Lock()
	if w.stop.Err() == nil || grace < w.grace {
		w.grace = grace
	}
	w.mu.Unlock()
	w.stopWith(cause)
}

func (w *worker) graceLeft() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.grace
}

// run is the life of the pod on this node.
func (w *worker) run(ctx context.Context) {
	life, end := context.WithCancel(ctx)
	defer end()
	w.life = life
	if d := w.pod.Spec.ActiveDeadlineSeconds; d != nil {
		left := w.start.Add(time.Duration(*d) * time.Second).Sub(w.a.o.Now())
		t := time.AfterFunc(left, func() { w.terminate(gracePeriod(w.pod), errDeadline) })
		defer t.Stop()
	}
	// A write under way is never abandoned: the server might still take it, and
	// after the final one.
	enough, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		w.writeStatuses(ctx, enough)
	}()
	w.touch()
	vols := w.mountVolumes(ctx)
	w.awaitStart(ctx)
	if w.stop.Err() == nil && ctx.Err() == nil {
		w.runContainers(ctx, vols)
	}
	close(enough)
	<-written
	if ctx.Err() != nil {
		return // the agent ends: the pod's next agent goes on from the last status
	}
	w.mu.Lock()
	w.finished = true
	w.mu.Unlock()
	w.finish(ctx)
}

// finish writes the final status and removes what the pod left.
func (w *worker) finish(ctx context.Context) {
	gone := errors.Is(context.Cause(w.stop), errGone)
	if !gone {
		w.a.until(ctx, "write final status", func() error { return w.writeStatus(ctx) })
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.a.o.Log.Warn("remove pod folder", "pod", w.pod.Name, "error", err)
	}
	if errors.Is(context.Cause(w.stop), errDeleted) {
		w.a.until(ctx, "delete pod", func() error { return w.a.deletePod(ctx, w.pod) })
	}
}

// mountVolumes tries until all volumes are there or the pod is to end.
func (w *worker) mountVolumes(ctx context.Context) map[string]volume {
	for n := 0; ; n++ {
		vols, err := w.volumes(ctx)
		if err == nil {
			return vols
		}
		if n%10 == 0 {
			w.a.event(ctx, w.pod, corev1.EventTypeWarning, "FailedMount", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.stop.Done():
			return nil
		case <-time.After(retryPause):
		}
	}
}

// awaitStart waits until the pod's containers may run, or the pod or the agent is to end. A pod whose containers an earlier agent
// has started is past that time.
func (w *worker) awaitStart(ctx context.Context) {
	left := time.NewTimer(startsIn(w.start.Time, w.a.o.PodStartDelay, w.a.o.Now()))
	defer left.Stop()
	select {
	case <-left.C:
	case <-w.stop.Done():
	case <-ctx.Done():
	}
}

// startsIn is how long a pod that came to its node at start still waits for its first container.
func startsIn(start time.Time, delay time.Duration, now time.Time) time.Duration {
	return max(0, start.Add(delay).Sub(now))
}

// runContainers returns when every container has ended for good.
func (w *worker) runContainers(ctx context.Context, vols map[string]volume) {
	select {
	case w.a.startSlots <- struct{}{}: // not all pods of a burst start at once
	case <-w.stop.Done():
		return
	}
	release := sync.OnceFunc(func() { <-w.a.startSlots })
	defer release()
	sidecars, endSidecars := context.WithCancel(w.stop)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer endSidecars()
	for i := range w.pod.Spec.InitContainers {
		c := &w.pod.Spec.InitContainers[i]
		r := &runner{w: w, c: c, vols: vols, policy: policyOf(w.pod, c, true), stop: w.stop, started: make(chan struct{})}
		if isSidecar(c) {
			r.stop = sidecars //nolint:fatcontext // each sidecar ends with the same context
			beside.Go(func() { r.run(ctx) })
			if !r.waitStarted(w.stop) {
				return
			}
			continue
		}
		if code := r.run(ctx); code != 0 {
			return
		}
	}
	var all sync.WaitGroup
	for i := range w.pod.Spec.Containers {
		c := &w.pod.Spec.Containers[i]
		r := &runner{w: w, c: c, vols: vols, policy: policyOf(w.pod, c, false), stop: w.stop, started: make(chan struct{})}
		all.Go(func() { r.run(ctx) })
	}
	release()
	all.Wait()
	w.mu.Lock()
	if w.stop.Err() == nil {
		w.grace = gracePeriod(w.pod) // for the sidecars
	}
	w.mu.Unlock()
}

// update changes a container's status.
func (w *worker) update(name string, f func(*corev1.ContainerStatus)) {
	w.mu.Lock()
	s := w.containers[name]
	f(&s)
	w.containers[name] = s
	w.mu.Unlock()
	w.touch()
}

func (w *worker) status(name string) corev1.ContainerStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.containers[name]
}

// touch asks for a status write; several in a row become one.
func (w *worker) touch() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *worker) writeStatuses(ctx context.Context, enough <-chan struct{}) {
	for {
		select {
		case <-enough:
			return
		case <-w.changed:
			w.a.until(ctx, "write pod status", func() error { return w.writeStatus(ctx) })
		}
	}
}

func (w *worker) writeStatus(ctx context.Context) error {
	w.mu.Lock()
	f := facts{
		pod: w.pod, previous: w.conditions, containers: w.containers, podIP: w.a.podIP, start: w.start,
		now: metav1.NewTime(w.a.o.Now()), finished: w.finished,
	}
	if errors.Is(context.Cause(w.stop), errDeadline) {
		if w.finished {
			f.reason, f.message = reasonDeadline, messageDeadline
		}
	}
	s := podStatus(f)
	w.conditions = s.Conditions
	w.mu.Unlock()
	b, err := statusPatch(w.pod.UID, s)
	if err != nil {
		return err
	}
	_, err = w.a.o.Client.CoreV1().Pods(w.pod.Namespace).Patch(ctx, w.pod.Name, types.StrategicMergePatchType, b, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		w.terminate(0, errGone) // the pod is gone, or another one has its name
		return nil
	}
	if apierrors.IsInvalid(err) {
		w.a.o.Log.Error("the API server refuses a pod status", "pod", w.pod.Namespace+"/"+w.pod.Name, "error", err)
		return nil // and would refuse it again
	}
	return err
}

// refreshOnce runs f in the background unless it runs already for the key.
func (w *worker) refreshOnce(key string, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.refreshing[key] {
		w.refreshing[key] = true
		go f()
	}
}
