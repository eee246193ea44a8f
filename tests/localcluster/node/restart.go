// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// policyOf is the restart policy that holds for a container: its own if it is
// a sidecar, and the pod's otherwise. An init container of a pod that restarts
// always is run until it succeeds, once.
func policyOf(p *corev1.Pod, c *corev1.Container, init bool) corev1.RestartPolicy {
	if c.RestartPolicy != nil {
		return corev1.RestartPolicy(*c.RestartPolicy)
	}
	if init && p.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return corev1.RestartPolicyOnFailure
	}
	return p.Spec.RestartPolicy
}

// isSidecar tells an init container that keeps running beside the others.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// restarts decides whether a container that ended is run again.
func restarts(policy corev1.RestartPolicy, code int) bool {
	switch policy {
	case corev1.RestartPolicyAlways:
		return true
	case corev1.RestartPolicyOnFailure:
		return code != 0
	case corev1.RestartPolicyNever:
	}
	return false
}

// backoff counts the pauses between restarts of one container. Like a
// kubelet's, the first restart comes at once, the next after the initial
// pause, and each further one after twice the last.
type backoff struct {
	initial time.Duration
	next    time.Duration
}

// after returns the pause before the next start of something that ran for the
// given time. A long run forgives what was before.
func (b *backoff) after(ran time.Duration) time.Duration {
	if ran >= 2*maxBackoff {
		b.next = 0
	}
	pause := b.next
	b.next = min(max(2*b.next, b.initial), maxBackoff)
	return pause
}

// exitReason is the reason a kubelet gives for an exit code.
func exitReason(code int, outOfMemory bool) string {
	switch {
	case outOfMemory:
		return "OOMKilled"
	case code == 0:
		return "Completed"
	}
	return "Error"
}
