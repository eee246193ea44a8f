// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/view"
)

// actor does steps. What is gone already is success.
type actor struct {
	client  client.Client
	session *session.Session
	options Options
	timeout time.Duration
}

func (a *actor) do(ctx context.Context, key string, i Inventory) error {
	switch key {
	case stepSources:
		return a.deleteSchedules(ctx, i.Schedules)
	case stepScans:
		return a.deleteScans(ctx, i)
	case stepMade:
		return errors.Join(a.deleteAccounts(ctx, i.Accounts), a.deleteLeftovers(ctx, i.Leftovers))
	case stepVolumes:
		return a.deleteVolumes(ctx, i.Volumes)
	case stepCRDs:
		return a.deleteCRDs(ctx, i.CRDs)
	}
	return nil
}

func metadata(kind string, key types.NamespacedName) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	o.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind(kind))
	return o
}

func (a *actor) delete(ctx context.Context, o client.Object, what string) error {
	err := a.client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", what, keyOf(o), err)
	}
	return nil
}

func (a *actor) deleteSchedules(ctx context.Context, all []types.NamespacedName) error {
	var errs []error
	for _, key := range all {
		errs = append(errs, a.delete(ctx, metadata("ScheduledScan", key), "schedule"))
	}
	return errors.Join(errs...)
}

// deleteScans says of each Scan what becomes of its results before it is deleted, and waits until all are gone.
func (a *actor) deleteScans(ctx context.Context, i Inventory) error {
	for _, s := range i.Scans {
		o := metadata("Scan", s.NamespacedName)
		if a.options.Results == ResultsKeep {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, executionv1.AnnotationOnDelete, executionv1.OnDeleteRetain)
			if err := a.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("mark scan %s to keep its results: %w", s.NamespacedName, err)
			}
		}
		if err := a.delete(ctx, metadata("Scan", s.NamespacedName), "scan"); err != nil {
			return err
		}
		if a.options.WithoutOperator && !i.Works && s.Held {
			if err := a.release(ctx, s.NamespacedName); err != nil {
				return fmt.Errorf("take the finalizers off scan %s: %w", s.NamespacedName, err)
			}
		}
	}
	return a.untilGone(ctx)
}

// release takes the operator's finalizers off a Scan. Whoever has set another one has something left to do.
func (a *actor) release(ctx context.Context, key types.NamespacedName) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		o := metadata("Scan", key)
		if err := a.client.Get(ctx, key, o); err != nil {
			return client.IgnoreNotFound(err)
		}
		before := o.DeepCopy()
		o.Finalizers = ofOthers(o.Finalizers)
		return client.IgnoreNotFound(a.client.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	})
}

const betweenLooks = time.Second

// untilGone waits for the Scans, since the operator has to be there until then.
func (a *actor) untilGone(ctx context.Context) error {
	left, said := 0, 0
	err := wait.PollUntilContextTimeout(ctx, betweenLooks, a.timeout, true, func(ctx context.Context) (bool, error) {
		all, err := list(ctx, a.client, executionv1.SchemeGroupVersion.WithKind("Scan"))
		if err != nil {
			return false, err
		}
		if left = len(all); left > 0 && left != said {
			fmt.Fprintf(a.session.Out, "   %s left\n", view.Plural(int64(left), "scan"))
			said = left
		}
		if stuck := waitForOthers(all); len(stuck) > 0 && len(stuck) == left {
			return false, fmt.Errorf("%s left, with finalizers of others: %s. Once they are taken off, call this again",
				view.Plural(int64(left), "scan"), strings.Join(stuck, ", "))
		}
		return left == 0, nil
	})
	switch {
	case ctx.Err() != nil:
		return session.Exit(session.CodeInterrupted, errors.New("interrupted; the deletion of the scans continues"))
	case wait.Interrupted(err):
		return session.Exit(session.CodeTimeout, fmt.Errorf("%s left after %s; the operator may be removing their results, or wait for sinks "+
			"(holdSeconds of resultForwarding). See: %s", view.Plural(int64(left), "scan"), a.timeout, a.session.Suggest("get", "--all-namespaces")))
	}
	return err
}

// waitForOthers are the Scans that are being deleted and wait for others than the operator, each with whom they wait for.
// The garbage collector's own finalizers go by themselves.
func waitForOthers(all []metav1.PartialObjectMetadata) []string {
	var out []string
	for i := range all {
		o := &all[i]
		others := ofOthers(o.Finalizers)
		waits := slices.ContainsFunc(others, func(f string) bool {
			return f != metav1.FinalizerDeleteDependents && f != metav1.FinalizerOrphanDependents
		})
		if !o.DeletionTimestamp.IsZero() && waits && len(others) == len(o.Finalizers) {
			out = append(out, fmt.Sprintf("%s (%s)", keyOf(o), strings.Join(others, ", ")))
		}
	}
	return out
}

func (a *actor) deleteAccounts(ctx context.Context, all []types.NamespacedName) error {
	var errs []error
	for _, key := range all {
		m := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
		errs = append(errs,
			a.delete(ctx, &corev1.ServiceAccount{ObjectMeta: m}, "ServiceAccount"), a.delete(ctx, &rbacv1.Role{ObjectMeta: m}, "Role"),
			// Last: by the binding a later run finds what is left.
			a.delete(ctx, &rbacv1.RoleBinding{ObjectMeta: m}, "RoleBinding"))
	}
	return errors.Join(errs...)
}

// deleteLeftovers deletes in the order of the inventory, and stops at the first failure: by Secrets a later run finds Leases.
func (a *actor) deleteLeftovers(ctx context.Context, all []Leftover) error {
	for _, l := range all {
		if l.Kept != "" {
			continue
		}
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}}
		o.SetGroupVersionKind(kinds[l.Kind])
		if err := a.delete(ctx, o, l.Kind); err != nil {
			return err
		}
	}
	return nil
}

func (a *actor) deleteVolumes(ctx context.Context, all []Volume) error {
	var errs []error
	for _, v := range all {
		if v.Holds != "" {
			m := metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Name}
			errs = append(errs, a.delete(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: m}, "volume claim"))
		}
	}
	return errors.Join(errs...)
}

func (a *actor) deleteCRDs(ctx context.Context, all []CRD) error {
	var errs []error
	for _, crd := range all {
		errs = append(errs, a.delete(ctx, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}}, "CustomResourceDefinition"))
	}
	return errors.Join(errs...)
}
