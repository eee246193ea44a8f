// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

type object = metav1.PartialObjectMetadata

func obj(name, version string) *object {
	return &object{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: version}}
}

var (
	errAway = errors.New("connection refused")
	refused = apierrors.NewForbidden(schema.GroupResource{Resource: "scans"}, "", errors.New("no"))
)

// session is what the API server answers to one list, and tells by the watch after it.
type session struct {
	list   []*object
	err    error
	events []watch.Event
}

// played is a feed of sessions, the last of which comes again and again.
func played(sessions ...session) *Feed[*object] {
	i := -1
	return &Feed[*object]{
		List: func(context.Context) ([]*object, string, error) {
			i = min(i+1, len(sessions)-1)
			return sessions[i].list, strconv.Itoa(i), sessions[i].err
		},
		Watch: func(context.Context, string) (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(len(sessions[i].events), false)
			for _, e := range sessions[i].events {
				w.Action(e.Type, e.Object)
			}
			w.Stop()
			return w, nil
		},
		Decode: func(o runtime.Object) (*object, error) {
			typed, ok := o.(*object)
			if !ok {
				return nil, fmt.Errorf("got %T", o)
			}
			return typed, nil
		},
	}
}

func TestRun(t *testing.T) {
	event := func(kind watch.EventType, o *object) watch.Event { return watch.Event{Type: kind, Object: o} }
	for name, tc := range map[string]struct {
		sessions []session
		want     []string
		err      error
	}{
		"ListThenChanges": {
			[]session{{list: []*object{obj("a", "1")}, events: []watch.Event{event(watch.Modified, obj("a", "2")), event(watch.Added, obj("end", "3"))}}},
			[]string{"a@1", "a@2", "end@3"},
			nil,
		},
		"TellsWhatWasMissed": {
			[]session{{list: []*object{obj("a", "1"), obj("b", "1")}}, {list: []*object{obj("a", "1"), obj("end", "4")}}},
			[]string{"a@1", "b@1", "-b", "end@4"},
			nil,
		},
		"GoesOnWhenAway": {
			[]session{{list: []*object{obj("a", "1")}}, {err: errAway}, {err: errAway}, {list: []*object{obj("a", "2"), obj("end", "3")}}},
			[]string{"a@1", "away", "back", "a@2", "end@3"},
			nil,
		},
		"Deleted": {
			[]session{{list: []*object{obj("a", "1")}, events: []watch.Event{event(watch.Deleted, obj("a", "2")), event(watch.Added, obj("end", "3"))}}},
			[]string{"a@1", "-a", "end@3"},
			nil,
		},
		"BookmarksAreNothing": {
			[]session{{events: []watch.Event{event(watch.Bookmark, obj("", "9")), event(watch.Added, obj("end", "3"))}}},
			[]string{"end@3"},
			nil,
		},
		"TooOldToWatch": {
			[]session{{list: []*object{obj("a", "1")}, events: []watch.Event{{Type: watch.Error, Object: &metav1.Status{}}}}, {list: []*object{obj("a", "1"), obj("end", "2")}}},
			[]string{"a@1", "end@2"},
			nil,
		},
		"NotReachableAtFirst": {[]session{{err: errAway}}, nil, errAway},
		"NoRightsAtFirst":     {[]session{{err: refused}}, nil, refused},
		"NoRightsLater": {
			[]session{{list: []*object{obj("a", "1")}}, {err: refused}, {list: []*object{obj("a", "1"), obj("end", "2")}}},
			[]string{"a@1", "away", "back", "end@2"},
			nil,
		},
		"BusyAtFirst": {
			[]session{{err: apierrors.NewServiceUnavailable("starting")}, {list: []*object{obj("end", "1")}}},
			[]string{"away", "back", "end@1"},
			nil,
		},
	} {
		pausing(t, name, func(t *testing.T) {
			var got []string
			f := played(tc.sessions...)
			f.Away = func(err error) {
				if err != nil {
					got = append(got, "away")
				} else {
					got = append(got, "back")
				}
			}
			err := f.Run(t.Context(), func(o *object, there bool) (bool, error) {
				if !there {
					got = append(got, "-"+o.Name)
					return false, nil
				}
				got = append(got, o.Name+"@"+o.ResourceVersion)
				return o.Name == "end", nil
			}, nil)
			if !errors.Is(err, tc.err) {
				t.Errorf("got error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRunEnds(t *testing.T) {
	stop := errors.New("stop")
	f := played(session{list: []*object{obj("a", "1")}})
	none := func(*object, bool) (bool, error) { return false, nil }
	if err := f.Run(t.Context(), func(*object, bool) (bool, error) { return false, stop }, nil); !errors.Is(err, stop) {
		t.Errorf("an error of each: got %v", err)
	}
	if err := f.Run(t.Context(), none, func(all []*object) (bool, error) { return len(all) == 1, nil }); err != nil {
		t.Errorf("listed is done: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Run(ctx, none, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ends: got %v", err)
	}
}

func TestRightsThatStayAway(t *testing.T) {
	pausing(t, "Forbidden", func(t *testing.T) {
		f := played(session{list: []*object{obj("a", "1")}}, session{err: refused})
		if err := f.Run(t.Context(), func(*object, bool) (bool, error) { return false, nil }, nil); !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
	})
}

// pausing runs a test on a clock of its own, which jumps over pauses.
func pausing(t *testing.T, name string, do func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, do) })
}
