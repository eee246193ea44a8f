// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Objects is a live view.
type Objects[O client.Object] struct {
	client client.WithWatch
	list   client.ObjectList
	opts   []client.ListOption
	each   func(O, bool)
	stop   context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	have    map[types.UID]O
	changed chan struct{}
	lastErr error
}

// Start begins to follow the objects of a list's kind. each is called in order for
// every change, and says whether the object is still there; it may be nil.
func Start[O client.Object](
	ctx context.Context, c client.WithWatch, list client.ObjectList, each func(o O, there bool), opts ...client.ListOption,
) *Objects[O] {
	ctx, cancel := context.WithCancel(ctx)
	f := &Objects[O]{
		client: c, list: list, opts: opts, each: each, stop: cancel,
		ended: make(chan struct{}), have: map[types.UID]O{}, changed: make(chan struct{}),
	}
	go f.run(ctx)
	return f
}

// Stop ends following and waits until each is not called any more.
func (f *Objects[O]) Stop() {
	f.stop()
	<-f.ended
}

// again is the pause before the next try while the API server is away.
const again = 100 * time.Millisecond

func (f *Objects[O]) run(ctx context.Context) {
	defer close(f.ended)
	for ctx.Err() == nil {
		err := f.session(ctx)
		f.mu.Lock()
		f.lastErr = err
		f.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// session lists and watches until the watch ends.
func (f *Objects[O]) session(ctx context.Context) error {
	list, ok := f.list.DeepCopyObject().(client.ObjectList)
	if !ok {
		return fmt.Errorf("%T is not a list", f.list)
	}
	if err := f.client.List(ctx, list, f.opts...); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if err := f.replace(list); err != nil {
		return err
	}
	raw := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true}}
	w, err := f.client.Watch(ctx, list, append(append([]client.ListOption{}, f.opts...), raw)...)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if err := f.take(e); err != nil {
				return err
			}
		}
	}
}

func (f *Objects[O]) replace(list client.ObjectList) error {
	now := map[types.UID]O{}
	err := meta.EachListItem(list, func(o runtime.Object) error {
		typed, ok := o.(O)
		if !ok {
			return fmt.Errorf("the list holds %T", o)
		}
		now[typed.GetUID()] = typed
		return nil
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	before := f.have
	f.mu.Unlock()
	for uid, o := range before {
		if _, still := now[uid]; !still {
			f.put(o, false)
		}
	}
	for uid, o := range now {
		if old, had := before[uid]; !had || old.GetResourceVersion() != o.GetResourceVersion() {
			f.put(o, true)
		}
	}
	return nil
}

func (f *Objects[O]) take(e watch.Event) error {
	switch e.Type {
	case watch.Bookmark:
		return nil
	case watch.Error:
		return fmt.Errorf("watch: %v", e.Object)
	case watch.Added, watch.Modified, watch.Deleted:
	}
	o, ok := e.Object.(O)
	if !ok {
		return fmt.Errorf("the watch sent %T", e.Object)
	}
	f.put(o, e.Type != watch.Deleted)
	return nil
}

func (f *Objects[O]) put(o O, there bool) {
	if f.each != nil {
		f.each(o, there)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if there {
		f.have[o.GetUID()] = o
	} else {
		delete(f.have, o.GetUID())
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// All returns the objects that exist. They are shared: do not change them.
func (f *Objects[O]) All() []O {
	out, _ := f.snapshot()
	return out
}

func (f *Objects[O]) snapshot() ([]O, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]O, 0, len(f.have))
	for _, o := range f.have {
		out = append(out, o)
	}
	return out, f.changed
}

// UntilAll waits until a condition over all objects holds, and returns them.
func (f *Objects[O]) UntilAll(ctx context.Context, cond func([]O) bool) ([]O, error) {
	for {
		all, changed := f.snapshot()
		if cond(all) {
			return all, nil
		}
		select {
		case <-ctx.Done():
			f.mu.Lock()
			defer f.mu.Unlock()
			return all, errors.Join(ctx.Err(), f.lastErr)
		case <-changed:
		}
	}
}

// Until waits until a condition over one object holds, and returns it as it was
// then. The condition gets the zero object where there is none of that name.
func (f *Objects[O]) Until(ctx context.Context, namespace, name string, cond func(o O, there bool) bool) (O, error) {
	var got O
	_, err := f.UntilAll(ctx, func(all []O) bool {
		var there bool
		got, there = find(all, namespace, name)
		return cond(got, there)
	})
	return got, err
}

func find[O client.Object](all []O, namespace, name string) (O, bool) {
	for _, o := range all {
		if o.GetNamespace() == namespace && o.GetName() == name {
			return o, true
		}
	}
	var none O
	return none, false
}
