// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCancellers(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		f := metav1.NewFieldsV1(fields)
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: f}
	}
	cancel := `{"f:spec":{"f:cancel":{}}}`
	cases := map[string]struct {
		reason string
		have   []metav1.ManagedFieldsEntry
		want   string
	}{
		"None":   {"an API server that keeps no record", nil, ""},
		"One":    {"who has set this field, not others", []metav1.ManagedFieldsEntry{entry("helm", `{"f:spec":{".":{},"f:scanType":{}}}`), entry("kubectl-patch", cancel)}, "kubectl-patch"},
		"Shared": {"several may have applied the same", []metav1.ManagedFieldsEntry{entry("b", cancel), entry("a", cancel), entry("b", cancel)}, "a, b"},
		"Broken": {"an unreadable entry names no client", []metav1.ManagedFieldsEntry{entry("a", `{`), {Manager: "b"}}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cancellers(tc.have); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
