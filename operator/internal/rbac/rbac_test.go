// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

const namespace = testobjects.Namespace

// newAccess is in shared mode, which is that of secureCodeBox.
func newAccess(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) (*Access, client.Client, *clocktesting.FakePassiveClock) {
	t.Helper()
	c := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	clock := clocktesting.NewFakePassiveClock(testobjects.Epoch)
	return New(c, c, clock, Shared), c, clock
}

func get[T client.Object](t *testing.T, c client.Client, o T, name string) T {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestEnsureMakesWhatTheContractSays(t *testing.T) {
	a, c, _ := newAccess(t, interceptor.Funcs{})
	scan := testobjects.Scan("s")
	_, parserErr := a.EnsureParser(t.Context(), scan, "x")
	_, hookErr := a.EnsureHook(t.Context(), scan, "x")
	if err := errors.Join(a.EnsureLurker(t.Context(), namespace), parserErr, hookErr); err != nil {
		t.Fatal(err)
	}
	const group = "execution.securecodebox.io"
	want := map[string][]rbacv1.PolicyRule{
		"lurker": {{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "watch"}}, {APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}}},
		"parser": {
			{APIGroups: []string{group}, Resources: []string{"scans"}, Verbs: []string{"get"}},
			{APIGroups: []string{group}, Resources: []string{"scans/status"}, Verbs: []string{"get", "patch"}},
			{APIGroups: []string{group}, Resources: []string{"parsedefinitions"}, Verbs: []string{"get"}},
		},
		"scan-completion-hook": {
			{APIGroups: []string{group}, Resources: []string{"scans"}, Verbs: []string{"get"}},
			{APIGroups: []string{group}, Resources: []string{"scans/status"}, Verbs: []string{"get", "patch"}},
		},
	}
	for name, rules := range want {
		account := get(t, c, &corev1.ServiceAccount{}, name)
		if account.Annotations["description"] == "" || len(account.Labels) > 0 || len(account.OwnerReferences) > 0 {
			t.Errorf("ServiceAccount %s has metadata %+v", name, account.ObjectMeta)
		}
		if diff := cmp.Diff(rules, get(t, c, &rbacv1.Role{}, name).Rules); diff != "" {
			t.Errorf("Role %s (-want +got):\n%s", name, diff)
		}
		binding := get(t, c, &rbacv1.RoleBinding{}, name)
		if diff := cmp.Diff([]rbacv1.Subject{{Kind: "ServiceAccount", Name: name}}, binding.Subjects); diff != "" {
			t.Errorf("RoleBinding %s (-want +got):\n%s", name, diff)
		}
	}
}

// TestDefect27WhatUsersChangeStays: an older Role gets what it lacks and keeps what
// somebody has added; a binding that has lost its subject gets it back.
func TestDefect27WhatUsersChangeStays(t *testing.T) {
	m := metav1.ObjectMeta{Namespace: namespace, Name: "parser"}
	own := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}
	a, c, _ := newAccess(t, interceptor.Funcs{},
		&rbacv1.Role{ObjectMeta: m, Rules: []rbacv1.PolicyRule{own}},
		&rbacv1.RoleBinding{
			ObjectMeta: m, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "parser"},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "ada"}},
		})
	if _, err := a.EnsureParser(t.Context(), testobjects.Scan("s"), "x"); err != nil {
		t.Fatal(err)
	}
	rules := get(t, c, &rbacv1.Role{}, "parser").Rules
	if diff := cmp.Diff(own, rules[0]); diff != "" || len(rules) < 4 {
		t.Errorf("rules %v lost %v", rules, own)
	}
	if subjects := get(t, c, &rbacv1.RoleBinding{}, "parser").Subjects; len(subjects) != 2 {
		t.Errorf("subjects %v, want the user's and ours", subjects)
	}
}

func TestDefect27AnotherScanMayBeFaster(t *testing.T) {
	exists := apierrors.NewAlreadyExists(schema.GroupResource{}, "x")
	a, _, _ := newAccess(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return exists }})
	if err := a.EnsureLurker(t.Context(), namespace); err != nil {
		t.Errorf("AlreadyExists is an error: %v", err)
	}
}

// TestDefect26EveryErrorIsReturned, and nothing is taken for done after it.
func TestDefect26EveryErrorIsReturned(t *testing.T) {
	boom := errors.New("boom")
	for _, kind := range []string{"ServiceAccount", "Role", "RoleBinding"} {
		t.Run(kind, func(t *testing.T) {
			broken := true
			a, c, _ := newAccess(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if broken && fmt.Sprintf("%T", o) == "*v1."+kind {
					return boom
				}
				return c.Get(ctx, key, o, opts...)
			}})
			if _, err := a.EnsureHook(t.Context(), testobjects.Scan("s"), "x"); !errors.Is(err, boom) {
				t.Fatalf("error %v, want that of the API", err)
			}
			broken = false
			if _, err := a.EnsureHook(t.Context(), testobjects.Scan("s"), "x"); err != nil {
				t.Fatal(err)
			}
			get(t, c, &rbacv1.RoleBinding{}, "scan-completion-hook")
		})
	}
}

func TestForeignBindingIsAConflict(t *testing.T) {
	a, _, _ := newAccess(t, interceptor.Funcs{}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lurker"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "admin"},
	})
	err := a.EnsureLurker(t.Context(), namespace)
	if conflict, ok := errors.AsType[*ConflictError](err); !ok || !strings.Contains(conflict.Error(), "delete it") {
		t.Errorf("error %v, want a conflict that says what to do", err)
	}
}

func TestEnsureRepeatsReadAfterAWhile(t *testing.T) {
	reads := 0
	a, c, clock := newAccess(t, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		reads++
		return c.Get(ctx, key, o, opts...)
	}})
	ensure := func() {
		t.Helper()
		if err := a.EnsureLurker(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
	ensure()
	reads = 0
	ensure()
	if reads != 0 {
		t.Errorf("%d reads for what was seen a moment ago", reads)
	}
	if err := c.Delete(t.Context(), get(t, c, &corev1.ServiceAccount{}, "lurker")); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(testobjects.Epoch.Add(trusted + time.Second))
	ensure()
	get(t, c, &corev1.ServiceAccount{}, "lurker")
}

func TestHookGrantNamesOneScan(t *testing.T) {
	scan := testobjects.Scan("s", testobjects.WithState(executionv1.ScanStateHookProcessing))
	a, c, _ := newAccess(t, interceptor.Funcs{})
	g := HookGrant{Scan: scan, ResultType: "nmap-xml", Hook: "webhook", Namespace: "hooks", ServiceAccount: "sender"}
	for range 2 { // granting twice is granting
		if account, err := a.GrantHook(t.Context(), g); err != nil || account != "sender" {
			t.Fatal(account, err)
		}
	}
	var roles rbacv1.RoleList
	if err := c.List(t.Context(), &roles); err != nil || len(roles.Items) != 1 {
		t.Fatalf("roles %v, error %v", roles.Items, err)
	}
	for _, r := range roles.Items[0].Rules {
		if len(r.ResourceNames) != 1 {
			t.Errorf("rule %v reaches more than the one Scan", r)
		}
	}
	if owner := metav1.GetControllerOf(&roles.Items[0]); owner == nil || owner.UID != scan.UID {
		t.Errorf("owner %v, want the Scan", owner)
	}
	for range 2 { // revoking twice is revoking
		if err := a.RevokeHook(t.Context(), scan, "webhook", "hooks"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.List(t.Context(), &roles); err != nil || len(roles.Items) != 0 {
		t.Errorf("roles %v are left, error %v", roles.Items, err)
	}
}

// TestLookingForPullSecretsMakesNoAccountSeem to be there: a parser that needs none looks for them first.
func TestLookingForPullSecretsMakesNoAccountSeem(t *testing.T) {
	a, c, _ := newAccess(t, interceptor.Funcs{})
	if _, err := a.PullSecrets(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	name, err := a.EnsureHook(t.Context(), testobjects.Scan("s"), "nmap-xml")
	if err != nil {
		t.Fatal(err)
	}
	get(t, c, &corev1.ServiceAccount{}, name)
}
