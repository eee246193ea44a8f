// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// ensureScan makes the account of one Scan, which reaches this Scan only, and returns the account's
// name. Role and RoleBinding are named after the account's UID: those of an account that was removed
// may still exist for a while, and must not be taken for the ones of this account. The RoleBinding is
// made last: where it exists, the Role has existed.
//
// Of a Scan that begins the account is made before it is looked for: there is none as a rule.
func (a *Access) ensureScan(ctx context.Context, scan *executionv1.Scan, resultType string, begins bool) (string, error) {
	name := names.ScanAccess(scan.Name, scan.UID)
	key := types.NamespacedName{Namespace: scan.Namespace, Name: name}
	if a.fresh(key) {
		return name, nil
	}
	ensure := a.ensureOwn
	if begins {
		ensure = a.makeOwn
	}
	account, made, err := ensure(ctx, newScanAccount(scan, name))
	if err != nil {
		return "", err
	}
	role, binding := newScanGrant(scan, account, resultType)
	if !made {
		err := a.reader.Get(ctx, client.ObjectKeyFromObject(binding), &rbacv1.RoleBinding{})
		if err == nil {
			a.remember(key)
			return name, nil
		}
		if !apierrors.IsNotFound(err) {
			return "", fmt.Errorf("get RoleBinding %s: %w", binding.Name, err)
		}
	}
	for _, o := range []client.Object{role, binding} {
		if err := exists(a.writer.Create(ctx, o, uncached)); err != nil {
			return "", fmt.Errorf("create %T %s: %w", o, o.GetName(), err)
		}
	}
	a.remember(key)
	return name, nil
}

// HasMade reports whether an account of a Scan was made or seen a moment ago.
func (a *Access) HasMade(scan *executionv1.Scan) bool {
	return a.fresh(types.NamespacedName{Namespace: scan.Namespace, Name: names.ScanAccess(scan.Name, scan.UID)})
}

// ReleaseScan removes the account of a Scan that has ended. The API server refuses the account's
// tokens from then on; Role and RoleBinding are collected, because the account owns them.
func (a *Access) ReleaseScan(ctx context.Context, scan *executionv1.Scan) error {
	if a.mode == Shared {
		return nil
	}
	key := types.NamespacedName{Namespace: scan.Namespace, Name: names.ScanAccess(scan.Name, scan.UID)}
	a.forget(key)
	err := a.writer.Delete(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}},
		client.PropagationPolicy(metav1.DeletePropagationBackground), uncached)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove ServiceAccount %s: %w", key, err)
	}
	return nil
}

func newScanAccount(scan *executionv1.Scan, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: scan.Namespace, Name: name,
		Labels:          map[string]string{executionv1.LabelScanUID: string(scan.UID)},
		Annotations:     map[string]string{"description": fmt.Sprintf("Lets the parser and the hooks of Scan %s reach it, and nothing else.", scan.Name)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(scan, executionv1.SchemeGroupVersion.WithKind("Scan"))},
	}}
}

func newScanGrant(scan *executionv1.Scan, account *corev1.ServiceAccount, resultType string) (*rbacv1.Role, *rbacv1.RoleBinding) {
	owner := *metav1.NewControllerRef(account, corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	owner.BlockOwnerDeletion = nil // the account must be deleted at once, so that its tokens are refused from then on
	m := metav1.ObjectMeta{
		Namespace: scan.Namespace, Name: names.ScanAccess(scan.Name, account.UID),
		Labels: account.Labels, OwnerReferences: []metav1.OwnerReference{owner},
	}
	return bound(m, scan, resultType, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: account.Name, Namespace: scan.Namespace})
}

// ensureOwn returns the account of one Scan, and makes it if there is none; made says whether the account is new.
func (a *Access) ensureOwn(ctx context.Context, want *corev1.ServiceAccount) (have *corev1.ServiceAccount, made bool, err error) {
	have, err = a.getOwn(ctx, want)
	if !apierrors.IsNotFound(err) {
		return have, false, err
	}
	return a.makeOwn(ctx, want)
}

// makeOwn makes the account of one Scan, or returns the existing one; made says whether the account is new.
func (a *Access) makeOwn(ctx context.Context, want *corev1.ServiceAccount) (have *corev1.ServiceAccount, made bool, err error) {
	if want.ImagePullSecrets, err = a.PullSecrets(ctx, want.Namespace); err != nil {
		return nil, false, err
	}
	refused := a.writer.Create(ctx, want, uncached)
	switch {
	case refused == nil:
		return want, true, nil
	case apierrors.IsAlreadyExists(refused), apierrors.IsForbidden(refused): // a quota that is used up refuses what exists as well
		have, err = a.getOwn(ctx, want)
		if !apierrors.IsNotFound(err) {
			return have, false, err
		}
	}
	return nil, false, fmt.Errorf("create ServiceAccount %s/%s: %w", want.Namespace, want.Name, refused)
}

// getOwn returns the account of one Scan. The error of the API server if there is none is NotFound.
func (a *Access) getOwn(ctx context.Context, want *corev1.ServiceAccount) (*corev1.ServiceAccount, error) {
	have := &corev1.ServiceAccount{}
	if err := a.reader.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return nil, fmt.Errorf("get ServiceAccount %s/%s: %w", want.Namespace, want.Name, err)
	}
	if have.Labels[executionv1.LabelScanUID] != want.Labels[executionv1.LabelScanUID] {
		return nil, &ForeignAccountError{want.Namespace, want.Name}
	}
	return have, nil
}

// ForeignAccountError says that an account of a needed name does not belong to the Scan.
type ForeignAccountError struct{ Namespace, Name string }

// Error says what to delete.
func (e *ForeignAccountError) Error() string {
	return fmt.Sprintf("ServiceAccount %s/%s exists and was not made for this Scan; delete it, and the operator makes a new one", e.Namespace, e.Name)
}

// PullSecrets returns the pull secrets of the accounts that secureCodeBox knows, if a user has made
// such accounts: a namespace whose images need credentials configures them there.
func (a *Access) PullSecrets(ctx context.Context, namespace string) ([]corev1.LocalObjectReference, error) {
	var all []corev1.LocalObjectReference
	for _, name := range []string{parser.name, hook.name} {
		refs, err := a.secretsOf(ctx, types.NamespacedName{Namespace: namespace, Name: name})
		if err != nil {
			return nil, fmt.Errorf("look for pull secrets: %w", err)
		}
		for _, s := range refs {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// secretsOf returns the pull secrets of an account as last seen, none if there is no account, and
// drops entries that are old.
func (a *Access) secretsOf(ctx context.Context, key types.NamespacedName) ([]corev1.LocalObjectReference, error) {
	if seen, ok := a.freshSecrets(key); ok {
		return seen, nil
	}
	var acc corev1.ServiceAccount
	if err := a.reader.Get(ctx, key, &acc); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secrets[key] = pullSecrets{a.clock.Now(), acc.ImagePullSecrets}
	return acc.ImagePullSecrets, nil
}

func (a *Access) freshSecrets(key types.NamespacedName) ([]corev1.LocalObjectReference, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	maps.DeleteFunc(a.secrets, func(_ types.NamespacedName, s pullSecrets) bool { return now.Sub(s.at) >= secretsTrusted })
	s, ok := a.secrets[key]
	return s.refs, ok
}
