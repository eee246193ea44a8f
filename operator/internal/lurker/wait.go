// SPDX-License-Identifier: Apache-2.0

package lurker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/scanyard/scanyard/podkit/retry"
)

const (
	// pollEvery is how often the pod is read if it may not be watched.
	pollEvery = 2 * time.Second
	// refusedFor is how long the API server may say that the pod does not exist, or that the lurker may not
	// read it, before the lurker believes that: rights may come a moment late.
	refusedFor = time.Minute
	// watchFor bounds one watch, so that a connection that died unnoticed ends.
	watchFor = 10 * time.Minute
)

// errUnwatchable says that the pod may be read but not watched.
var errUnwatchable = errors.New("the pod may not be watched")

// waiter waits for a container to end.
type waiter struct {
	pods      corev1client.PodInterface
	pod       string
	container string
	clock     retry.Clock
	log       *slog.Logger
	// seen is called with each version of the pod whose container has not succeeded.
	seen func(context.Context, *corev1.Pod)

	unwatchable  bool
	refusedSince time.Time
}

// wait returns the state of a container that has ended. It gives up only when the API server refuses: it
// retries during an outage.
func (w *waiter) wait(ctx context.Context) (containerState, error) {
	loop := pauses(w.clock, w.log, "cannot see the pod, trying again").Begin()
	for {
		v, err := w.look(ctx)
		if err == nil && v.ended {
			return v, nil
		}
		if ctx.Err() != nil {
			return containerState{}, ctx.Err()
		}
		if err == nil {
			loop.Progress()
			w.refusedSince = time.Time{}
			err = w.clock.Sleep(ctx, pollEvery)
		} else if refused := w.giveUp(err); refused != nil {
			err = refused
		} else {
			err = loop.Wait(ctx, err, 0)
		}
		if err != nil {
			return containerState{}, err
		}
	}
}

// pauses grow from half a second to half a minute, without an end.
func pauses(clock retry.Clock, log *slog.Logger, says string) retry.Policy {
	return retry.Policy{
		First: 500 * time.Millisecond, Longest: 30 * time.Second, Clock: clock,
		Notice: func(err error, pause time.Duration) {
			log.Warn(says, "error", err, "in", pause.Round(time.Millisecond))
		},
	}
}

// giveUp returns the error to end with when the API server has refused for a while.
func (w *waiter) giveUp(err error) error {
	if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		w.refusedSince = time.Time{}
		return nil
	}
	if w.refusedSince.IsZero() {
		w.refusedSince = w.clock.Now()
	}
	if w.clock.Now().Sub(w.refusedSince) < refusedFor {
		return nil
	}
	return fmt.Errorf("look at pod %s: %w; the pod's ServiceAccount needs to get pods, and POD_NAME or HOSTNAME must be the name of the pod", w.pod, err)
}

// look reads the pod once and then, where that is allowed, follows it.
func (w *waiter) look(ctx context.Context) (containerState, error) {
	pod, err := w.pods.Get(ctx, w.pod, metav1.GetOptions{})
	if err != nil {
		return containerState{}, err
	}
	if v := w.stateOf(ctx, pod); v.ended || w.unwatchable {
		return v, nil
	}
	v, err := w.follow(ctx, pod.ResourceVersion)
	if errors.Is(err, errUnwatchable) {
		w.unwatchable = true
		w.log.Info("the pod may not be watched; asking for it instead", "every", pollEvery)
		return containerState{}, nil
	}
	return v, err
}

func (w *waiter) stateOf(ctx context.Context, pod *corev1.Pod) containerState {
	v := stateOf(pod, w.container)
	if w.seen != nil && (!v.ended || v.err != nil) {
		w.seen(ctx, pod)
	}
	return v
}

// follow watches the pod until its container has ended or the watch has.
func (w *waiter) follow(ctx context.Context, version string) (containerState, error) {
	ctx, cancel := context.WithTimeout(ctx, watchFor)
	defer cancel()
	events, err := w.pods.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", w.pod).String(), ResourceVersion: version,
	})
	if apierrors.IsForbidden(err) {
		return containerState{}, errUnwatchable
	}
	if err != nil {
		return containerState{}, err
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		switch pod, ok := e.Object.(*corev1.Pod); {
		case e.Type == watch.Error:
			return containerState{}, apierrors.FromObject(e.Object)
		case !ok || e.Type == watch.Bookmark:
		case e.Type == watch.Deleted:
			return containerState{ended: true, err: fmt.Errorf("pod %s was deleted", w.pod)}, nil
		default:
			if v := w.stateOf(ctx, pod); v.ended {
				return v, nil
			}
		}
	}
	return containerState{}, nil
}
