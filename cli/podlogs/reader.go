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
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/findings/scanview"
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

	mu   sync.Mutex // of data
	data io.Writer
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

// All prints the logs that exist now, phase by phase. It returns how many logs there were.
func (r *Reader) All(ctx context.Context) (int, error) {
	n := 0
	err := r.each(ctx, func(one run) error {
		n++
		return r.copy(ctx, one, false, &interval{})
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
		if !r.Select.wantsJob(&jobs[i]) {
			continue
		}
		pods, err := JobPods(ctx, r.Client, jobs[i].Namespace, jobs[i].Name)
		if err != nil {
			return err
		}
		for k := range pods {
			for _, one := range runs(&pods[k], jobPhase(&jobs[i]), r.Select) {
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

// copy prints the lines of a log that are not printed yet. A log that is gone, as of a pod that was removed, is not an error:
// there is nothing to print.
func (r *Reader) copy(ctx context.Context, one run, follow bool, printed *interval) error {
	before := *printed
	opts := &corev1.PodLogOptions{Container: one.container, Follow: follow, Previous: one.previous, Timestamps: true}
	if !before.last.IsZero() && !one.previous {
		opts.SinceTime = &metav1.Time{Time: before.last}
	} else if r.Tail >= 0 {
		opts.TailLines = &r.Tail
	}
	stream, err := r.Pods.CoreV1().Pods(one.namespace).GetLogs(one.pod, opts).Stream(ctx)
	if apierrors.IsNotFound(err) || one.previous && apierrors.IsBadRequest(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the log of container %s of pod %s: %w", one.container, one.pod, err)
	}
	defer stream.Close()
	lines := bufio.NewReaderSize(stream, maxLine)
	for {
		raw, err := lines.ReadSlice('\n')
		if len(raw) > 0 {
			at, text := splitStamp(string(raw))
			// The API takes whole seconds, so some lines come again.
			if again := !at.IsZero() && !at.After(before.last); !again || one.previous && !before.has(at) {
				r.print(one.label, at, text)
			}
			printed.add(at)
		}
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil
		default:
			return fmt.Errorf("read the log of container %s of pod %s: %w", one.container, one.pod, err)
		}
	}
}

// maxStored is how much of a stored log is read; lurkers keep less.
const maxStored = 1 << 20

// PrintStored prints the end of the scanner's log as it is stored, like a log that is read from a pod.
func (r *Reader) PrintStored(body io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(body, maxStored))
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if r.Tail >= 0 && int64(len(lines)) > r.Tail {
		lines = lines[int64(len(lines))-r.Tail:]
	}
	for _, line := range lines {
		r.print(scanview.PhaseScanner, time.Time{}, strings.TrimRight(line, "\r"))
	}
	return nil
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
	if r.data == nil {
		r.data = r.Session.Data(termsafe.Replace)
	}
	fmt.Fprintln(r.data, head+text)
}
