// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
)

// findingsObserver sees how long it takes from the end of a scanner's container until its Scan has findings, in whichever pods that is done.
type findingsObserver struct {
	mu sync.Mutex
	// ended has the Scans whose scanner has ended, by name.
	ended map[types.NamespacedName]time.Time
	found map[types.NamespacedName]bool
	waits []time.Duration
}

// observeFindings follows pods and Scans until the context ends.
func observeFindings(ctx context.Context, c client.WithWatch) *findingsObserver {
	o := &findingsObserver{ended: map[types.NamespacedName]time.Time{}, found: map[types.NamespacedName]bool{}}
	follow.Start(ctx, c, &corev1.PodList{}, func(p *corev1.Pod, _ bool) { o.pod(p, time.Now()) })
	follow.Start(ctx, c, &executionv1.ScanList{}, func(s *executionv1.Scan, _ bool) { o.scan(s, time.Now()) })
	return o
}

// labelScan is a label of Scans, which their pods take over: the Scan's name.
const labelScan = "bench.scanyard.io/scan"

// scannerContainer is the name of the container in the ScanType of prepare.
const scannerContainer = "nmap"

// pod notes that the scanner of a pod has ended, be it an init container or not.
func (o *findingsObserver) pod(p *corev1.Pod, now time.Time) {
	scan := p.Labels[labelScan]
	if scan == "" || !containerEnded(p, scannerContainer) {
		return
	}
	key := types.NamespacedName{Namespace: p.Namespace, Name: scan}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, seen := o.ended[key]; !seen {
		o.ended[key] = now
	}
}

func containerEnded(p *corev1.Pod, name string) bool {
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if list[i].Name == name && list[i].State.Terminated != nil {
				return true
			}
		}
	}
	return false
}

func (o *findingsObserver) scan(s *executionv1.Scan, now time.Time) {
	if s.Status.Findings.Count == nil {
		return
	}
	key := client.ObjectKeyFromObject(s)
	o.mu.Lock()
	defer o.mu.Unlock()
	if at, ended := o.ended[key]; ended && !o.found[key] {
		o.found[key] = true
		o.waits = append(o.waits, now.Sub(at))
	}
}

func (o *findingsObserver) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits = nil
}

func (o *findingsObserver) latencies() (p50, p99 time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return percentiles(o.waits)
}
