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
	"github.com/scanyard/scanyard/operator/internal/cli/follow"
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

// flight is what is being followed.
type flight struct {
	*Reader
	wait sync.WaitGroup

	mu    sync.Mutex
	seen  map[string]bool
	lanes map[string]*lane
	errs  []error
	// allowed says that a log was read: a refusal is then that of an API server that has
	// just started, and does not know all rights yet.
	allowed bool
}

// lane is one container: its runs are printed one after the other.
type lane struct {
	waiting []run
	busy    bool
	// last is the time of the line that was printed last. Whatever is read again, as after a
	// broken connection, or of the next run while the status still tells of this one, is
	// not printed twice. Only the stream that is busy reads and writes it.
	last time.Time
}

// settleTime bounds the wait for logs whose containers have ended with the Scan.
const settleTime = 15 * time.Second

// Follow prints logs as they come until the channel ended is closed, which the caller does
// when the Scan has ended; then it prints what is left of them.
func (r *Reader) Follow(ctx context.Context, ended <-chan struct{}) error {
	f := &flight{Reader: r, seen: map[string]bool{}, lanes: map[string]*lane{}}
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

func (f *flight) note(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, err)
}

// jobs finds the Jobs of the Scan as they come. Their metadata is enough.
func (f *flight) jobs(discover, streams context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	feed := follow.Of[*metav1.PartialObjectMetadata](f.Client, list, client.InNamespace(f.Scan.Namespace), client.HasLabels{executionv1.LabelJobType})
	feed.Away = f.Away
	known := map[string]bool{}
	return feed.Run(discover, func(j *metav1.PartialObjectMetadata, there bool) (bool, error) {
		phase := jobPhase(j)
		if !there || known[string(j.UID)] || !Serves(j, f.Scan) || !f.Select.wants(phase) {
			return false, nil
		}
		known[string(j.UID)] = true
		f.wait.Go(func() { f.pods(discover, streams, j, phase) })
		return false, nil
	}, nil)
}

// pods begins a stream for each run of a container of a Job.
func (f *flight) pods(discover, streams context.Context, j *metav1.PartialObjectMetadata, phase string) {
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

// begin starts the stream of a run, once.
func (f *flight) begin(ctx context.Context, one run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[one.key()] {
		return
	}
	f.seen[one.key()] = true
	l := f.lanes[one.lane()]
	if l == nil {
		l = &lane{}
		f.lanes[one.lane()] = l
	}
	l.waiting = append(l.waiting, one)
	if !l.busy {
		l.busy = true
		f.wait.Go(func() { f.drive(ctx, l) })
	}
}

// drive prints the runs of a container in their order, until none is left.
func (f *flight) drive(ctx context.Context, l *lane) {
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
		f.stream(ctx, l, one)
	}
}

const (
	// streamPause is the pause between tries to read a log on.
	streamPause = 500 * time.Millisecond
	// patience is how many refusals in a row are taken for passing ones.
	patience = 20
)

// stream prints the log of a run until the run has ended, however often the connection breaks.
func (f *flight) stream(ctx context.Context, l *lane, one run) {
	for refused := 0; ; {
		at, err := f.copy(ctx, one, !one.previous, l.last)
		l.last = at
		if !at.IsZero() {
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
func (f *flight) mayRead(now bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.allowed = f.allowed || now
	return f.allowed
}

// over says whether a run has ended, or a later one of the container has begun.
func (f *flight) over(ctx context.Context, one run) bool {
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
