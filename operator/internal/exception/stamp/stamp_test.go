// SPDX-License-Identifier: Apache-2.0

package stamp_test

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
)

var (
	sealer = stamp.NewSealer([]byte("a key of all replicas"))
	at     = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
)

func exception(name string) *settingsv1alpha2.FindingException {
	e := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Generation: 2}}
	e.Spec.Reason, e.Spec.Match.AnyOf = "agreed with the owner", []settingsv1alpha2.ExceptionEntry{{Names: []string{"a"}}}
	return e
}

func stamped(t *testing.T, e *settingsv1alpha2.FindingException) *stamp.Stamped {
	t.Helper()
	s, err := stamp.Of(e)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sealed(t *testing.T, by *stamp.Sealer, e *settingsv1alpha2.FindingException) string {
	t.Helper()
	text, err := by.Seal(&stamped(t, e).Subject, stamp.Stamp{CreatedBy: "alice", ChangedBy: "bob", ChangedAt: at})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestStampsCannotBeForged: a stamp holds for the exception that it was made for, and for no other.
func TestStampsCannotBeForged(t *testing.T) {
	good := sealed(t, sealer, exception("a"))
	if got, err := sealer.Open(&stamped(t, exception("a")).Subject, good); err != nil || got.CreatedBy != "alice" || got.ChangedBy != "bob" || !got.ChangedAt.Equal(at) {
		t.Errorf("its own stamp: %+v, %v", got, err)
	}
	elsewhere, changed, generated := exception("a"), exception("a"), exception("a")
	elsewhere.Namespace, changed.Spec.Reason, generated.GenerateName = "other", "another one altogether", "b-"
	for name, c := range map[string]struct {
		of         *settingsv1alpha2.FindingException
		annotation string
	}{
		"another name":      {exception("b"), good},
		"another namespace": {elsewhere, good},
		"another spec":      {changed, good},
		"a made up name":    {generated, good},
		"another key":       {exception("a"), sealed(t, stamp.NewSealer([]byte("a guess")), exception("a"))},
		"no seal":           {exception("a"), `{"createdBy":"alice","changedBy":"bob","changedAt":"2026-11-23T12:00:00Z"}`},
		"no stamp":          {exception("a"), ""},
		"nonsense":          {exception("a"), "alice"},
	} {
		if got, err := sealer.Open(&stamped(t, c.of).Subject, c.annotation); !errors.Is(err, stamp.ErrNotOurs) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	cluster := &settingsv1alpha2.ClusterFindingException{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	own := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	of, err := stamp.OfCluster(cluster)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sealer.Open(&of.Subject, sealed(t, sealer, own)); !errors.Is(err, stamp.ErrNotOurs) {
		t.Errorf("of another kind: %+v, %v", got, err)
	}
}

// TestLast says what is believed where stamp and status differ.
func TestLast(t *testing.T) {
	known := settingsv1alpha2.FindingExceptionStatus{
		ObservedGeneration: 2, CreatedBy: "carol", ChangedBy: "dave", ChangedAt: &metav1.Time{Time: at.Add(time.Hour)},
	}
	good := sealed(t, sealer, exception("a"))
	for name, c := range map[string]struct {
		annotation string
		status     settingsv1alpha2.FindingExceptionStatus
		generation int64
		want       stamp.Stamp
	}{
		"new":                       {good, settingsv1alpha2.FindingExceptionStatus{}, 2, stamp.Stamp{CreatedBy: "alice", ChangedBy: "bob", ChangedAt: at}},
		"nobody knows":              {"", settingsv1alpha2.FindingExceptionStatus{}, 2, stamp.Stamp{}},
		"the creator stays":         {good, known, 2, stamp.Stamp{CreatedBy: "carol", ChangedBy: "bob", ChangedAt: at}},
		"another key since then":    {"forged", known, 2, stamp.Stamp{CreatedBy: "carol", ChangedBy: "dave", ChangedAt: at.Add(time.Hour)}},
		"changed without admission": {"forged", known, 3, stamp.Stamp{CreatedBy: "carol"}},
	} {
		e := exception("a")
		e.Annotations, e.Status, e.Generation = map[string]string{stamp.Annotation: c.annotation}, c.status, c.generation
		if got := sealer.Last(stamped(t, e)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		} else if got.IsEmpty() != (c.want == stamp.Stamp{}) {
			t.Errorf("%s: empty is %t", name, got.IsEmpty())
		}
	}
}
