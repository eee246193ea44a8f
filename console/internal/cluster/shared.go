// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

const (
	// idle is how long nobody has to look before the Scans of the cluster are forgotten.
	idle = 5 * time.Minute
	// longest is how long one viewer's rights keep them up to date, who may have left since.
	longest = 10 * time.Minute
)

// shared are all Scans of the cluster, for the pages of those who may list them everywhere: the API server says of each viewer and for each
// page whether that is so now. The first one who looks lists and watches them with their own rights, because the console has none. When
// that watch ends, the next one lists anew. Nothing is asked for while nobody looks.
type shared struct {
	now func() time.Time

	mu   sync.Mutex
	kept *snapshot
	// listing is closed when who lists now is done; nil while nobody does.
	listing chan struct{}
}

// snapshot are all Scans at a time, and what happens to them from then on. Nobody changes a Scan of it.
type snapshot struct {
	scans map[types.UID]*executionv1.Scan
	// ordered are the Scans, the newest first; nil after a change, until somebody looks.
	ordered []*executionv1.Scan
	version string // the resource version up to which everything is in it
	looked  time.Time
	watch   watch.Interface
}

// all are all Scans, the newest first, and the resource version that they are of. The caller has made sure that the viewer may list them.
func (s *shared) all(ctx context.Context, v *Viewer) (scans []*executionv1.Scan, version string, err error) {
	k, listing, mine := s.look()
	if mine {
		return s.list(ctx, v)
	}
	if k == nil {
		select {
		case <-listing:
		case <-ctx.Done():
			return nil, "", fmt.Errorf("wait for Scans: %w", ctx.Err())
		}
		if k = s.current(); k == nil { // who has listed may not watch, or has left
			return v.listed(ctx, "")
		}
	}
	scans, version = s.inOrder(k)
	return scans, version, nil
}

// current are the Scans that are kept; nil where none are.
func (s *shared) current() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// look returns the Scans that are kept, or what to wait for, or that the caller has to list them.
func (s *shared) look() (k *snapshot, listing <-chan struct{}, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept != nil || s.listing != nil {
		return s.kept, s.listing, false
	}
	s.listing = make(chan struct{})
	return nil, nil, true
}

// inOrder are the Scans, the newest first. The caller may change the list.
func (s *shared) inOrder(k *snapshot) (scans []*executionv1.Scan, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.looked = s.now()
	if k.ordered == nil {
		k.ordered = make([]*executionv1.Scan, 0, len(k.scans))
		for _, scan := range k.scans {
			k.ordered = append(k.ordered, scan)
		}
		slices.SortFunc(k.ordered, NewestFirst)
	}
	return slices.Clone(k.ordered), k.version
}

// list lists all Scans as a viewer, and has them followed where the viewer may watch them.
func (s *shared) list(ctx context.Context, v *Viewer) (scans []*executionv1.Scan, version string, err error) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.listing)
		s.listing = nil
	}()
	if scans, version, err = v.listed(ctx, ""); err != nil {
		return nil, "", err
	}
	followed, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest) // for all who look, until nobody does
	changes, err := v.changes(followed, "", version)
	if err != nil {
		cancel()
		if apierrors.IsForbidden(err) {
			return scans, version, nil // the next one lists anew
		}
		return nil, "", err
	}
	k := &snapshot{scans: make(map[types.UID]*executionv1.Scan, len(scans)), version: version, looked: s.now(), watch: changes}
	for _, scan := range scans {
		k.scans[scan.UID] = scan
	}
	s.mu.Lock()
	s.kept = k
	s.mu.Unlock()
	go func() {
		defer cancel()
		s.follow(k)
	}()
	return scans, version, nil
}

// follow takes what happens to the Scans until the watch ends, or nobody has looked for a while.
func (s *shared) follow(k *snapshot) {
	ticker := time.NewTicker(idle)
	defer ticker.Stop()
	defer k.watch.Stop()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kept = nil
	}()
	for {
		select {
		case event, open := <-k.watch.ResultChan():
			if !open || !s.take(k, event) {
				return
			}
		case <-ticker.C:
			if s.unused(k) {
				return
			}
		}
	}
}

func (s *shared) unused(k *snapshot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now().Sub(k.looked) >= idle
}

// take takes a change. It returns false where it cannot go on.
func (s *shared) take(k *snapshot, event watch.Event) bool {
	scan, ok := event.Object.(*executionv1.Scan)
	if !ok {
		return false // an error, such as that the version is too old
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.version = scan.ResourceVersion
	switch event.Type {
	case watch.Bookmark:
		return true
	case watch.Deleted:
		delete(k.scans, scan.UID)
	case watch.Added, watch.Modified:
		scan.ManagedFields = nil
		k.scans[scan.UID] = scan
	case watch.Error:
		return false
	}
	k.ordered = nil
	return true
}

// listed are the Scans of a namespace, or of all, the newest first, and the resource version that they are of.
func (v *Viewer) listed(ctx context.Context, namespace string, options ...client.ListOption) (scans []*executionv1.Scan, version string, err error) {
	list := &executionv1.ScanList{}
	err = v.eachIn(ctx, namespace, list, func(o client.Object) error {
		if scan, ok := o.(*executionv1.Scan); ok {
			scan.ManagedFields = nil // half of what a Scan takes, and no page shows them
			scans = append(scans, scan.DeepCopy())
		}
		return nil
	}, options)
	slices.SortFunc(scans, NewestFirst)
	return scans, list.ResourceVersion, err
}

// changes are what happens to the Scans of a namespace, or of all, from a resource version on.
func (v *Viewer) changes(ctx context.Context, namespace, version string) (watch.Interface, error) {
	changes, err := v.Watch(ctx, &executionv1.ScanList{}, client.InNamespace(namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}})
	if err != nil {
		return nil, fmt.Errorf("watch Scans: %w", err)
	}
	return changes, nil
}

// everywhere says whether the Scans that are shared may be shown to the viewer in a scope. The API server is asked each time: a right that
// was taken away is gone with the next page, as it is where the viewer lists.
func (v *Viewer) everywhere(ctx context.Context, scope Scope) (bool, error) {
	if v.shared == nil || !scope.All() {
		return false, nil
	}
	return v.askFor(ctx, Right{"list", executionv1.SchemeGroupVersion.Group, "scans", ""})
}

// WatchedScans are the Scans of a namespace, or of all, and what happens to them from then on.
func (v *Viewer) WatchedScans(ctx context.Context, scope Scope) ([]*executionv1.Scan, watch.Interface, error) {
	shared, err := v.everywhere(ctx, scope)
	if err != nil {
		return nil, nil, err
	}
	var scans []*executionv1.Scan
	var version string
	if shared {
		scans, version, err = v.shared.all(ctx, v)
	} else {
		scans, version, err = v.listed(ctx, scope.Single())
	}
	if err != nil {
		return nil, nil, err
	}
	changes, err := v.changes(ctx, scope.Single(), version)
	return scans, changes, err
}
