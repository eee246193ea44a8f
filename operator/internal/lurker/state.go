// SPDX-License-Identifier: Apache-2.0

package lurker

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// containerState is the state of a container.
type containerState struct {
	// ended is true when it will not run again.
	ended bool
	// err is why there is no result: the container failed, or does not exist.
	err error
	// restarted is true when an earlier attempt may have left a file.
	restarted bool
	// startedAt is when the attempt that ended well began.
	startedAt time.Time
}

// stateOf returns the state of a container of a pod. A terminated container has not ended if kubelet is
// going to restart it.
func stateOf(pod *corev1.Pod, container string) containerState {
	policy, known := restartPolicy(pod, container)
	if !known {
		return containerState{ended: true, err: fmt.Errorf("pod %s has no container %q; --container must name the scanner", pod.Name, container)}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != container || s.State.Terminated == nil {
			continue
		}
		t := s.State.Terminated
		switch {
		case t.ExitCode == 0:
			return containerState{ended: true, restarted: s.RestartCount > 0, startedAt: t.StartedAt.Time}
		case policy == corev1.RestartPolicyNever:
			err := fmt.Errorf("the scanner (container %q) %s; nothing is uploaded, since its result may be incomplete", container, exit(t))
			return containerState{ended: true, err: err}
		}
	}
	return containerState{}
}

func exit(t *corev1.ContainerStateTerminated) string {
	if t.Reason == "" || t.Reason == "Error" {
		return fmt.Sprintf("failed with exit code %d", t.ExitCode)
	}
	return fmt.Sprintf("failed with exit code %d (%s)", t.ExitCode, t.Reason)
}

// restartPolicy is the restart policy of a container: its own, if it has one, else the pod's.
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
