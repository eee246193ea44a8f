// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

// The scanner's container is the pod's, or an init container before a parser in the same pod. What comes later does not count.
func TestScannerEndToFindings(t *testing.T) {
	ended := []corev1.ContainerStatus{{Name: scannerContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	running := []corev1.ContainerStatus{{Name: scannerContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	for name, c := range map[string]struct {
		status corev1.PodStatus
		label  string
		want   time.Duration
	}{
		"PodOfItsOwn":         {corev1.PodStatus{ContainerStatuses: ended}, "s", 3 * time.Second},
		"InitContainer":       {corev1.PodStatus{InitContainerStatuses: ended}, "s", 3 * time.Second},
		"StillRuns":           {corev1.PodStatus{ContainerStatuses: running}, "s", 0},
		"PodOfNoScan":         {corev1.PodStatus{ContainerStatuses: ended}, "", 0},
		"PodOfAnotherScan":    {corev1.PodStatus{ContainerStatuses: ended}, "other", 0},
		"AnotherContainerDid": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "parser", State: ended[0].State}}}, "s", 0},
	} {
		t.Run(name, func(t *testing.T) {
			o := &findingsObserver{ended: map[types.NamespacedName]time.Time{}, found: map[types.NamespacedName]bool{}}
			began := time.Date(2026, time.November, 28, 10, 0, 0, 0, time.UTC)
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{labelScan: c.label}}, Status: c.status}
			s := scans.New("ns", "s", "nmap")
			o.scan(s, began)
			o.pod(p, began)
			o.pod(p, began.Add(time.Second))
			s.Status.Findings = executionv1.FindingStats{Count: new(int64(1))}
			o.scan(s, began.Add(3*time.Second))
			o.scan(s, began.Add(time.Minute))
			if p50, _ := o.latencies(); p50 != c.want {
				t.Errorf("got %s, want %s", p50, c.want)
			}
		})
	}
}
