// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons of waiting containers and of pods, in a kubelet's words.
const (
	reasonCreating        = "ContainerCreating"
	reasonInitializing    = "PodInitializing"
	reasonCrashLoop       = "CrashLoopBackOff"
	reasonErrPull         = "ErrImagePull"
	reasonPullBackoff     = "ImagePullBackOff"
	reasonNeverPull       = "ErrImageNeverPull"
	reasonInvalidImage    = "InvalidImageName"
	reasonConfigError     = "CreateContainerConfigError"
	reasonStartError      = "StartError"
	reasonStatusUnknown   = "ContainerStatusUnknown"
	reasonDeadline        = "DeadlineExceeded"
	messageDeadline       = "Pod was active on the node longer than the specified deadline"
	messageStatusUnknown  = "The container could not be located when the pod was terminated"
	exitCodeStatusUnknown = 137
)

// facts is everything that a pod's status is made of.
type facts struct {
	pod *corev1.Pod
	// previous conditions keep their transition times if nothing changed.
	previous   []corev1.PodCondition
	containers map[string]corev1.ContainerStatus
	podIP      string
	start      metav1.Time
	now        metav1.Time
	// finished is true when nothing will be started any more.
	finished bool
	// reason and message explain why the agent ended the pod, if it did.
	reason, message string
}

// podStatus builds the status that a kubelet would report.
func podStatus(f facts) corev1.PodStatus {
	s := corev1.PodStatus{
		StartTime: &f.start, HostIP: f.podIP, HostIPs: []corev1.HostIP{{IP: f.podIP}},
		PodIP: f.podIP, PodIPs: []corev1.PodIP{{IP: f.podIP}}, Reason: f.reason, Message: f.message,
	}
	for i := range f.pod.Spec.InitContainers {
		c := f.containers[f.pod.Spec.InitContainers[i].Name]
		// An init container is ready once it has done its part.
		c.Ready = c.Ready || (c.State.Terminated != nil && c.State.Terminated.ExitCode == 0)
		s.InitContainerStatuses = append(s.InitContainerStatuses, c)
	}
	for i := range f.pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, f.containers[f.pod.Spec.Containers[i].Name])
	}
	if f.finished {
		for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
			for i := range list {
				settle(&list[i])
			}
		}
	}
	s.Phase = podPhase(f, s)
	s.Conditions = podConditions(f, s)
	return s
}

// statusPatch is the strategic merge patch that makes a pod's status s, and
// fails if the name belongs to another pod by now.
func statusPatch(uid types.UID, s corev1.PodStatus) ([]byte, error) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	if err != nil {
		return nil, err
	}
	// Conditions are merged by type: what a condition no longer says must be
	// taken away by name.
	var conditions []any
	for _, c := range s.Conditions {
		m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c)
		if err != nil {
			return nil, err
		}
		for _, field := range []string{"reason", "message"} {
			if _, said := m[field]; !said {
				m[field] = nil
			}
		}
		conditions = append(conditions, m)
	}
	status["conditions"] = conditions
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
}

// settle gives a container of a finished pod an end: what never ran did not succeed.
func settle(c *corev1.ContainerStatus) {
	if c.State.Terminated != nil {
		return
	}
	if c.State.Waiting != nil && c.LastTerminationState.Terminated != nil {
		c.State, c.LastTerminationState = c.LastTerminationState, corev1.ContainerState{}
		return
	}
	c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: exitCodeStatusUnknown, Reason: reasonStatusUnknown, Message: messageStatusUnknown,
	}}
	c.Ready = false
}

func podPhase(f facts, s corev1.PodStatus) corev1.PodPhase {
	if f.finished {
		if f.reason != "" || anyFailed(f.pod, s) {
			return corev1.PodFailed
		}
		return corev1.PodSucceeded
	}
	if !initialized(f.pod, s) {
		return corev1.PodPending
	}
	for i := range s.ContainerStatuses {
		c := &s.ContainerStatuses[i]
		if c.State.Waiting != nil && c.LastTerminationState.Terminated == nil {
			return corev1.PodPending
		}
	}
	return corev1.PodRunning
}

// anyFailed looks at the containers that decide about success: all but
// sidecars, which are ended when the others are done.
func anyFailed(p *corev1.Pod, s corev1.PodStatus) bool {
	failed := func(c *corev1.ContainerStatus) bool {
		return c.State.Terminated == nil || c.State.Terminated.ExitCode != 0
	}
	for i := range s.InitContainerStatuses {
		if !isSidecar(&p.Spec.InitContainers[i]) && failed(&s.InitContainerStatuses[i]) {
			return true
		}
	}
	for i := range s.ContainerStatuses {
		if failed(&s.ContainerStatuses[i]) {
			return true
		}
	}
	return false
}

// initialized is true once all init containers have done their part.
func initialized(p *corev1.Pod, s corev1.PodStatus) bool {
	for i := range s.InitContainerStatuses {
		c := &s.InitContainerStatuses[i]
		if isSidecar(&p.Spec.InitContainers[i]) {
			if c.Started == nil || !*c.Started {
				return false
			}
			continue
		}
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			return false
		}
	}
	return true
}

func podConditions(f facts, s corev1.PodStatus) []corev1.PodCondition {
	init := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if !initialized(f.pod, s) {
		init.Status, init.Reason = corev1.ConditionFalse, "ContainersNotInitialized"
		init.Message = fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(incomplete(f.pod, s), " "))
	}
	ready := corev1.PodCondition{Status: corev1.ConditionTrue}
	var unready []string
	for i := range s.ContainerStatuses {
		if !s.ContainerStatuses[i].Ready {
			unready = append(unready, s.ContainerStatuses[i].Name)
		}
	}
	switch {
	case s.Phase == corev1.PodSucceeded:
		ready.Status, ready.Reason, init.Reason = corev1.ConditionFalse, "PodCompleted", "PodCompleted"
	case s.Phase == corev1.PodFailed:
		ready.Status, ready.Reason = corev1.ConditionFalse, "PodFailed"
	case len(unready) > 0 || init.Status == corev1.ConditionFalse:
		ready.Status, ready.Reason = corev1.ConditionFalse, "ContainersNotReady"
		ready.Message = fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))
	}
	podReady, containersReady := ready, ready
	podReady.Type, containersReady.Type = corev1.PodReady, corev1.ContainersReady
	out := []corev1.PodCondition{init, podReady, containersReady}
	for i := range out {
		out[i].LastTransitionTime = f.now
		for _, old := range f.previous {
			if old.Type == out[i].Type && old.Status == out[i].Status {
				out[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return out
}

func incomplete(p *corev1.Pod, s corev1.PodStatus) []string {
	var out []string
	for i := range s.InitContainerStatuses {
		c := &s.InitContainerStatuses[i]
		done := c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
		if isSidecar(&p.Spec.InitContainers[i]) {
			done = c.Started != nil && *c.Started
		}
		if !done {
			out = append(out, c.Name)
		}
	}
	return out
}

// firstStatus is what a container starts from: nothing, or what an earlier
// agent reported. A container that ran then has died with that agent.
func firstStatus(p *corev1.Pod, c *corev1.Container, now metav1.Time) corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, old := range list {
			if old.Name != c.Name {
				continue
			}
			if r := old.State.Running; r != nil {
				old.Ready = false
				old.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: exitCodeStatusUnknown, Reason: reasonStatusUnknown, Message: messageStatusUnknown,
					StartedAt: r.StartedAt, FinishedAt: now, ContainerID: old.ContainerID,
				}}
			}
			return old
		}
	}
	reason := reasonCreating
	if len(p.Spec.InitContainers) > 0 {
		reason = reasonInitializing
	}
	no := false
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, Started: &no,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
	}
}
