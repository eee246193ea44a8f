// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// HookGrant lets a hook that runs in another namespace reach one Scan.
type HookGrant struct {
	Scan *executionv1.Scan
	// ResultType names the ParseDefinition that the hook may read.
	ResultType string
	// Hook is the name of the hook.
	Hook string
	// Namespace is where the hook's pod runs.
	Namespace string
	// ServiceAccount is the account that the hook names; empty if it names none.
	ServiceAccount string
}

// GrantHook makes the objects that a grant needs and returns the ServiceAccount that the hook's pod
// runs as. An account that the hook names serves all Scans that the hook runs for at that moment; an
// account that GrantHook makes serves this Scan only.
func (a *Access) GrantHook(ctx context.Context, g HookGrant) (string, error) {
	if g.ServiceAccount == "" {
		var err error
		if g.ServiceAccount, err = a.ensureHookAccount(ctx, g); err != nil {
			return "", err
		}
	}
	role, binding := newGrant(g)
	if err := a.ensureRole(ctx, role); err != nil {
		return "", err
	}
	return g.ServiceAccount, a.ensureBinding(ctx, binding)
}

// ensureHookAccount makes the account of a hook in the namespace it runs in. The account gets no rights there.
func (a *Access) ensureHookAccount(ctx context.Context, g HookGrant) (string, error) {
	if a.mode == Shared {
		return hook.name, a.ensureServiceAccount(ctx, g.Namespace, hook)
	}
	// An account with an owner in another namespace would be collected at once: RevokeHook removes it.
	want := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: g.Namespace, Name: names.HookAccess(g.Hook, g.Scan.UID),
		Labels:      map[string]string{executionv1.LabelScanUID: string(g.Scan.UID)},
		Annotations: map[string]string{"description": fmt.Sprintf("Hook %s runs as this for Scan %s/%s.", g.Hook, g.Scan.Namespace, g.Scan.Name)},
	}}
	_, _, err := a.ensureOwn(ctx, want)
	return want.Name, err
}

// RevokeHook removes the objects that GrantHook made for a hook that runs in a namespace. A missing
// object is not an error.
func (a *Access) RevokeHook(ctx context.Context, scan *executionv1.Scan, hookName, namespace string) error {
	m := metav1.ObjectMeta{Namespace: scan.Namespace, Name: names.HookAccess(hookName, scan.UID)}
	errs := []error{
		client.IgnoreNotFound(a.writer.Delete(ctx, &rbacv1.RoleBinding{ObjectMeta: m}, uncached)),
		client.IgnoreNotFound(a.writer.Delete(ctx, &rbacv1.Role{ObjectMeta: m}, uncached)),
	}
	if a.mode == PerScan {
		m.Namespace = namespace
		errs = append(errs, client.IgnoreNotFound(a.writer.Delete(ctx, &corev1.ServiceAccount{ObjectMeta: m}, uncached)))
	}
	return errors.Join(errs...)
}

func newGrant(g HookGrant) (*rbacv1.Role, *rbacv1.RoleBinding) {
	m := metav1.ObjectMeta{
		Namespace:       g.Scan.Namespace,
		Name:            names.HookAccess(g.Hook, g.Scan.UID),
		Labels:          map[string]string{executionv1.LabelScanUID: string(g.Scan.UID)},
		Annotations:     map[string]string{"description": fmt.Sprintf("Lets hook %s, which runs in namespace %s, reach Scan %s.", g.Hook, g.Namespace, g.Scan.Name)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(g.Scan, executionv1.SchemeGroupVersion.WithKind("Scan"))},
	}
	return bound(m, g.Scan, g.ResultType, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: g.ServiceAccount, Namespace: g.Namespace})
}

// bound returns the Role that reaches one Scan and its RoleBinding.
func bound(m metav1.ObjectMeta, scan *executionv1.Scan, resultType string, who rbacv1.Subject) (*rbacv1.Role, *rbacv1.RoleBinding) {
	rules := scanRules(scan.Name)
	if resultType != "" { // an empty list of names would mean all
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{group}, Resources: []string{"parsedefinitions"}, ResourceNames: []string{resultType}, Verbs: []string{"get"},
		})
	}
	return &rbacv1.Role{ObjectMeta: m, Rules: rules}, &rbacv1.RoleBinding{
		ObjectMeta: *m.DeepCopy(),
		Subjects:   []rbacv1.Subject{who},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: m.Name},
	}
}
