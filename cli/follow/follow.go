// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/podkit/retry"
)

// Feed is a source of objects.
type Feed[O metav1.Object] struct {
	// List returns all objects, and the resource version of the list.
	List func(ctx context.Context) ([]O, string, error)
	// Watch reports changes after a resource version.
	Watch func(ctx context.Context, resourceVersion string) (watch.Interface, error)
	// Decode returns the object of an event.
	Decode func(runtime.Object) (O, error)
	// Away is called once when the API server cannot be reached, with the reason, and
	// with nil when it is back. It may be nil.
	Away func(error)
}

// Each is called for every object at first and for every change afterwards; exists is false for a
// deleted one. It ends following by done or by an error.
type Each[O metav1.Object] func(o O, there bool) (done bool, err error)

// Listed is called after every complete list with all objects; like Each, it may end following.
type Listed[O metav1.Object] func(all []O) (done bool, err error)

// Of feeds typed objects of the API server; list is an empty list of their kind.
func Of[O client.Object](c client.WithWatch, list client.ObjectList, opts ...client.ListOption) Feed[O] {
	empty := func() (client.ObjectList, error) {
		l, ok := list.DeepCopyObject().(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("%T is not a list", list)
		}
		return l, nil
	}
	decode := func(o runtime.Object) (O, error) {
		typed, ok := o.(O)
		if !ok {
			return typed, fmt.Errorf("the API server sent %T", o)
		}
		return typed, nil
	}
	return Feed[O]{
		Decode: decode,
		List: func(ctx context.Context) ([]O, string, error) {
			l, err := empty()
			if err != nil {
				return nil, "", err
			}
			if err := c.List(ctx, l, opts...); err != nil {
				return nil, "", fmt.Errorf("list: %w", err)
			}
			var all []O
			err = meta.EachListItem(l, func(o runtime.Object) error {
				typed, err := decode(o)
				all = append(all, typed)
				return err
			})
			return all, l.GetResourceVersion(), err
		},
		Watch: func(ctx context.Context, resourceVersion string) (watch.Interface, error) {
			l, err := empty()
			if err != nil {
				return nil, err
			}
			from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: resourceVersion, AllowWatchBookmarks: true}}
			w, err := c.Watch(ctx, l, append(append([]client.ListOption{}, opts...), from)...)
			if err != nil {
				return nil, fmt.Errorf("watch: %w", err)
			}
			return w, nil
		},
	}
}

// Pauses between tries while the API server is away.
const (
	firstPause = 200 * time.Millisecond
	mostPause  = 5 * time.Second
	// patience is how many refusals in a row count as those of an API server that has just started and does
	// not know all rights yet.
	patience = 6
)

type follower[O metav1.Object] struct {
	Feed[O]
	each   Each[O]
	listed Listed[O]
	have   map[types.UID]O
	// connected says that a list has succeeded once; refused counts refusals since then.
	connected bool
	refused   int
	away      bool
}

// Run follows until each or listed is done, one fails, or ctx ends. listed may be nil.
func (f Feed[O]) Run(ctx context.Context, each Each[O], listed Listed[O]) error {
	r := &follower[O]{Feed: f, each: each, listed: listed, have: map[types.UID]O{}}
	loop := retry.Policy{First: firstPause, Longest: mostPause}.Begin()
	for {
		complete, done, err := r.session(ctx)
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case r.isFinal(err):
			return err
		}
		if complete {
			loop.Progress()
		}
		if err != nil {
			r.reportAway(err)
		}
		if loop.Wait(ctx, err, 0) != nil { // only the end of the context bounds the loop
			return ctx.Err()
		}
	}
}

// reportAway says that the API server is away, or, with nil, that it is back.
func (f *follower[O]) reportAway(err error) {
	if (err != nil) == f.away {
		return
	}
	f.away = err != nil
	if f.Away != nil {
		f.Away(err)
	}
}

// isFinal reports whether a retry is of no use.
func (f *follower[O]) isFinal(err error) bool {
	switch {
	case err == nil:
		return false
	case !f.connected:
		return !isTemporary(err)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		f.refused++
		return f.refused > patience
	}
	return false
}

// isTemporary reports whether a working API server may respond otherwise later.
func isTemporary(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}

// session lists and watches until the watch ends. complete says that the list was complete, done that
// following has ended.
func (f *follower[O]) session(ctx context.Context) (complete, done bool, err error) {
	all, version, err := f.List(ctx)
	if err != nil {
		return false, false, err
	}
	f.connected, f.refused = true, 0
	f.reportAway(nil)
	if done, err = f.replace(all); done || err != nil {
		return true, true, err
	}
	w, err := f.Watch(ctx, version)
	if err != nil {
		return true, false, err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return true, true, ctx.Err()
		case e, open := <-w.ResultChan():
			if !open || e.Type == watch.Error {
				return true, false, nil // watches end now and then; the next list shows the missed changes
			}
			if done, err = f.take(e); done || err != nil {
				return true, true, err
			}
		}
	}
}

// take reports the object of an event.
func (f *follower[O]) take(e watch.Event) (done bool, err error) {
	if e.Type == watch.Bookmark {
		return false, nil
	}
	o, err := f.Decode(e.Object)
	if err != nil {
		return true, err
	}
	return f.put(o, e.Type != watch.Deleted)
}

// replace reports the differences between a new list and the known objects.
func (f *follower[O]) replace(all []O) (done bool, err error) {
	now := map[types.UID]bool{}
	for _, o := range all {
		now[o.GetUID()] = true
	}
	for uid, o := range f.have {
		if !now[uid] {
			if done, err = f.put(o, false); done || err != nil {
				return true, err
			}
		}
	}
	for _, o := range all {
		if old, had := f.have[o.GetUID()]; had && old.GetResourceVersion() == o.GetResourceVersion() {
			continue
		}
		if done, err = f.put(o, true); done || err != nil {
			return true, err
		}
	}
	if f.listed == nil {
		return false, nil
	}
	return f.listed(all)
}

func (f *follower[O]) put(o O, there bool) (done bool, err error) {
	if there {
		f.have[o.GetUID()] = o
	} else {
		delete(f.have, o.GetUID())
	}
	return f.each(o, there)
}
