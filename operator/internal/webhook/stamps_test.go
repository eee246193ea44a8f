// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/exception"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
)

// as is a client of a person who may write exceptions.
func as(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"writers"}}
	c, err := client.New(config, client.Options{Scheme: cluster.Scheme})
	must(t, err)
	return c
}

// admitWriters lets the group write exceptions, but not their status.
func admitWriters(t *testing.T) {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "writers-"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{settingsv1alpha2.SchemeGroupVersion.Group}, Resources: []string{"findingexceptions", "clusterfindingexceptions"}, Verbs: []string{"*"},
		}},
	}
	must(t, cluster.Client.Create(t.Context(), role))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "writers-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "writers"}},
	}
	must(t, cluster.Client.Create(t.Context(), binding))
	t.Cleanup(func() {
		must(t, cluster.Client.Delete(context.WithoutCancel(t.Context()), binding))
		must(t, cluster.Client.Delete(context.WithoutCancel(t.Context()), role))
	})
	reader := as(t, "reader")
	eventually(t, "the group may write exceptions", func() bool {
		return reader.List(t.Context(), &settingsv1alpha2.ClusterFindingExceptionList{}) == nil
	})
}

// TestForgedExceptionAuthor: what clients write into the stamp or the status is worth nothing.
func TestForgedExceptionAuthor(t *testing.T) {
	_, stop := serve(t)
	admitWriters(t)
	alice, bob, mallory := as(t, "alice"), as(t, "bob"), as(t, "mallory")
	r := exception.NewReconciler(exception.Options{
		Client: cluster.Client, Events: events.NewFakeRecorder(100), Clock: clock.RealClock{}, Sealer: sealer,
	})
	var e *settingsv1alpha2.FindingException
	want := func(when, created, changed string) {
		t.Helper()
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)})
		must(t, err)
		must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(e), e))
		if s := e.Status; s.CreatedBy != created || s.ChangedBy != changed || (s.ChangedAt == nil) != (changed == "") {
			t.Errorf("%s: created by %q, changed by %q at %s; want %q and %q", when, s.CreatedBy, s.ChangedBy, s.ChangedAt, created, changed)
		}
	}
	fresh := func(name string) *settingsv1alpha2.FindingException {
		x := &settingsv1alpha2.FindingException{}
		must(t, json.Unmarshal([]byte(excepted("FindingException", `{"names": ["a"], "attributes": {"b": 1.50, "a": "<"}}`, "2099-01-01T00:00:00Z")), x))
		x.Namespace, x.Name = "default", name
		t.Cleanup(func() { must(t, cluster.Client.Delete(context.WithoutCancel(t.Context()), x)) })
		return x
	}

	e = fresh("forged")
	forged := `{"createdBy":"alice","changedBy":"alice","changedAt":"2026-11-23T12:00:00Z","seal":"00"}`
	e.Annotations, e.Status.CreatedBy = map[string]string{stamp.Annotation: forged, "own": "stays"}, "alice"
	must(t, mallory.Create(t.Context(), e))
	want("made with a stamp of somebody else", "mallory", "mallory")
	if e.Annotations["own"] != "stays" {
		t.Errorf("annotations of the client: %v", e.Annotations)
	}

	e = fresh("made")
	must(t, alice.Create(t.Context(), e))
	want("made", "alice", "alice")
	made := e.Status.ChangedAt
	e.Annotations[stamp.Annotation], e.Labels = forged, map[string]string{"a": "b"}
	must(t, mallory.Update(t.Context(), e))
	want("labelled by somebody else, with another stamp", "alice", "alice")
	delete(e.Annotations, stamp.Annotation)
	must(t, mallory.Update(t.Context(), e))
	want("without the stamp", "alice", "alice")
	if !e.Status.ChangedAt.Equal(made) {
		t.Errorf("changed at %s, made at %s", e.Status.ChangedAt, made)
	}
	e.Spec.Reason = "agreed with the owner, again"
	must(t, bob.Update(t.Context(), e))
	want("changed", "alice", "bob")
	e.Status.CreatedBy = "bob"
	if err := bob.Status().Update(t.Context(), e); err == nil {
		t.Error("who writes exceptions may write their status")
	}
	copied := e.Annotations[stamp.Annotation]

	// A name that the API server makes up.
	e = fresh("")
	e.GenerateName = "made-"
	must(t, alice.Create(t.Context(), e))
	want("made without a name", "alice", "alice")

	stop()
	// While the operator is away, nobody is written down; nor does the stamp of another exception help.
	away := fresh("away")
	away.Annotations = map[string]string{stamp.Annotation: copied}
	eventually(t, "the API server goes on without the operator", func() bool { return mallory.Create(t.Context(), away) == nil })
	e = away
	want("made while the operator was away", "", "")
	e = &settingsv1alpha2.FindingException{}
	must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "made"}, e))
	e.Spec.Reason = "changed while nobody looked at it"
	must(t, mallory.Update(t.Context(), e))
	want("changed while the operator was away", "alice", "")
}

// TestClusterExceptionAuthor is the other kind.
func TestClusterExceptionAuthor(t *testing.T) {
	serve(t)
	admitWriters(t)
	e := &settingsv1alpha2.ClusterFindingException{}
	must(t, json.Unmarshal([]byte(excepted("ClusterFindingException", `{"names": ["a"]}`, "2099-01-01T00:00:00Z")), e))
	e.Name = "made"
	before := time.Now().Add(-time.Second)
	must(t, as(t, "alice").Create(t.Context(), e))
	t.Cleanup(func() { must(t, cluster.Client.Delete(context.WithoutCancel(t.Context()), e)) })
	r := exception.NewReconciler(exception.Options{
		Client: cluster.Client, Events: events.NewFakeRecorder(10), Clock: clock.RealClock{}, Sealer: sealer,
	})
	_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)})
	must(t, err)
	must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(e), e))
	if e.Status.CreatedBy != "alice" || e.Status.ChangedBy != "alice" || !e.Status.ChangedAt.After(before) {
		t.Errorf("%+v", e.Status)
	}
}
