// SPDX-License-Identifier: Apache-2.0

package sqlstorage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/scanyard/scanyard/reports/internal/mvcc"
)

const (
	// watchBuffer is how many decoded events wait for a client. The rest waits as bytes, in the hub or in the database.
	watchBuffer = 16
	watchBatch  = 64
	// lastBookmark is how long before the end of a watch its last bookmark is sent.
	lastBookmark = 2 * time.Second
)

// Watch implements storage.Interface.
func (s *Storage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	key, err := s.key(key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	from, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, badVersion(err)
	}
	if err := s.awaitFresh(ctx, int64(from)); err != nil && ctx.Err() == nil {
		return nil, err
	}
	initial := from == 0
	if opts.SendInitialEvents != nil {
		initial = *opts.SendInitialEvents
	}
	w := &watcher{
		s: s, key: key, recursive: opts.Recursive, predicate: opts.Predicate, headOnly: HeadOnly(ctx),
		bookmarks:    opts.Predicate.AllowWatchBookmarks || opts.ProgressNotify,
		endOfInitial: initial && opts.SendInitialEvents != nil && opts.Predicate.AllowWatchBookmarks,
		results:      make(chan watch.Event, watchBuffer),
	}
	if from == 0 && !initial {
		current, err := s.store.Current(ctx)
		if err != nil && ctx.Err() == nil {
			return nil, StatusOf(err)
		}
		from = uint64(current)
	}
	// The cursor is there before the watch is answered, so that the end of all watches finds this one too.
	w.cursor = s.store.NewCursor(int64(from))
	s.options.Watching(1)
	ctx, w.cancel = context.WithCancel(ctx)
	go w.run(ctx, initial)
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
}

// watcher sends the events of one watch.
type watcher struct {
	s            *Storage
	key          string
	recursive    bool
	predicate    storage.SelectionPredicate
	headOnly     bool
	bookmarks    bool
	endOfInitial bool

	cursor  *mvcc.Cursor
	results chan watch.Event
	cancel  context.CancelFunc
	stop    sync.Once
}

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.results }

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.stop.Do(w.cancel) }

// run sends first states and then changes, until the client goes, or something cannot be sent. Of an error the client is
// told in a last event; the end of all watches is none.
func (w *watcher) run(ctx context.Context, initial bool) {
	defer close(w.results)
	defer w.cancel()
	defer func() { w.cursor.Close() }()
	defer w.s.options.Watching(-1)
	err := w.send(ctx, initial)
	if err == nil || ctx.Err() != nil || errors.Is(err, mvcc.ErrEnded) {
		return
	}
	if errors.Is(err, mvcc.ErrCompacted) {
		err = apierrors.NewResourceExpired(watchTooOld)
	} else {
		err = StatusOf(err)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	said := status.Status()
	w.emit(ctx, watch.Event{Type: watch.Error, Object: &said})
}

//nolint:gocognit // one loop over what a watch waits for
func (w *watcher) send(ctx context.Context, initial bool) error {
	if initial {
		revision, err := w.sendStates(ctx)
		if err != nil {
			return err
		}
		w.cursor.Close()
		w.cursor = w.s.store.NewCursor(revision)
		if w.endOfInitial {
			if err := w.bookmark(ctx, revision, true); err != nil {
				return err
			}
		}
	} else if w.cursor.Revision() < w.s.store.Compacted() {
		return mvcc.ErrCompacted
	}
	timer := w.s.options.Clock.NewTimer(w.untilBookmark(ctx))
	defer timer.Stop()
	for {
		events, more, err := w.cursor.Next(ctx, watchBatch)
		if err != nil {
			return err
		}
		if err := w.sendEvents(ctx, events); err != nil {
			return err
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-more:
		case <-timer.C():
			if w.bookmarks {
				if err := w.bookmark(ctx, w.cursor.Revision(), false); err != nil {
					return err
				}
			}
			timer.Reset(w.untilBookmark(ctx))
		case <-w.cursor.Ended():
			return mvcc.ErrEnded
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// untilBookmark is the time to the next bookmark: the interval give or take a tenth, so that watches which began together
// do not stay together, or what is left to shortly before the end of the watch.
func (w *watcher) untilBookmark(ctx context.Context) time.Duration {
	interval := w.s.options.Bookmarks
	wait := time.Duration(float64(interval) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // spreads load, guards nothing
	if deadline, ok := ctx.Deadline(); ok {
		if left := deadline.Sub(w.s.options.Clock.Now()) - lastBookmark; left > 0 && left < wait {
			return left
		}
	}
	return wait
}

// sendStates sends the present states as ADDED, in pages, each of which is freed before the next is read. It returns the
// revision as of which they are.
func (w *watcher) sendStates(ctx context.Context) (int64, error) {
	next := mvcc.Range{Limit: chunk, HeadOnly: w.headOnly, Narrow: w.s.narrow(&w.predicate)}
	next.Start, next.End = w.s.bounds(w.key, w.recursive)
	for {
		page, err := w.s.store.Range(ctx, next)
		if err != nil {
			return 0, err
		}
		for i := range page.Items {
			obj, err := w.s.decodeListed(&page.Items[i].Value, w.s.newObject())
			if err != nil {
				return 0, err
			}
			if matched, err := w.predicate.Matches(obj); err == nil && matched && !w.emit(ctx, watch.Event{Type: watch.Added, Object: obj}) {
				return 0, w.why(ctx)
			}
			next.Start, next.After = page.Items[i].Key, true
			page.Items[i] = mvcc.Item{}
		}
		if next.At = page.Revision; !page.More {
			return page.Revision, nil
		}
	}
}

// concerns compares the key before anything else is looked at.
func (w *watcher) concerns(key string) bool {
	if w.recursive {
		return strings.HasPrefix(key, w.key)
	}
	return key == w.key
}

func (w *watcher) sendEvents(ctx context.Context, events []mvcc.Event) error {
	for i := range events {
		if !w.concerns(events[i].Key) {
			continue
		}
		event, err := w.translate(ctx, &events[i])
		if err != nil {
			return err
		}
		if event != nil && !w.emit(ctx, *event) {
			return w.why(ctx)
		}
	}
	return nil
}

// translate makes what the watcher is told of a change: an object that begins to match is added, one that no longer does
// is deleted. It returns nil if there is nothing to tell.
func (w *watcher) translate(ctx context.Context, event *mvcc.Event) (*watch.Event, error) {
	after, err := w.matching(ctx, event.After, event.Revision)
	if err != nil {
		return nil, err
	}
	var before runtime.Object
	if after == nil || !w.predicate.Empty() {
		if before, err = w.matching(ctx, event.Before, event.Revision); err != nil {
			return nil, err
		}
	}
	switch {
	case after != nil && (before != nil || (w.predicate.Empty() && event.Before != nil)):
		return &watch.Event{Type: watch.Modified, Object: after}, nil
	case after != nil:
		return &watch.Event{Type: watch.Added, Object: after}, nil
	case before != nil:
		return &watch.Event{Type: watch.Deleted, Object: before}, nil
	}
	return nil, nil // there is nothing to tell
}

// matching decodes a state, if there is one and the predicate selects it. The object carries the number of the change.
func (w *watcher) matching(ctx context.Context, value *mvcc.Value, revision int64) (runtime.Object, error) {
	if value == nil {
		return nil, nil // nothing matches
	}
	copied := *value // the hub's value is read by others
	copied.Revision = revision
	if w.headOnly {
		copied.Payload = nil
	} else if err := w.s.store.Load(ctx, &copied); err != nil {
		return nil, err
	}
	obj, err := w.s.decodeListed(&copied, w.s.newObject())
	if err != nil {
		return nil, err
	}
	if matched, err := w.predicate.Matches(obj); err != nil || !matched {
		return nil, nil //nolint:nilerr,nilnil // a predicate that cannot look at an object does not select it
	}
	return obj, nil
}

// bookmark tells how far the watch has come.
func (w *watcher) bookmark(ctx context.Context, revision int64, endOfInitial bool) error {
	obj := w.s.newObject()
	if err := w.s.versioner.UpdateObject(obj, uint64(revision)); err != nil {
		return fmt.Errorf("make a bookmark: %w", err)
	}
	if endOfInitial {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("make a bookmark: %w", err)
		}
		accessor.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	if !w.emit(ctx, watch.Event{Type: watch.Bookmark, Object: obj}) {
		return w.why(ctx)
	}
	return nil
}

// emit waits until the client takes an event. It returns false if the watch is over.
func (w *watcher) emit(ctx context.Context, event watch.Event) bool {
	select {
	case w.results <- event:
		return true
	case <-ctx.Done():
	case <-w.cursor.Ended():
	}
	return false
}

func (w *watcher) why(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return mvcc.ErrEnded
}
