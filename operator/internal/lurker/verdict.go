// SPDX-License-Identifier: Apache-2.0

package lurker

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// verdict is how a container stands.
type verdict struct {
	// ended is true when it will not run again.
	ended bool
	// err says why there is no result: it failed, or it is not there.
	err error
	// restarted is true when an earlier attempt may have left a file.
	restarted bool
	// startedAt is when the attempt that ended well began.
	startedAt time.Time
}

// judge says how a container of a pod stands. A container that has terminated is not
// at its end if kubelet is going to restart it.
func judge(pod *corev1.Pod, container string) verdict {
	policy, known := restartPolicy(pod, container)
	if !known {
		return verdict{ended: true, err: fmt.Errorf("pod %s has no container %q; --container must name the scanner", pod.Name, container)}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != container || s.State.Terminated == nil {
			continue
		}
		t := s.State.Terminated
		switch {
		case t.ExitCode == 0:
			return verdict{ended: true, restarted: s.RestartCount > 0, startedAt: t.StartedAt.Time}
		case policy == corev1.RestartPolicyNever:
			return verdict{ended: true, err: fmt.Errorf("the scanner (container %q) %s; nothing is uploaded, since its result may be incomplete", container, exit(t))}
		}
	}
	return verdict{}
}

func exit(t *corev1.ContainerStateTerminated) string {
	if t.Reason == "" || t.Reason == "Error" {
		return fmt.Sprintf("failed with exit code %d", t.ExitCode)
	}
	return fmt.Sprintf("failed with exit code %d (%s)", t.ExitCode, t.Reason)
}

// restartPolicy is that of a container: its own, where it has one, else the pod's.
func restartPolicy(pod *corev1.Pod, container string) (corev1.RestartPolicy, bool) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name != container {
			continue
		}
		if c.RestartPolicy != nil {
			return corev1.RestartPolicy(*c.RestartPolicy), true
		}
		return pod.Spec.RestartPolicy, true
	}
	return "", false
}
