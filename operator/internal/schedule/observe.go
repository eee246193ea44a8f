// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/catalog"
	"github.com/scanyard/scanyard/operator/internal/schedule/plan"
)

// cacheLag is how far the cache of Scans may be behind at the most.
const cacheLag = 30 * time.Second

// observe reads what the decision needs; nil where the ScheduledScan is gone.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*plan.Observation, error) {
	s := &executionv1.ScheduledScan{}
	// This read waits until the cache has seen our own last write of the object.
	if err := r.client.Get(ctx, key, s); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	o := &plan.Observation{Now: r.clock.Now(), Scheduled: s}
	if !s.DeletionTimestamp.IsZero() {
		return o, nil
	}
	if err := r.observeChildren(ctx, o, client.DisableReadYourWritesConsistency); err != nil {
		return nil, err
	}
	if err := r.observeFindings(ctx, o); err != nil {
		return nil, err
	}
	effective, err := r.tenancy.Effective(ctx, s.Namespace)
	if err != nil {
		return nil, err
	}
	o.Bounds = effective.Schedules
	if !o.ReadSpec(r.zones.find) {
		return o, nil
	}
	if err := r.observeScanType(ctx, o); err != nil {
		return nil, err
	}
	return o, r.observeLatest(ctx, o)
}

// observeLatest reads the children once more where a run is due so soon after another one that the
// cache may not show the other one yet, and where the difference matters.
func (r *Reconciler) observeLatest(ctx context.Context, o *plan.Observation) error {
	if !o.DependsOnChildren(cacheLag) {
		return nil
	}
	return r.observeChildren(ctx, o) // waits until the cache has seen our own writes
}

// observeChildren reads the Scans that the ScheduledScan controls, by its UID.
func (r *Reconciler) observeChildren(ctx context.Context, o *plan.Observation, options ...client.ListOption) error {
	var list executionv1.ScanList
	options = append(options, client.InNamespace(o.Scheduled.Namespace),
		client.MatchingFields{indexOwner: string(o.Scheduled.UID)}, client.UnsafeDisableDeepCopy)
	if err := r.client.List(ctx, &list, options...); err != nil {
		return fmt.Errorf("list Scans of the ScheduledScan: %w", err)
	}
	o.Children = nil
	for i := range list.Items {
		s := &list.Items[i]
		c := plan.Child{Name: s.Name, UID: s.UID, State: s.Status.State, Created: s.CreationTimestamp.Time}
		if s.DeletionTimestamp != nil {
			c.Deleted = s.DeletionTimestamp.Time
		}
		o.Children = append(o.Children, c)
	}
	plan.SortChildren(o.Children)
	return nil
}

// observeFindings reads the findings of the newest Done Scan, once: the cache does not keep the
// findings of Scans that have ended.
func (r *Reconciler) observeFindings(ctx context.Context, o *plan.Observation) error {
	done, ok := o.NewestDone()
	if !ok || o.Scheduled.Status.FindingsFrom == done.Name {
		return nil
	}
	var s executionv1.Scan
	err := r.live.Get(ctx, types.NamespacedName{Namespace: o.Scheduled.Namespace, Name: done.Name}, &s)
	if apierrors.IsNotFound(err) || err == nil && s.UID != done.UID {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get Scan %s: %w", done.Name, err)
	}
	o.Findings = &s.Status.Findings
	return nil
}

// observeScanType reads the ScanType that the Scans will run, of the family that they use.
func (r *Reconciler) observeScanType(ctx context.Context, o *plan.Observation) error {
	s := o.Scheduled
	name := s.Spec.ScanSpec.ScanType
	var err error
	var meta *metav1.ObjectMeta
	var spec *executionv1.ScanTypeSpec
	if plan.IsClusterWide(s) {
		var t executionv1.ClusterScanType
		err = r.client.Get(ctx, types.NamespacedName{Name: name}, &t, client.UnsafeDisableDeepCopy)
		meta, spec = &t.ObjectMeta, &t.Spec
	} else {
		var t executionv1.ScanType
		err = r.client.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, &t, client.UnsafeDisableDeepCopy)
		meta, spec = &t.ObjectMeta, &t.Spec
	}
	if apierrors.IsNotFound(err) {
		return r.observeMissing(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("get %s: %w", plan.ScanTypeKind(s), err)
	}
	o.Digest, err = r.digests.of(plan.ScanTypeKind(s), meta, spec)
	return err
}

// observeMissing gets from the catalog the advice what to install.
func (r *Reconciler) observeMissing(ctx context.Context, o *plan.Observation) error {
	s := o.Scheduled
	_, err := r.catalog.ScanType(ctx, &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace}, Spec: *s.Spec.ScanSpec})
	if m, ok := errors.AsType[*catalog.NotFoundError](err); ok {
		o.Missing = "spec.scanSpec.scanType: " + m.Error() + ". Until then the Scans that are started end Errored."
		return nil
	}
	if err == nil {
		err = errors.New("it has just come")
	}
	return fmt.Errorf("find %s: %w", plan.ScanTypeKind(s), err)
}

// digests caches digests of ScanTypes: every ScheduledScan of a ScanType needs the same digest in
// every pass.
type digests struct {
	mu    sync.Mutex
	known map[types.UID]versionDigest
}

type versionDigest struct{ version, digest string }

// maxDigests bounds the number of cached digests.
const maxDigests = 10000

func (d *digests) of(kind string, meta *metav1.ObjectMeta, spec *executionv1.ScanTypeSpec) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v, ok := d.known[meta.UID]; ok && v.version == meta.ResourceVersion && meta.ResourceVersion != "" {
		return v.digest, nil
	}
	digest, err := plan.DigestOf(kind, meta, spec)
	if err != nil {
		return "", err
	}
	if d.known == nil || len(d.known) >= maxDigests {
		d.known = map[types.UID]versionDigest{}
	}
	d.known[meta.UID] = versionDigest{meta.ResourceVersion, digest}
	return digest, nil
}

// Check returns why a spec can never start a Scan, for callers that need the reason before the spec is stored; "" if there is none.
func Check(spec *executionv1.ScheduledScanSpec) string {
	z := zones{local: time.UTC}
	return plan.Check(spec, z.find)
}

// zones caches the time zones that were loaded. There are some hundred.
type zones struct {
	local *time.Location
	mu    sync.Mutex
	known map[string]*time.Location
}

// find returns a zone by its IANA name, or the operator's own for "".
func (z *zones) find(name string) (*time.Location, error) {
	switch name {
	case "":
		return z.local, nil
	case "Local":
		return nil, errors.New("Local is not an IANA name") //nolint:staticcheck // ST1005: Local is the name
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if l, ok := z.known[name]; ok {
		return l, nil
	}
	l, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	if z.known == nil {
		z.known = map[string]*time.Location{}
	}
	z.known[name] = l
	return l, nil
}
