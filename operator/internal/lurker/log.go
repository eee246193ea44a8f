// SPDX-License-Identifier: Apache-2.0

package lurker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanyard/scanyard/podkit/redact"
)

const (
	// maxLog is how much of the end of the scanner's log is kept.
	maxLog = 64 << 10
	// logLines and logRead bound what is read for that: the API counts lines from the end, not bytes.
	logLines = 4096
	logRead  = 16 << 20
	// logPatience is how long the log may take to be read and stored. Hours of scanning do not depend on it.
	logPatience = 20 * time.Second
)

// keeper keeps the end of the scanner's log, of each failed run and of the successful one: the last run that wrote a log
// wins. It delays nothing, and its failures are lines in the lurker's own log.
type keeper struct {
	*Lurker

	wait   sync.WaitGroup
	mu     sync.Mutex // logs are stored one by one, in the order of the runs
	stored bool
	seen   string
}

// look keeps the log of a run that has failed and that another may follow.
func (k *keeper) look(ctx context.Context, pod *corev1.Pod) {
	id, previous := failedRun(pod, k.Container)
	if id == "" || id == k.seen {
		return
	}
	k.seen = id
	k.wait.Go(func() { k.keep(ctx, id, previous) })
}

// failedRun is the run of a container that has failed last, and whether the next one has begun; "" where none has.
func failedRun(pod *corev1.Pod, container string) (id string, previous bool) {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != container {
			continue
		}
		if t := s.State.Terminated; t != nil {
			return t.ContainerID, false
		}
		if t := s.LastTerminationState.Terminated; t != nil {
			return t.ContainerID, s.State.Running != nil
		}
	}
	return "", false
}

// keep reads the end of the log of a run and stores it. A pod that is being removed has enough time left for that.
// id is "" for the run that ended well.
func (k *keeper) keep(ctx context.Context, id string, previous bool) {
	if k.LogURL == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logPatience)
	defer cancel()
	text, err := k.tailOf(ctx, id, previous)
	if err == nil && len(text) == 0 && k.stored {
		return
	}
	if err == nil {
		err = k.Upload(ctx, k.LogURL, int64(len(text)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil })
	}
	if err != nil {
		k.Log.Warn("the end of the scanner's log is not kept", "error", redact.URLs(err.Error()))
		return
	}
	k.stored = true
	k.Log.Info("kept the end of the scanner's log", "bytes", len(text))
}

// tailOf reads the end of the log of a run. The API knows only the present run and the previous one: a run that was the
// present one is the previous one as soon as the next begins, and what was read then is the log of the next.
func (k *keeper) tailOf(ctx context.Context, id string, previous bool) ([]byte, error) {
	text, err := k.tail(ctx, previous)
	if id == "" || previous {
		return text, err
	}
	pod, errPod := k.Pods.Get(ctx, k.Pod, metav1.GetOptions{})
	if errPod != nil {
		k.Log.Warn("cannot see whether the scanner was restarted while its log was read", "error", errPod)
		return text, err
	}
	if now, isPrevious := failedRun(pod, k.Container); now == id && isPrevious {
		return k.tail(ctx, true)
	}
	return text, err
}

// tail reads the end of the log, whole lines as far as they fit.
func (k *keeper) tail(ctx context.Context, previous bool) ([]byte, error) {
	lines := int64(logLines)
	stream, err := k.Pods.GetLogs(k.Pod, &corev1.PodLogOptions{Container: k.Container, Previous: previous, TailLines: &lines}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the log of the scanner: %w", err)
	}
	defer stream.Close()
	end := &lastBytes{}
	if _, err := io.Copy(end, io.LimitReader(stream, logRead)); err != nil {
		return nil, fmt.Errorf("read the log of the scanner: %w", err)
	}
	return end.lines(), nil
}

// lastBytes keeps the last maxLog bytes of its input, and in between at most twice as many.
type lastBytes struct {
	kept []byte
	cut  bool
}

// Write takes all.
func (l *lastBytes) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p...)
	if len(l.kept) > 2*maxLog {
		l.trim()
	}
	return len(p), nil
}

func (l *lastBytes) trim() {
	if over := len(l.kept) - maxLog; over > 0 {
		l.kept = append(l.kept[:0], l.kept[over:]...)
		l.cut = true
	}
}

// lines is what was kept; where something was cut off it begins with a whole line, if there is one.
func (l *lastBytes) lines() []byte {
	l.trim()
	if at := bytes.IndexByte(l.kept, '\n'); l.cut && at >= 0 {
		return l.kept[at+1:]
	}
	return l.kept
}
