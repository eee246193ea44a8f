// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// TestHandoverIsTheWholeScan, but for what only servers look at. An empty list of tolerations means something to cascades.
func TestHandoverIsTheWholeScan(t *testing.T) {
	scan := testobjects.Scan("s")
	scan.TypeMeta = metav1.TypeMeta{}
	scan.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
	scan.Spec.Tolerations, scan.Spec.Parameters = []corev1.Toleration{}, []string{"$(HOME)"}
	h, err := NewHandover(scan)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, v := range h.env(nil) {
		env[v.Name] = v.Value
	}
	got := &executionv1.Scan{}
	if err := json.Unmarshal(handover.Join(func(name string) string { return env[name] }), got); err != nil {
		t.Fatal(err)
	}
	if got.Kind != "Scan" || got.ManagedFields != nil || got.Spec.Tolerations == nil || got.Spec.Parameters[0] != "$(HOME)" || got.UID != scan.UID {
		t.Errorf("got %+v", got)
	}
	if scan.ManagedFields == nil {
		t.Error("the Scan has changed")
	}
	scan.Annotations = map[string]string{"large": strings.Repeat("x", handover.MaxScan)}
	if _, err := NewHandover(scan); !errors.Is(err, handover.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

// TestHandoverNeedsNoAccount: no token in the pod, unless the hook brings an account for something else. What the kind's own
// environment sets wins.
func TestHandoverNeedsNoAccount(t *testing.T) {
	handed := &Handover{
		Scan: []handover.Variable{{Name: handover.EnvScan, Value: "{}"}}, CategoriesURL: "https://store/categories",
		PullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
	}
	parser := NewParser(Parser{Scan: testobjects.Scan("s"), Definition: &executionv1.ParseDefinitionSpec{Image: "parser"}, Handover: handed}, Config{})
	pod := parser.Spec.Template.Spec
	if pod.ServiceAccountName != "" || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("account %q, automount %v", pod.ServiceAccountName, pod.AutomountServiceAccountToken)
	}
	if len(pod.ImagePullSecrets) != 1 || parser.Annotations[executionv1.AnnotationScanAccess] != "Handover" {
		t.Errorf("pull secrets %v, annotations %v", pod.ImagePullSecrets, parser.Annotations)
	}
	spec := testobjects.HookSpec(executionv1.ReadOnly, 0)
	spec.Env = []corev1.EnvVar{{Name: handover.EnvScan, Value: "mine"}}
	hook := NewHook(Hook{Scan: testobjects.Scan("s"), Name: "h", Spec: spec, ServiceAccount: "cascading-scans", Handover: handed}, Config{})
	pod = hook.Spec.Template.Spec
	if pod.ServiceAccountName != "cascading-scans" || pod.AutomountServiceAccountToken != nil {
		t.Errorf("account %q, automount %v", pod.ServiceAccountName, pod.AutomountServiceAccountToken)
	}
	for _, v := range pod.Containers[0].Env {
		if v.Name == handover.EnvScan && v.Value != "mine" {
			t.Errorf("the hook's own variable was replaced by %q", v.Value)
		}
	}
}
