// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/cli/inert"
	"github.com/scanyard/scanyard/operator/internal/cli/session"
)

// Reader reads the logs of one Scan.
type Reader struct {
	Client  client.WithWatch
	Pods    kubernetes.Interface
	Scan    *executionv1.Scan
	Select  Selection
	Session *session.Session
	// Prefix begins each line with its phase and container.
	Prefix bool
	// Timestamps begins each line with its time.
	Timestamps bool
	// Tail is how many lines of each log are read; negative means all.
	Tail int64
	// Away is called when the API server is away, and with nil when it is back. It may be nil.
	Away func(error)

	mu sync.Mutex // of Session.Out
}

// Jobs are those of a Scan in its namespace, in the order of its life.
func Jobs(ctx context.Context, c client.Client, scan *executionv1.Scan) ([]batchv1.Job, error) {
	var list batchv1.JobList
	if err := c.List(ctx, &list, client.InNamespace(scan.Namespace), client.HasLabels{executionv1.LabelJobType}); err != nil {
		return nil, fmt.Errorf("list Jobs: %w", err)
	}
	var jobs []batchv1.Job
	for i := range list.Items {
		if Serves(&list.Items[i], scan) {
			jobs = append(jobs, list.Items[i])
		}
	}
	sortJobs(jobs)
	return jobs, nil
}

// JobPods are the pods of a Job, oldest first.
func JobPods(ctx context.Context, c client.Client, namespace, job string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{batchv1.JobNameLabel: job}); err != nil {
		return nil, fmt.Errorf("list pods of Job %s: %w", job, err)
	}
	sortPods(list.Items)
	return list.Items, nil
}

// All prints what is there now, phase by phase. It returns how many logs there were.
func (r *Reader) All(ctx context.Context) (int, error) {
	n := 0
	err := r.each(ctx, func(one run) error {
		n++
		_, err := r.copy(ctx, one, false, time.Time{})
		return err
	})
	return n, err
}

// each calls do for every run of a container of the Scan.
func (r *Reader) each(ctx context.Context, do func(run) error) error {
	jobs, err := Jobs(ctx, r.Client, r.Scan)
	if err != nil {
		return err
	}
	for i := range jobs {
		phase := jobPhase(&jobs[i])
		if !r.Select.wants(phase) {
			continue
		}
		pods, err := JobPods(ctx, r.Client, jobs[i].Namespace, jobs[i].Name)
		if err != nil {
			return err
		}
		for k := range pods {
			for _, one := range runs(&pods[k], phase, r.Select) {
				if err := do(one); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// maxLine is where longer lines are split.
const maxLine = 1 << 20

// copy prints a log from a time on, and returns the time of its last line. A log that is
// gone, as of a pod that was removed, is no error: there is nothing to print.
func (r *Reader) copy(ctx context.Context, one run, follow bool, after time.Time) (last time.Time, err error) {
	opts := &corev1.PodLogOptions{Container: one.container, Follow: follow, Previous: one.previous, Timestamps: true}
	if !after.IsZero() {
		opts.SinceTime = &metav1.Time{Time: after}
	} else if r.Tail >= 0 {
		opts.TailLines = &r.Tail
	}
	stream, err := r.Pods.CoreV1().Pods(one.namespace).GetLogs(one.pod, opts).Stream(ctx)
	if apierrors.IsNotFound(err) || one.previous && apierrors.IsBadRequest(err) {
		return after, nil
	}
	if err != nil {
		return after, fmt.Errorf("read the log of container %s of pod %s: %w", one.container, one.pod, err)
	}
	defer stream.Close()
	last = after
	lines := bufio.NewReaderSize(stream, maxLine)
	for {
		raw, err := lines.ReadSlice('\n')
		if len(raw) > 0 {
			at, text := splitStamp(string(raw))
			// The API takes whole seconds, so some lines come again.
			if at.IsZero() || at.After(after) {
				r.print(one.label, at, text)
			}
			if at.After(last) {
				last = at
			}
		}
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return last, nil
		default:
			return last, fmt.Errorf("read the log of container %s of pod %s: %w", one.container, one.pod, err)
		}
	}
}

// splitStamp takes the time off the beginning of a line.
func splitStamp(line string) (time.Time, string) {
	line = strings.TrimRight(line, "\r\n")
	stamp, text, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return time.Time{}, line
	}
	return at, text
}

func (r *Reader) print(label string, at time.Time, text string) {
	var head string
	if r.Prefix {
		head = r.Session.Paint(session.Quiet, "["+label+"]") + " "
	}
	if r.Timestamps && !at.IsZero() {
		head += at.Format(time.RFC3339) + " "
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !session.IsTerminal(r.Session.Out) {
		fmt.Fprintln(r.Session.Out, head+text)
		return
	}
	// A scanner, or what it has scanned, must not drive the terminal.
	calm := inert.NewWriter(r.Session.Out, inert.Replace)
	fmt.Fprint(r.Session.Out, head)
	fmt.Fprintln(calm, text)
	// A terminal that is gone has nobody to tell.
	_ = calm.Flush()
}
