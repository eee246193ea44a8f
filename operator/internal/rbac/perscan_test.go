// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// calls counts what goes to the API server, by verb.
type calls map[string]int

// newPerScan is in the default mode. Objects get UIDs, as a server gives them.
func newPerScan(t *testing.T, objects ...client.Object) (*Access, client.Client, *clocktesting.FakePassiveClock, calls) {
	t.Helper()
	n := calls{}
	c := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			n["get"]++
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			n["create"]++
			o.SetUID(uuid.NewUUID())
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			n["delete"]++
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	clock := clocktesting.NewFakePassiveClock(testobjects.Epoch)
	return New(c, c, clock, PerScan), c, clock, n
}

func mustEnsure(t *testing.T, a *Access, scan *executionv1.Scan) string {
	t.Helper()
	name, err := a.EnsureParser(t.Context(), scan, "nmap-xml")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestDefect49AnAccountReachesOneScan: two Scans have two accounts, and each Role names
// one Scan.
func TestDefect49AnAccountReachesOneScan(t *testing.T) {
	a, c, _, _ := newPerScan(t)
	scans := []*executionv1.Scan{testobjects.Scan("a"), testobjects.Scan("b")}
	for _, scan := range scans {
		name := mustEnsure(t, a, scan)
		if again, err := a.EnsureHook(t.Context(), scan, "nmap-xml"); err != nil || again != name {
			t.Errorf("hooks run as %q (%v), the parser as %q", again, err, name)
		}
		account := get(t, c, &corev1.ServiceAccount{}, name)
		if owner := metav1.GetControllerOf(account); owner == nil || owner.UID != scan.UID {
			t.Errorf("account %s is owned by %v, want the Scan", name, owner)
		}
		role, binding := grantOf(t, c, account)
		want := []rbacv1.PolicyRule{
			{APIGroups: []string{group}, Resources: []string{"scans"}, ResourceNames: []string{scan.Name}, Verbs: []string{"get"}},
			{APIGroups: []string{group}, Resources: []string{"scans/status"}, ResourceNames: []string{scan.Name}, Verbs: []string{"get", "patch"}},
			{APIGroups: []string{group}, Resources: []string{"parsedefinitions"}, ResourceNames: []string{"nmap-xml"}, Verbs: []string{"get"}},
		}
		if diff := cmp.Diff(want, role.Rules); diff != "" {
			t.Errorf("rules (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: namespace}}, binding.Subjects); diff != "" {
			t.Errorf("subjects (-want +got):\n%s", diff)
		}
	}
	var accounts corev1.ServiceAccountList
	if err := c.List(t.Context(), &accounts); err != nil || len(accounts.Items) != len(scans) {
		t.Errorf("%d accounts (%v), want one per Scan and no shared ones", len(accounts.Items), err)
	}
}

// grantOf returns the Role and RoleBinding that an account owns.
func grantOf(t *testing.T, c client.Client, account *corev1.ServiceAccount) (role rbacv1.Role, binding rbacv1.RoleBinding) {
	t.Helper()
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	if err := errors.Join(c.List(t.Context(), &roles), c.List(t.Context(), &bindings)); err != nil {
		t.Fatal(err)
	}
	found := 0
	for i := range roles.Items {
		if owner := metav1.GetControllerOf(&roles.Items[i]); owner != nil && owner.UID == account.UID {
			role, found = roles.Items[i], found+1
		}
	}
	for i := range bindings.Items {
		if owner := metav1.GetControllerOf(&bindings.Items[i]); owner != nil && owner.UID == account.UID {
			binding, found = bindings.Items[i], found+1
		}
	}
	if found != 2 || binding.RoleRef.Name != role.Name {
		t.Fatalf("account %s owns %d Roles and RoleBindings, want one of each; role %s, bound %s", account.Name, found, role.Name, binding.RoleRef.Name)
	}
	return role, binding
}

// TestWritesOfAScan: three objects are made and one is deleted, however often it is asked.
func TestWritesOfAScan(t *testing.T) {
	a, _, clock, n := newPerScan(t)
	scan := testobjects.Scan("s")
	mustEnsure(t, a, scan)
	for range 3 {
		mustEnsure(t, a, scan)
	}
	clock.SetTime(testobjects.Epoch.Add(2 * trusted)) // the scanner took its time
	before := n["get"]
	mustEnsure(t, a, scan)
	if reads := n["get"] - before; reads != 2 {
		t.Errorf("%d reads to see that all is there, want 2", reads)
	}
	if err := a.ReleaseScan(t.Context(), scan); err != nil {
		t.Fatal(err)
	}
	if n["create"] != 3 || n["delete"] != 1 {
		t.Errorf("calls %v, want 3 creates and 1 delete", n)
	}
}

// TestAccountOfAScanThatBegins: it is made without a read, and one that is there is taken, also where a quota refuses another.
func TestAccountOfAScanThatBegins(t *testing.T) {
	scan := testobjects.Scan("s")
	a, c, _, n := newPerScan(t)
	if _, err := a.PullSecrets(t.Context(), namespace); err != nil { // they are kept for a while
		t.Fatal(err)
	}
	before := n["get"]
	name, err := a.MakeParser(t.Context(), scan, "nmap-xml")
	if err != nil || n["get"] != before || n["create"] != 3 {
		t.Fatalf("%v; %d reads and %d creates, want none and 3", err, n["get"]-before, n["create"])
	}
	account := get(t, c, &corev1.ServiceAccount{}, name)
	grantOf(t, c, account)

	full := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // the fake client is one
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewForbidden(corev1.Resource("serviceaccounts"), name, errors.New("exceeded quota"))
		},
	})
	for _, writer := range []client.Writer{c, full} {
		fresh := New(c, writer, clocktesting.NewFakePassiveClock(testobjects.Epoch), PerScan)
		if again, err := fresh.MakeParser(t.Context(), scan, "nmap-xml"); err != nil || again != name {
			t.Errorf("%q (%v), want %q", again, err, name)
		}
	}
	if _, err := New(c, full, clocktesting.NewFakePassiveClock(testobjects.Epoch), PerScan).MakeParser(t.Context(), testobjects.Scan("another"), "nmap-xml"); !apierrors.IsForbidden(err) {
		t.Errorf("error %v, want what the quota says", err)
	}
	account.Labels[executionv1.LabelScanUID] = "another"
	if err := c.Update(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	_, err = New(c, c, clocktesting.NewFakePassiveClock(testobjects.Epoch), PerScan).MakeParser(t.Context(), scan, "nmap-xml")
	if _, ok := Conflict(err); !ok {
		t.Errorf("error %v, want a conflict", err)
	}
}

// TestAnotherAccountHasAnotherRole: after a release, what the old account owned may be
// there for a while. It is not taken for the new one's, for it is about to go.
func TestAnotherAccountHasAnotherRole(t *testing.T) {
	a, c, _, _ := newPerScan(t)
	scan := testobjects.Scan("s")
	first := *get(t, c, &corev1.ServiceAccount{}, mustEnsure(t, a, scan))
	for range 2 { // releasing twice is releasing
		if err := a.ReleaseScan(t.Context(), scan); err != nil {
			t.Fatal(err)
		}
	}
	second := *get(t, c, &corev1.ServiceAccount{}, mustEnsure(t, a, scan))
	if first.Name != second.Name || first.UID == second.UID {
		t.Fatalf("accounts %s/%s and %s/%s, want the same name and another UID", first.Name, first.UID, second.Name, second.UID)
	}
	old, _ := grantOf(t, c, &first)
	now, _ := grantOf(t, c, &second)
	if old.Name == now.Name {
		t.Errorf("both have Role %s", old.Name)
	}
}

// TestHalfMadeAccountIsCompleted, as after an operator that was killed in between.
func TestHalfMadeAccountIsCompleted(t *testing.T) {
	scan := testobjects.Scan("s")
	a, c, _, _ := newPerScan(t)
	half := newScanAccount(scan, mustEnsure(t, a, scan))
	for _, list := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		if err := c.DeleteAllOf(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	fresh := New(c, c, clocktesting.NewFakePassiveClock(testobjects.Epoch), PerScan)
	mustEnsure(t, fresh, scan)
	grantOf(t, c, get(t, c, &corev1.ServiceAccount{}, half.Name))
}

func TestForeignAccountIsAConflict(t *testing.T) {
	scan := testobjects.Scan("s")
	a, c, _, _ := newPerScan(t)
	name := mustEnsure(t, a, scan)
	foreign := get(t, c, &corev1.ServiceAccount{}, name)
	foreign.Labels[executionv1.LabelScanUID] = "another"
	if err := c.Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	fresh := New(c, c, clocktesting.NewFakePassiveClock(testobjects.Epoch), PerScan)
	_, err := fresh.EnsureParser(t.Context(), scan, "nmap-xml")
	if remedy, ok := Conflict(err); !ok || !strings.Contains(remedy, "delete it") || !strings.Contains(remedy, name) {
		t.Errorf("error %v, want a conflict that says what to delete", err)
	}
}

// TestPullSecretsAreTakenOver from the accounts that secureCodeBox knows.
func TestPullSecretsAreTakenOver(t *testing.T) {
	account := func(name string, secrets ...string) *corev1.ServiceAccount {
		acc := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		for _, s := range secrets {
			acc.ImagePullSecrets = append(acc.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
		}
		return acc
	}
	a, c, _, _ := newPerScan(t, account("parser", "registry", "other"), account("scan-completion-hook", "registry"))
	got := get(t, c, &corev1.ServiceAccount{}, mustEnsure(t, a, testobjects.Scan("s"))).ImagePullSecrets
	if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: "registry"}, {Name: "other"}}, got); diff != "" {
		t.Errorf("pull secrets (-want +got):\n%s", diff)
	}
}

// TestAwayHookHasAnAccountOfItsOwn: with the same hook, two Scans have two accounts where
// the hook runs, and revoking removes that of one.
func TestAwayHookHasAnAccountOfItsOwn(t *testing.T) {
	a, c, _, _ := newPerScan(t)
	accounts := map[types.UID]string{}
	scans := []*executionv1.Scan{testobjects.Scan("a"), testobjects.Scan("b")}
	for _, scan := range scans {
		name, err := a.GrantHook(t.Context(), HookGrant{Scan: scan, ResultType: "nmap-xml", Hook: "webhook", Namespace: "hooks"})
		if err != nil {
			t.Fatal(err)
		}
		accounts[scan.UID] = name
		binding := get(t, c, &rbacv1.RoleBinding{}, name)
		if diff := cmp.Diff([]rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: "hooks"}}, binding.Subjects); diff != "" {
			t.Errorf("subjects (-want +got):\n%s", diff)
		}
	}
	if accounts["uid-of-a"] == accounts["uid-of-b"] {
		t.Errorf("both Scans' hooks run as %s", accounts["uid-of-a"])
	}
	if err := a.RevokeHook(t.Context(), scans[0], "webhook", "hooks"); err != nil {
		t.Fatal(err)
	}
	var left corev1.ServiceAccountList
	if err := c.List(t.Context(), &left, client.InNamespace("hooks")); err != nil || len(left.Items) != 1 || left.Items[0].Name != accounts["uid-of-b"] {
		t.Errorf("accounts %v are left (%v), want that of the other Scan", left.Items, err)
	}
}
