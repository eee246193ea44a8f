// SPDX-License-Identifier: Apache-2.0

package sqlstorage

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// withPayload is a storage whose pods have their spec kept apart.
func withPayload(t *testing.T, config sqldb.Config) *Storage {
	t.Helper()
	s := newSuiteStorage(t, config)
	s.kind.Payload = "spec"
	return s.Storage
}

func largePod(name, text string) *example.Pod {
	return &example.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"of": "test"}},
		Spec:       example.PodSpec{NodeName: strings.Repeat(text, 10_000)},
	}
}

func create(t *testing.T, s *Storage, pod *example.Pod) *example.Pod {
	t.Helper()
	out := &example.Pod{}
	if err := s.Create(t.Context(), "/pods/ns/"+pod.Name, pod, out, 0); err != nil {
		t.Fatal(err)
	}
	return out
}

func listPods(ctx context.Context, t *testing.T, s *Storage, predicate storage.SelectionPredicate) []example.Pod {
	t.Helper()
	pods := &example.PodList{}
	if err := s.GetList(ctx, "/pods/", storage.ListOptions{Predicate: predicate, Recursive: true}, pods); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// Clients do not see that payloads are kept apart: get, list, update, watch and delete give the whole.
func TestPayloadIsPutBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		s := withPayload(t, config)
		made := create(t, s, largePod("a", "x"))
		w, err := s.Watch(t.Context(), "/pods/", storage.ListOptions{Predicate: storage.Everything, Recursive: true, ResourceVersion: made.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		whole := func(what string, pod *example.Pod) {
			t.Helper()
			if len(pod.Spec.NodeName) != 10_000 {
				t.Errorf("%s: %d bytes of payload", what, len(pod.Spec.NodeName))
			}
		}
		got := &example.Pod{}
		if err := s.Get(t.Context(), "/pods/ns/a", storage.GetOptions{}, got); err != nil {
			t.Fatal(err)
		}
		whole("create", made)
		whole("get", got)
		whole("list", &listPods(t.Context(), t, s, storage.Everything)[0])
		if bare := listPods(WithHeadOnly(t.Context()), t, s, storage.Everything)[0]; bare.Spec.NodeName != "" || bare.Name != "a" {
			t.Errorf("heads only: %s with %d bytes of payload", bare.Name, len(bare.Spec.NodeName))
		}
		updated := &example.Pod{}
		err = s.GuaranteedUpdate(t.Context(), "/pods/ns/a", updated, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			pod := obj.(*example.Pod)
			pod.Labels["more"] = "labels"
			return pod, nil
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		whole("update", updated)
		deleted := &example.Pod{}
		if err := s.Delete(t.Context(), "/pods/ns/a", deleted, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		whole("delete", deleted)
		for _, want := range []watch.EventType{watch.Modified, watch.Deleted} {
			event := <-w.ResultChan()
			if event.Type != want {
				t.Fatalf("%s, want %s", event.Type, want)
			}
			whole("watch", event.Object.(*example.Pod))
		}
	})
}

// Row 39 of the fault list: one damaged payload does not hide the others, and is not given out.
func TestDamagedPayload(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		s := withPayload(t, config)
		create(t, s, largePod("bad", "x"))
		create(t, s, largePod("good", "y"))
		damage(t, s, "/pods/ns/bad")
		if err := s.Get(t.Context(), "/pods/ns/bad", storage.GetOptions{}, &example.Pod{}); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "stored payload of bad is damaged") {
			t.Errorf("get: %v", err)
		}
		err := s.GuaranteedUpdate(t.Context(), "/pods/ns/bad", &example.Pod{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			t.Error("a damaged object was handed to an update")
			return obj, nil
		}), nil)
		if !apierrors.IsInternalError(err) {
			t.Errorf("update: %v", err)
		}
		pods := listPods(t.Context(), t, s, storage.Everything)
		if len(pods) != 2 || pods[0].Annotations[DamagedAnnotation] != "true" || pods[0].Spec.NodeName != "" {
			t.Fatalf("list: %d pods, %v", len(pods), pods[0].Annotations)
		}
		if pods[1].Annotations != nil || len(pods[1].Spec.NodeName) != 10_000 {
			t.Error("list: the other is not whole")
		}
		if err := s.Delete(t.Context(), "/pods/ns/bad", &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
			t.Errorf("delete: %v", err)
		}
	})
}

// damage changes a stored payload behind the store's back.
func damage(t *testing.T, s *Storage, key string) {
	t.Helper()
	outcome, err := s.store.Write(t.Context(), mvcc.Change{Key: "/damage/it", To: &mvcc.State{Head: []byte("{}"), Index: func(ctx context.Context, tx *sqldb.Tx, _ int64, _ time.Time) error {
		found, err := tx.Exec(ctx, `UPDATE blobs SET data = ? WHERE sha = (SELECT payload FROM objects WHERE "key" = ?)`, []byte("flipped"), key)
		if err == nil && found != 1 {
			t.Errorf("%d payloads", found)
		}
		return err
	}}})
	if err != nil || !outcome.Written {
		t.Fatal(outcome, err)
	}
}

// Selectors are narrowed in SQL; what they select is decided by the object, also for operators that SQL does not know.
func TestSelectors(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		s := withPayload(t, config)
		for _, name := range []string{"a", "b", "c"} {
			pod := largePod(name, "x")
			pod.Labels["name"] = name
			if name == "c" {
				pod.Labels = nil
			}
			create(t, s, pod)
		}
		for name, c := range map[string]struct {
			labels, fields string
			want           string
		}{
			"Equals":      {"name=a", "", "a"},
			"In":          {"name in (a,b,x)", "", "a b"},
			"Exists":      {"name", "", "a b"},
			"NotEquals":   {"name!=a", "", "b c"},
			"NotExists":   {"!name", "", "c"},
			"Two":         {"of=test,name=b", "", "b"},
			"Name":        {"", "metadata.name=b", "b"},
			"NotName":     {"", "metadata.name!=b", "a c"},
			"Namespace":   {"", "metadata.namespace=ns", "a b c"},
			"OtherOne":    {"", "metadata.namespace=other", ""},
			"Wildcards":   {"", "metadata.name=%", ""},
			"Quote":       {"", "metadata.name='", ""},
			"NotStorable": {"", "metadata.name=\x00é", ""},
		} {
			t.Run(name, func(t *testing.T) {
				predicate := storage.SelectionPredicate{GetAttrs: func(obj runtime.Object) (labels.Set, fields.Set, error) {
					pod := obj.(*example.Pod)
					return pod.Labels, fields.Set{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace}, nil
				}}
				var err error
				if predicate.Label, err = labels.Parse(c.labels); err != nil {
					t.Fatal(err)
				}
				if predicate.Field, err = fields.ParseSelector(c.fields); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, pod := range listPods(t.Context(), t, s, predicate) {
					got = append(got, pod.Name)
				}
				if found := strings.Join(got, " "); found != c.want {
					t.Errorf("%q, want %q", found, c.want)
				}
			})
		}
	})
}

// Rows 15 and 48: a continue token leads nowhere but on in the caller's own range, and names are never patterns.
func TestForeignTokensAndNames(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		s := withPayload(t, config)
		create(t, s, largePod("a", "x"))
		for _, key := range []string{"/pods/ns/%", "/pods/ns/_", "/pods/ns/'", "/pods/ns/a\x00", "/pods/ns/é", "/pods/ns/" + strings.Repeat("a", 1000)} {
			if err := s.Get(t.Context(), key, storage.GetOptions{}, &example.Pod{}); !storage.IsNotFound(err) {
				t.Errorf("%q: %v", key, err)
			}
		}
		for name, start := range map[string]string{"Elsewhere": "../ns/a", "Zero": "a\x00b", "Foreign": "é"} {
			token, err := storage.EncodeContinue("/pods/other/"+start, "/pods/other/", 2)
			if err != nil {
				t.Fatal(err)
			}
			pods := &example.PodList{}
			opts := storage.ListOptions{Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), Limit: 1, Continue: token}, Recursive: true}
			if err := s.GetList(t.Context(), "/pods/other/", opts, pods); !apierrors.IsBadRequest(err) {
				t.Errorf("%s: %d pods, %v", name, len(pods.Items), err)
			}
		}
	})
}
