// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
