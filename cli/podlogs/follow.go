// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/follow"
)

func sortJobs(jobs []batchv1.Job) {
	slices.SortFunc(jobs, func(a, b batchv1.Job) int {
		if d := phaseOrder(&a) - phaseOrder(&b); d != 0 {
			return d
		}
		return byCreation(&a, &b)
	})
}

func sortPods(pods []corev1.Pod) {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return byCreation(&a, &b) })
}

// follower follows the pods of one Scan.
type follower struct {
	*Reader
	wait sync.WaitGroup

	mu      sync.Mutex
	seen    map[string]bool
	streams map[string]*stream
	errs    []error
	// allowed says that a log has been read. A later refusal then comes from an API server that has just started and does not
	// know all rights yet.
	allowed bool
}

// stream is one container: its runs are printed one after the other.
type stream struct {
	waiting []run
	busy    bool
	// printed says from which line to which the stream has been printed, so that no line is printed twice: neither after a
	// broken connection, nor where the log is already that of the next run. Only the goroutine that prints uses printed.
	printed interval
}

// interval is a part of the log of a container, whatever its runs, by the times of its first line and of its last.
type interval struct{ first, last time.Time }

// has says whether a line lies in the stretch.
func (s *interval) has(at time.Time) bool {
	return !s.first.IsZero() && !at.IsZero() && !at.Before(s.first) && !at.After(s.last)
}

// add makes the stretch longer.
func (s *interval) add(at time.Time) {
	if at.IsZero() {
		return
	}
	if s.first.IsZero() || at.Before(s.first) {
		s.first = at
	}
	if at.After(s.last) {
		s.last = at
	}
}

// settleTime bounds the wait for logs whose containers have ended with the Scan.
const settleTime = 15 * time.Second

// Follow prints logs as they come until the channel ended is closed, which the caller does
// when the Scan has ended; then it prints what is left of them.
func (r *Reader) Follow(ctx context.Context, ended <-chan struct{}) error {
	f := &follower{Reader: r, seen: map[string]bool{}, streams: map[string]*stream{}}
	discover, stop := context.WithCancel(ctx)
	defer stop()
	streams, cut := context.WithCancel(ctx)
	defer cut()
	found := make(chan error, 1)
	go func() { found <- f.jobs(discover, streams) }()
	select {
	case <-ctx.Done():
	case <-ended:
	case err := <-found:
		if err != nil && ctx.Err() == nil {
			stop()
			cut()
			f.wait.Wait()
			return err
		}
	}
	stop()
	if ctx.Err() == nil {
		f.note(f.each(ctx, func(one run) error { // of Jobs so short that they were not seen
			f.begin(streams, one)
			return nil
		}))
	}
	timer := time.AfterFunc(settleTime, cut)
	defer timer.Stop()
	f.wait.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.errs...)
}

func (f *follower) note(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

// jobs finds the Jobs of the Scan as they come. Their metadata is enough.
func (f *follower) jobs(discover, streams context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	feed := follow.Of[*metav1.PartialObjectMetadata](f.Client, list, client.InNamespace(f.Scan.Namespace), client.HasLabels{executionv1.LabelJobType})
	feed.Away = f.Away
	known := map[string]bool{}
	return feed.Run(discover, func(j *metav1.PartialObjectMetadata, there bool) (bool, error) {
		if !there || known[string(j.UID)] || !Serves(j, f.Scan) || !f.Select.wantsJob(j) {
			return false, nil
		}
		known[string(j.UID)] = true
		f.wait.Go(func() { f.pods(discover, streams, j, jobPhase(j)) })
		return false, nil
	}, nil)
}

// pods begins a stream for each run of a container of a Job.
func (f *follower) pods(discover, streams context.Context, j *metav1.PartialObjectMetadata, phase string) {
	feed := follow.Of[*corev1.Pod](f.Client, &corev1.PodList{}, client.InNamespace(j.Namespace), client.MatchingLabels{batchv1.JobNameLabel: j.Name})
	f.note(feed.Run(discover, func(p *corev1.Pod, there bool) (bool, error) {
		if there {
			for _, one := range runs(p, phase, f.Select) {
				f.begin(streams, one)
			}
		}
		return false, nil
	}, nil))
}

// begin starts the stream of a run, once. A run that is the one before is read once more as such: the API gives the log of
// the run that exists when it responds, so what was printed may have been the log of the next one.
func (f *follower) begin(ctx context.Context, one run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := one.key()
	if one.previous {
		key += "/previous"
	}
	if f.seen[key] {
		return
	}
	f.seen[key] = true
	l := f.streams[one.containerKey()]
	if l == nil {
		l = &stream{}
		f.streams[one.containerKey()] = l
	}
	l.waiting = append(l.waiting, one)
	if !l.busy {
		l.busy = true
		f.wait.Go(func() { f.drive(ctx, l) })
	}
}

// drive prints the runs of a container in their order, until none is left.
func (f *follower) drive(ctx context.Context, l *stream) {
	for {
		f.mu.Lock()
		if len(l.waiting) == 0 {
			l.busy = false
			f.mu.Unlock()
			return
		}
		one := l.waiting[0]
		l.waiting = l.waiting[1:]
		f.mu.Unlock()
		f.print(ctx, l, one)
	}
}

const (
	// streamPause is the pause between tries to read a log on.
	streamPause = 500 * time.Millisecond
	// patience is how many refusals in a row are taken for passing ones.
	patience = 20
)

// print prints the log of a run until the run has ended, however often the connection breaks.
func (f *follower) print(ctx context.Context, l *stream, one run) {
	if !one.previous && f.succeeded(ctx, one) {
		return // its log is read as that of the run before, and first
	}
	for refused := 0; ; {
		err := f.copy(ctx, one, !one.previous, &l.printed)
		if !l.printed.last.IsZero() {
			f.mayRead(true)
		}
		if apierrors.IsForbidden(err) {
			if refused++; refused > patience || !f.mayRead(false) {
				f.note(err)
				return
			}
		} else if err == nil {
			refused = 0
		}
		if ctx.Err() != nil || one.previous || err == nil && f.over(ctx, one) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(streamPause):
		}
	}
}

// mayRead remembers that a log could be read, and says whether one ever could.
func (f *follower) mayRead(now bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.allowed = f.allowed || now
	return f.allowed
}

// succeeded says whether the next run of the container has begun already. Where that is not known, the answer is no.
func (f *follower) succeeded(ctx context.Context, one run) bool {
	pod := &corev1.Pod{}
	if err := f.Client.Get(ctx, client.ObjectKey{Namespace: one.namespace, Name: one.pod}, pod); err != nil || string(pod.UID) != one.uid {
		return false
	}
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		last := c.LastTerminationState.Terminated
		return c.Name == one.container && c.ContainerID != one.id && last != nil && last.ContainerID == one.id
	})
}

// over says whether a run has ended, or a later one of the container has begun.
func (f *follower) over(ctx context.Context, one run) bool {
	pod := &corev1.Pod{}
	if err := f.Client.Get(ctx, client.ObjectKey{Namespace: one.namespace, Name: one.pod}, pod); err != nil {
		return apierrors.IsNotFound(err)
	}
	if string(pod.UID) != one.uid {
		return true
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.Name == one.container {
			return c.ContainerID != one.id || c.State.Running == nil
		}
	}
	return true
}
