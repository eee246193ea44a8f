// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// rights are what a viewer may do with Scans, and how often it has listed them everywhere.
type rights struct {
	list, watch bool
	lists       atomic.Int64
	watches     []watch.Interface
	// entered is closed when it begins to list everywhere, which goes on when free is closed; nil goes on at once.
	entered, free chan struct{}
}

func (r *rights) viewer(all client.WithWatch, s *shared) *Viewer {
	refused := func(verb string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "scans"}, "", errors.New(verb))
	}
	c := interceptor.NewClient(all, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if review, ok := o.(*authorizationv1.SelfSubjectAccessReview); ok {
				review.Status.Allowed = r.list
				return nil
			}
			return c.Create(ctx, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if (&client.ListOptions{}).ApplyOptions(options).Namespace == "" {
				if !r.list {
					return refused("list")
				}
				r.lists.Add(1)
				if r.entered != nil {
					close(r.entered)
					<-r.free
				}
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			return c.List(ctx, list, options...)
		},
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			if !r.watch {
				return nil, refused("watch")
			}
			w, err := c.Watch(ctx, list, options...)
			r.watches = append(r.watches, w)
			return w, err
		},
	})
	v := NewViewer(ViewerOptions{Objects: c, Now: time.Now})
	v.shared = s
	return v
}

func scanNamed(namespace, name string) *executionv1.Scan {
	s := &executionv1.Scan{}
	s.Namespace, s.Name, s.UID = namespace, name, types.UID(namespace+"/"+name)
	return s
}

func namesOf(scans []*executionv1.Scan) (names []string) {
	for _, s := range scans {
		names = append(names, s.Namespace+"/"+s.Name)
	}
	return names
}

// TestScansAreSharedByRight holds that the Scans which one viewer has listed are shown to those who may list them, to nobody else, and as
// they are now.
func TestScansAreSharedByRight(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	one, two := scanNamed("team-a", "one"), scanNamed("team-b", "two")
	all := fake.NewClientBuilder().WithScheme(scheme).WithObjects(one, two).Build()
	s := &shared{now: time.Now}
	first, second, stranger, blind := rights{list: true, watch: true}, rights{list: true}, rights{}, rights{list: true}
	see := func(v *Viewer, want ...string) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			scans, _, err := v.Scans(ctx, Scope{})
			return slices.Equal(namesOf(scans), want), err
		})
		if err != nil {
			t.Errorf("does not see %v: %v", want, err)
		}
	}
	a, b := first.viewer(all, s), second.viewer(all, s)
	see(a, "team-a/one", "team-b/two")
	see(b, "team-a/one", "team-b/two")
	three := scanNamed("team-a", "three")
	if err := all.Create(t.Context(), three); err != nil {
		t.Fatal(err)
	}
	see(b, "team-a/one", "team-a/three", "team-b/two")
	three.Spec.ScanType = "nmap"
	if err := errors.Join(all.Update(t.Context(), three), all.Delete(t.Context(), one)); err != nil {
		t.Fatal(err)
	}
	see(a, "team-a/three", "team-b/two")
	if scans, _, err := b.Scans(t.Context(), Scope{}); err != nil || scans[0].Spec.ScanType != "nmap" {
		t.Errorf("what was changed is %+v: %v", scans[0].Spec, err)
	}
	if first.lists.Load() != 1 || second.lists.Load() != 0 {
		t.Errorf("they have listed %d and %d times, want 1 and 0", first.lists.Load(), second.lists.Load())
	}
	// Who may not list everywhere gets the right that is missing, and their own namespace.
	c := stranger.viewer(all, s)
	scans, denials, err := c.Scans(t.Context(), Scope{})
	if len(scans) != 0 || len(denials) != 1 || err != nil {
		t.Errorf("a stranger sees %v, %v: %v", namesOf(scans), denials, err)
	}
	if undone, denials, err := c.Undone(t.Context(), Scope{}); len(undone) != 0 || len(denials) != 1 || err != nil {
		t.Errorf("a stranger sees %v, %v: %v", namesOf(undone), denials, err)
	}
	if scans, _, err := c.WatchedScans(t.Context(), Scope{}); len(scans) != 0 || !apierrors.IsForbidden(err) {
		t.Errorf("a stranger watches %v: %v", namesOf(scans), err)
	}
	if scans, _, err := c.Scans(t.Context(), Scope{Names: []string{"team-b"}}); !slices.Equal(namesOf(scans), []string{"team-b/two"}) || err != nil {
		t.Errorf("a stranger sees %v of a team: %v", namesOf(scans), err)
	}
	// A right that is taken away is gone with the next page, and comes back with it.
	second.list = false
	if scans, denials, err := b.Scans(t.Context(), Scope{}); len(scans) != 0 || len(denials) != 1 || err != nil {
		t.Errorf("without the right one sees %v, %v: %v", namesOf(scans), denials, err)
	}
	second.list = true
	see(b, "team-a/three", "team-b/two")
	// When the watch ends, the next one lists; who may not watch lists for themselves.
	first.watches[0].Stop()
	forgotten(t, s)
	d := blind.viewer(all, s)
	see(d, "team-a/three", "team-b/two")
	see(d, "team-a/three", "team-b/two")
	if blind.lists.Load() != 2 {
		t.Errorf("who may not watch has listed %d times, want 2", blind.lists.Load())
	}
	see(a, "team-a/three", "team-b/two")
	if first.lists.Load() != 2 {
		t.Errorf("after the watch it was listed %d times, want 2", first.lists.Load())
	}
}

// forgotten waits until no Scans are kept.
func forgotten(t *testing.T, s *shared) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return s.current() == nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWhoWaitsForScansThatAreListed holds that those who come while somebody lists get what that one has listed, and list for themselves
// where that one fails.
func TestWhoWaitsForScansThatAreListed(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	all := fake.NewClientBuilder().WithScheme(scheme).WithObjects(scanNamed("team-a", "one")).Build()
	for name, fails := range map[string]bool{"Succeeds": false, "Fails": true} {
		t.Run(name, func(t *testing.T) {
			s := &shared{now: time.Now}
			leader, other := rights{list: true, watch: true, entered: make(chan struct{}), free: make(chan struct{})}, rights{list: true, watch: true}
			a, b := leader.viewer(all, s), other.viewer(all, s)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			var led, waited []*executionv1.Scan
			var ledErr, waitedErr error
			var both sync.WaitGroup
			both.Go(func() { led, _, ledErr = a.Scans(ctx, Scope{}) })
			<-leader.entered
			both.Go(func() { waited, _, waitedErr = b.Scans(t.Context(), Scope{}) })
			impatient, hurry := context.WithCancel(t.Context())
			hurry()
			if _, _, err := s.all(impatient, b); !errors.Is(err, context.Canceled) {
				t.Errorf("who leaves meanwhile gets %v", err)
			}
			if fails {
				leave()
			}
			close(leader.free)
			both.Wait()
			if fails != (ledErr != nil) || fails != (len(led) == 0) {
				t.Errorf("who lists gets %v: %v", namesOf(led), ledErr)
			}
			if waitedErr != nil || len(waited) != 1 {
				t.Errorf("who waits gets %v: %v", namesOf(waited), waitedErr)
			}
			if !fails && other.lists.Load() != 0 {
				t.Errorf("who waits has listed %d times", other.lists.Load())
			}
		})
	}
}

// TestForgottenScans ends the watch of what nobody looks at.
func TestForgottenScans(t *testing.T) {
	now := time.Now()
	s := &shared{now: func() time.Time { return now }}
	k := &snapshot{looked: now}
	if s.unused(k) {
		t.Error("it is unused at once")
	}
	now = now.Add(idle)
	if !s.unused(k) {
		t.Error("it is used after a long time")
	}
}
