// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	settingsv1alpha1 "github.com/scanyard/scanyard/apis/settings/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/webhook"
)

// TestConversionStaleAnnotation: an update through v1alpha1 changes nothing of what that version cannot say. The specs are
// equal in all cases, so that only this check can refuse.
func TestConversionStaleAnnotation(t *testing.T) {
	const (
		one    = `{"spec":{"resultForwarding":{"provider":"grpc","grpc":{"endpoint":"h:1"}}}}`
		other  = `{"spec":{"resultForwarding":{"provider":"grpc","grpc":{"endpoint":"evil:1"}}}}`
		limits = `{"spec":{"exceptions":{"maxDuration":"90d"}}}`
		status = `{"status":{"sinks":[{"name":"default"}]}}`
	)
	handler := webhook.NewHandler(webhook.Checks(cluster.Client, clock.RealClock{}, sealer), nil)
	for name, tc := range map[string]struct {
		stored, sent string
		version      string
		refused      bool
	}{
		"Kept":          {one, one, "v1alpha1", false},
		"Lost":          {one, "", "v1alpha1", true},
		"Stale":         {one, other, "v1alpha1", true},
		"BroughtIn":     {"", one, "v1alpha1", true},
		"None":          {"", "", "v1alpha1", false},
		"OnlyStatus":    {status, "", "v1alpha1", false},
		"StaleStatus":   {status, one, "v1alpha1", true},
		"LimitsLost":    {limits, "", "v1alpha1", true},
		"NewestVersion": {one, "", "v1alpha2", false},
	} {
		for _, kind := range []string{"ScanSetting", "ClusterScanSetting"} {
			t.Run(name+kind, func(t *testing.T) {
				object := func(annotation string) runtime.RawExtension {
					o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha1.Name}}
					o.SetGroupVersionKind(settingsv1alpha1.SchemeGroupVersion.WithKind(kind))
					if annotation != "" {
						o.Annotations = map[string]string{settingsv1alpha2.AnnotationKept: annotation}
					}
					raw, err := json.Marshal(o)
					must(t, err)
					return runtime.RawExtension{Raw: raw}
				}
				review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
					UID: "u", Name: settingsv1alpha1.Name, Operation: admissionv1.Update, OldObject: object(tc.stored), Object: object(tc.sent),
					Kind: metav1.GroupVersionKind{Group: settingsv1alpha1.SchemeGroupVersion.Group, Version: tc.version, Kind: kind},
				}}
				review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
				body, err := json.Marshal(review)
				must(t, err)
				response := httptest.NewRecorder()
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, webhook.Path, bytes.NewReader(body))
				req.Header.Set("Content-Type", "application/json")
				handler.ServeHTTP(response, req)
				var got admissionv1.AdmissionReview
				must(t, json.Unmarshal(response.Body.Bytes(), &got))
				if got.Response.Allowed == tc.refused {
					t.Fatalf("allowed: %t, %+v", got.Response.Allowed, got.Response.Result)
				}
				text := "has resultForwarding, which v1alpha1 cannot say: write it as v1alpha2, or keep the annotation settings.scanyard.io/v1alpha2 as it was"
				if tc.stored == limits {
					text = strings.Replace(text, "resultForwarding", "exceptions", 1)
				}
				if tc.refused && !strings.Contains(got.Response.Result.Message, "this "+kind+" "+text) {
					t.Error(got.Response.Result.Message)
				}
			})
		}
	}
}
