// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// TestLargeScanIsReadWhole: of a large Scan the cache keeps a part while it is suspended. All that
// it says is in its Job when it goes on, and its labels and finalizers stay.
func TestLargeScanIsReadWhole(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 60<<10)
	large := w.scan("large", func(s *executionv1.Scan) {
		s.Spec.Suspend = new(true)
		s.Spec.Parameters = []string{"--first", long}
		s.Spec.InitContainers = []corev1.Container{{Name: "own", Image: "own", Args: []string{long}}}
		s.Labels = map[string]string{"team": "a"}
		for i := range 40 {
			s.Finalizers = append(s.Finalizers, "example.com/"+strings.Repeat("f", 1+i))
		}
	})
	w.Create(w.scanType(), w.parseDefinition(), large)
	w.Eventually(w.ready("large")).Should(Equal(executionv1.ReasonSuspended))
	w.Expect(w.get("large").Finalizers).To(HaveLen(41))
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":false}}`))
	w.Expect(w.Client.Patch(w.Context(), w.get("large"), patch)).To(Succeed())
	pod := w.job(executionv1.JobTypeScanner).Spec.Template.Spec
	w.Expect(pod.Containers[0].Command).To(ContainElements("--first", long))
	w.Expect(pod.InitContainers).To(HaveLen(1))
	w.Expect(pod.InitContainers[0].Args).To(Equal([]string{long}))
	s := w.get("large")
	w.Expect(s.Labels).To(HaveKeyWithValue("team", "a"))
	w.Expect(s.Finalizers).To(HaveLen(41))

	patch = client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["`+executionv1.FinalizerStorage+`"]}}`))
	w.Expect(w.Client.Patch(w.Context(), s, patch)).To(Succeed())
	w.Expect(w.Client.Delete(w.Context(), w.get("large"))).To(Succeed())
	w.Eventually(func() bool { w.collect(); return w.gone("large")() }).Should(BeTrue())
}
