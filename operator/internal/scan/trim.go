// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// Any client that may create Scans may create many and large ones. The cache keeps small Scans
// whole, so that they cost no read; of a large one it keeps the part that shows its state, and the
// operator reads the rest when the Scan is about to continue.

const (
	// largeScan is the size in bytes from which a Scan is large. Most have less than two KiB.
	largeScan = 4 << 10
	// longMessage is the longest message of a condition that the cache keeps, in bytes.
	longMessage = 2 << 10
	// manyKeys is how many owners and finalizers of a Scan the cache keeps.
	manyKeys = 16
)

// annotationTrimmed marks, in the cache only, a Scan of which only a part is kept.
const annotationTrimmed = "cache.scanyard.io/trimmed"

func isTrimmed(s *executionv1.Scan) bool { return s.Annotations[annotationTrimmed] != "" }

// bytesOf is about how many bytes of a Scan its author has written.
func bytesOf(s *executionv1.Scan) int {
	return life.SpecBytes(&s.Spec) + life.MapBytes(s.Labels) + life.MapBytes(s.Annotations) + metaBytes(&s.ObjectMeta)
}

// metaBytes is the size of the metadata besides labels and annotations.
func metaBytes(m *metav1.ObjectMeta) (n int) {
	for _, f := range m.Finalizers {
		n += len(f) + 1
	}
	for i := range m.OwnerReferences {
		n += m.OwnerReferences[i].Size()
	}
	return n
}

// trimScan cuts a large Scan down to the part that shows its state. It changes its argument, which
// has no other user yet.
func trimScan(s *executionv1.Scan) *executionv1.Scan {
	// Messages are for people. Ours are short, and the operator replaces what other clients write there.
	for i := range s.Status.Conditions {
		if c := &s.Status.Conditions[i]; len(c.Message) > longMessage && !slices.Contains(life.ConditionTypes, c.Type) {
			c.Message = strings.Clone(strings.ToValidUTF8(c.Message[:longMessage], ""))
		}
	}
	if bytesOf(s) < largeScan {
		return s
	}
	p := s.Spec
	s.Spec = executionv1.ScanSpec{
		ScanType: p.ScanType, ResourceMode: p.ResourceMode, TTLSecondsAfterFinished: p.TTLSecondsAfterFinished,
		Suspend: p.Suspend, Priority: p.Priority, Cancel: p.Cancel, Deadlines: p.Deadlines,
	}
	s.Labels, s.Annotations = ownKeys(s.Labels, life.LargestLabels), ownKeys(s.Annotations, largeScan)
	trimMeta(&s.ObjectMeta)
	markTrimmed(s)
	return s
}

func markTrimmed(s *executionv1.Scan) {
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[annotationTrimmed] = "true"
}

// trimMeta keeps only few owners and finalizers, and reports whether there were more.
func trimMeta(m *metav1.ObjectMeta) (more bool) {
	if len(m.Finalizers) > manyKeys {
		m.Finalizers, more = append([]string{}, m.Finalizers[:manyKeys]...), true
	}
	if len(m.OwnerReferences) > manyKeys {
		owner := metav1.GetControllerOf(m)
		m.OwnerReferences, more = nil, true
		if owner != nil {
			m.OwnerReferences = []metav1.OwnerReference{*owner}
		}
	}
	return more
}

// ownKeys returns the labels or annotations as they are, where they are few, and else those that
// have a meaning for the operator.
func ownKeys(m map[string]string, most int) map[string]string {
	if life.MapBytes(m) <= most {
		return m
	}
	own, left := map[string]string{}, most
	for _, k := range slices.Sorted(maps.Keys(m)) {
		domain, _, _ := strings.Cut(k, "/")
		ours := strings.HasSuffix(domain, "scanyard.io") || strings.HasSuffix(domain, "securecodebox.io")
		if n := len(k) + len(m[k]); ours && n <= left {
			own[strings.Clone(k)], left = strings.Clone(m[k]), left-n
		}
	}
	return own
}

// whole reads what the cache has left out of a Scan that is about to continue: of a large Scan, and
// of one whose status claims an end that the Scan has not reached. Suspended Scans that have all
// they need to stay suspended are not read.
func (r *Reconciler) whole(ctx context.Context, o *life.Observation, known *executionv1.ScanStatus) error {
	rests := life.IsSuspended(o) && !life.IsSettled(o) && !life.IsDeleted(o) && !life.WantsCancel(o) && !life.LacksFinalizer(o)
	if claimed := life.SettledState(o.Found) && !life.IsSettled(o); !claimed && (!isTrimmed(o.Scan) || rests) {
		return nil
	}
	return r.readBelieved(ctx, o, known)
}

// wholeAgain reads the whole Scan unless this pass has read it already.
func (r *Reconciler) wholeAgain(ctx context.Context, o *life.Observation) error {
	err := r.readBelieved(ctx, o, r.ledger.recall(o.Scan.UID))
	if apierrors.IsNotFound(err) {
		return errGone
	}
	return err
}

// errGone says that the Scan was deleted while it was observed.
var errGone = errors.New("the Scan is gone")

// readBelieved reads a whole Scan, and replaces its status by the remembered one.
func (r *Reconciler) readBelieved(ctx context.Context, o *life.Observation, known *executionv1.ScanStatus) error {
	if err := r.readWhole(ctx, o); err != nil {
		return err
	}
	if known != nil {
		o.Trust(life.Recalled(o.Scan, known))
	}
	return nil
}

// readWhole reads a Scan, with its status, from the API server.
func (r *Reconciler) readWhole(ctx context.Context, o *life.Observation) error {
	live := &executionv1.Scan{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(o.Scan), live); err != nil {
		return fmt.Errorf("read the whole Scan: %w", err)
	}
	if live.UID != o.Scan.UID {
		return apierrors.NewNotFound(executionv1.SchemeGroupVersion.WithResource("scans").GroupResource(), o.Scan.Name) // the watch brings the new Scan
	}
	live.ManagedFields = nil
	o.Scan, o.Found = live, live.Status.DeepCopy()
	return nil
}
