// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/scanyard/scanyard/cli/session"
)

func TestWhyStill(t *testing.T) {
	t.Parallel()
	conditions := func(list ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": list}}}
	}
	for name, test := range map[string]struct {
		crd  *unstructured.Unstructured
		err  error
		want string
	}{
		"Terminating": {
			crd: conditions(
				map[string]any{"type": "Established", "reason": "InitialNamesAccepted"},
				map[string]any{"type": "Terminating", "reason": "InstanceDeletionPending", "message": "could not list instances"},
			),
			want: "InstanceDeletionPending: could not list instances",
		},
		"NotBegun":  {crd: conditions(), want: "its deletion has not begun"},
		"NoStatus":  {crd: &unstructured.Unstructured{Object: map[string]any{}}, want: "its deletion has not begun"},
		"Away":      {err: errors.New("connection refused"), want: "connection refused"},
		"NoObjects": {crd: conditions("text"), want: "its deletion has not begun"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := whyStill(test.crd, test.err); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestDeletionIsAskedForAgain: an API server that has given up deletes the CRD when something of the CRD changes, and only then.
func TestDeletionIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		asks   bool
	}{
		"Failed":   {"InstanceDeletionFailed", true},
		"Check":    {"InstanceDeletionCheck", true},
		"UnderWay": {"InstanceDeletionInProgress", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crd := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "reports.openreports.io"},
				"status": map[string]any{"conditions": []any{map[string]any{"type": "Terminating", "reason": test.reason, "message": "x"}}},
			}}
			client := fake.NewSimpleDynamicClientWithCustomListKinds(
				runtime.NewScheme(), map[schema.GroupVersionResource]string{crds: "CustomResourceDefinitionList"}, crd)
			looks, asked := 0, 0
			client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				if looks++; asked > 0 || looks == 3 {
					return true, nil, apierrors.NewNotFound(crds.GroupResource(), crd.GetName())
				}
				return false, nil, nil
			})
			client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				asked++
				return false, nil, nil
			})
			m := &move{cluster: &cluster{dynamic: client}, options: &options{session: &session.Session{Now: time.Now}}}
			if err := m.waitGone(t.Context(), crd.GetName()); err != nil || (asked == 1) != test.asks {
				t.Errorf("asked %d times after %d looks: %v", asked, looks, err)
			}
		})
	}
}
