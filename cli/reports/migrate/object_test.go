// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return u
}

// TestExported holds what is sent for what is stored.
func TestExported(t *testing.T) {
	for name, c := range map[string]struct{ stored, want string }{
		"AsItIs": {
			`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a","finalizers":["x/y"],"annotations":{"k":"v"}},"results":[{"policy":"p"}]}`,
			`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a","finalizers":["x/y"],"annotations":{"k":"v"}},"results":[{"policy":"p"}]}`,
		},
		"FinalizersNoted": {
			`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a","annotations":{"reports.scanyard.io/finalizers":"[\"x/y\"]"}}}`,
			`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a","finalizers":["x/y"]}}`,
		},
		"OurOwnManager": {
			`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a","managedFields":[{"manager":"kyverno"},{"manager":"scanyard-reports-migrate-abc"}]}}`,
			`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a","managedFields":[{"manager":"kyverno"}]}}`,
		},
		"V1Alpha1": {
			`{"apiVersion":"wgpolicyk8s.io/v1alpha1","kind":"PolicyReport","metadata":{"name":"a","managedFields":[{"manager":"m","apiVersion":"wgpolicyk8s.io/v1alpha1"}]},"results":[{"policy":"p","status":"fail","data":{"k":"v"}}]}`,
			`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a","managedFields":[{"manager":"m","apiVersion":"wgpolicyk8s.io/v1alpha2"}]},"results":[{"policy":"p","result":"fail","properties":{"k":"v"}}]}`,
		},
		"V1Beta1": {
			`{"apiVersion":"wgpolicyk8s.io/v1beta1","kind":"ClusterPolicyReport","metadata":{"name":"a"},"source":"s","configuration":{"limits":{}},"summary":{"fail":1}}`,
			`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"ClusterPolicyReport","metadata":{"name":"a"},"summary":{"fail":1}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			stored := object(t, c.stored)
			got, err := exported(&groups[0], stored)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, c.want).Object, got.Object); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(object(t, c.stored).Object, stored.Object); diff != "" {
				t.Errorf("what was read is changed:\n%s", diff)
			}
		})
	}
	broken := object(t, `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a","annotations":{"reports.scanyard.io/finalizers":"x"}}}`)
	if _, err := exported(&groups[0], broken); err == nil {
		t.Error("finalizers that cannot be read are not an error")
	}
}

// TestFinalizersComeBack holds that taking finalizers off and copying the object again gives them back.
func TestFinalizersComeBack(t *testing.T) {
	text, err := withoutFinalizers("u", []string{"a/b", "c/d"})
	if err != nil {
		t.Fatal(err)
	}
	var patch map[string]any
	if err := json.Unmarshal(text, &patch); err != nil {
		t.Fatal(err)
	}
	metadata := patch["metadata"].(map[string]any)
	if finalizers, there := metadata["finalizers"]; !there || finalizers != nil || metadata["uid"] != "u" {
		t.Errorf("patch %s", text)
	}
	u := object(t, `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a"}}`)
	maps.Copy(u.Object["metadata"].(map[string]any), map[string]any{"annotations": metadata["annotations"]})
	got, err := exported(&groups[0], u)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a/b", "c/d"}, got.GetFinalizers()); diff != "" {
		t.Error(diff)
	}
}

// TestHash holds which changes of an object the comparison sees.
func TestHash(t *testing.T) {
	const base = `{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport",
		"metadata":{"name":"a","namespace":"n","uid":"u","generation":2,"creationTimestamp":"2026-01-01T00:00:00Z","resourceVersion":"7","labels":{"k":"v"}},
		"summary":{"pass":0,"fail":1},"results":[{"policy":"p","scored":true}]}`
	hash := func(edit func(o map[string]any)) string {
		u := object(t, base)
		edit(u.Object)
		got, err := hashOf(u)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	metadata := func(o map[string]any) map[string]any { return o["metadata"].(map[string]any) }
	result := func(o map[string]any) map[string]any { return o["results"].([]any)[0].(map[string]any) }
	want := hash(func(map[string]any) {})
	for name, edit := range map[string]func(o map[string]any){
		"ResourceVersion": func(o map[string]any) { metadata(o)["resourceVersion"] = "1000008" },
		"ManagedFields":   func(o map[string]any) { metadata(o)["managedFields"] = []any{map[string]any{"manager": "x"}} },
		"OtherGroup":      func(o map[string]any) { o["apiVersion"], o["kind"] = "openreports.io/v1alpha1", "Report" },
		"EmptyMessage":    func(o map[string]any) { result(o)["message"] = "" },
		"EmptyProperties": func(o map[string]any) { result(o)["properties"] = map[string]any{} },
		"Null":            func(o map[string]any) { o["scope"] = nil },
	} {
		if got := hash(edit); got != want {
			t.Errorf("%s: a difference that is none", name)
		}
	}
	for name, edit := range map[string]func(o map[string]any){
		"UID":        func(o map[string]any) { metadata(o)["uid"] = "v" },
		"Label":      func(o map[string]any) { metadata(o)["labels"] = map[string]any{"k": "w"} },
		"Finalizers": func(o map[string]any) { metadata(o)["finalizers"] = []any{"x/y"} },
		"Created":    func(o map[string]any) { metadata(o)["creationTimestamp"] = "2026-01-01T00:00:01Z" },
		"Zero":       func(o map[string]any) { delete(o["summary"].(map[string]any), "pass") },
		"Scored":     func(o map[string]any) { delete(result(o), "scored") },
		"ResultsOrder": func(o map[string]any) {
			o["results"] = append([]any{map[string]any{"policy": "q"}}, o["results"].([]any)...)
		},
		"Gone": func(o map[string]any) { delete(o, "results") },
	} {
		if got := hash(edit); got == want {
			t.Errorf("%s: the difference is not seen", name)
		}
	}
}
