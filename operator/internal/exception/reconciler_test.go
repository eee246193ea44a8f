// SPDX-License-Identifier: Apache-2.0

package exception_test

import (
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/exception"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

// TestStatusIsWritten looks at an exception when it is made, when its end is near, and when it is over.
func TestStatusIsWritten(t *testing.T) {
	clock, recorder := clocktesting.NewFakePassiveClock(now), events.NewFakeRecorder(10)
	r := exception.NewReconciler(exception.Options{Client: cluster.Client, Events: recorder, Clock: clock})
	e := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "status"}}
	end := metav1.NewTime(now.Add(30 * day))
	e.Spec.Status, e.Spec.Reason, e.Spec.ExpiresAt = settingsv1alpha2.ExceptionAccepted, "until the next release", &end
	e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Names: []string{"a*"}}}
	if err := cluster.Client.Create(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(e)
	for _, step := range []struct {
		at             time.Time
		active, ending metav1.ConditionStatus
		after          time.Duration
	}{
		{now, metav1.ConditionTrue, metav1.ConditionFalse, 16 * day},
		{now.Add(16 * day), metav1.ConditionTrue, metav1.ConditionTrue, 14 * day},
		{now.Add(30 * day), metav1.ConditionFalse, metav1.ConditionFalse, 0},
	} {
		clock.SetTime(step.at)
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil || result.RequeueAfter != step.after {
			t.Errorf("at %s: after %s, %v; want %s", step.at, result.RequeueAfter, err, step.after)
		}
		if err := cluster.Client.Get(t.Context(), key, e); err != nil {
			t.Fatal(err)
		}
		version := e.ResourceVersion
		for name, want := range map[string]metav1.ConditionStatus{"Active": step.active, "ExpiresSoon": step.ending} {
			if c := meta.FindStatusCondition(e.Status.Conditions, name); c == nil || c.Status != want || c.ObservedGeneration != e.Generation {
				t.Errorf("at %s: %s is %+v, want %s", step.at, name, c, want)
			}
		}
		// A second look writes nothing.
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Error(err)
		}
		if err := cluster.Client.Get(t.Context(), key, e); err != nil || e.ResourceVersion != version {
			t.Errorf("at %s: written again, %v", step.at, err)
		}
	}
	if got := <-recorder.Events; len(recorder.Events) > 0 || got[:len("Normal ExpiresSoon")] != "Normal ExpiresSoon" {
		t.Errorf("Events: %s and %d more", got, len(recorder.Events))
	}
	if err := cluster.Client.Delete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Errorf("after the deletion: %v", err)
	}
}

// TestStampIsMissing says so of exceptions on a cluster where no admission is in force, and takes back who changed what was
// changed since.
func TestStampIsMissing(t *testing.T) {
	e := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stamps"}}
	e.Spec.Status, e.Spec.Reason = settingsv1alpha2.ExceptionMitigated, "dealt with elsewhere"
	e.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Names: []string{"a*"}}}
	if err := cluster.Client.Create(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	sealer, key := stamp.NewSealer([]byte("a key of all replicas")), client.ObjectKeyFromObject(e)
	annotate := func() {
		t.Helper()
		of, err := stamp.Of(e)
		if err != nil {
			t.Fatal(err)
		}
		text, err := sealer.Seal(&of.Subject, stamp.Stamp{CreatedBy: "alice", ChangedBy: "bob", ChangedAt: now})
		if err != nil {
			t.Fatal(err)
		}
		e.Annotations = map[string]string{stamp.Annotation: text}
		if err := cluster.Client.Update(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	look := func(when string, sealer *stamp.Sealer, want, changedBy string) {
		t.Helper()
		r := exception.NewReconciler(exception.Options{
			Client: cluster.Client, Events: events.NewFakeRecorder(10), Clock: clocktesting.NewFakePassiveClock(now), Sealer: sealer,
		})
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Client.Get(t.Context(), key, e); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(e.Status.Conditions, "Stamped")
		if c == nil || c.Reason != want || e.Status.ChangedBy != changedBy {
			t.Errorf("%s: %+v, changed by %q; want %s and %q", when, c, e.Status.ChangedBy, want, changedBy)
		}
	}
	look("made where nobody stamps", nil, "NoAdmission", "")
	look("made before anybody stamped", sealer, "NotStamped", "")
	annotate()
	look("stamped", sealer, "Stamped", "bob")
	look("the webhook was switched off", nil, "Stamped", "bob")
	e.Spec.Reason = "dealt with elsewhere, differently"
	if err := cluster.Client.Update(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	look("changed since", nil, "NoAdmission", "")
	look("and on again", sealer, "ChangeNotStamped", "")
	if err := cluster.Client.Delete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}
