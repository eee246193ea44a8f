// SPDX-License-Identifier: Apache-2.0

package life

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/podkit/redact"
)

// waitingReasons maps the kubelet's reasons of a waiting container to reasons for users.
var waitingReasons = map[string]string{
	"ErrImagePull":               executionv1.ReasonImagePull,
	"ImagePullBackOff":           executionv1.ReasonImagePull,
	"InvalidImageName":           executionv1.ReasonImagePull,
	"ErrImageNeverPull":          executionv1.ReasonImagePull,
	"RegistryUnavailable":        executionv1.ReasonImagePull,
	"ImageInspectError":          executionv1.ReasonImagePull,
	"CreateContainerConfigError": executionv1.ReasonContainerConfig,
	"CreateContainerError":       executionv1.ReasonContainerConfig,
	"RunContainerError":          executionv1.ReasonContainerConfig,
	"CrashLoopBackOff":           executionv1.ReasonContainerFailing,
}

// PodTrouble returns why a pod does not start or keeps failing; nil if nothing is wrong.
func PodTrouble(pod *corev1.Pod) *Cause {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return &Cause{executionv1.ReasonUnschedulable, "No node takes the pod: " + Clean(c.Message)}
		}
	}
	images := images(pod)
	for _, s := range containerStatuses(pod) {
		if s.State.Waiting == nil {
			continue
		}
		if reason, known := waitingReasons[s.State.Waiting.Reason]; known {
			return &Cause{reason, waitingMessage(reason, images[s.Name], pod, s)}
		}
	}
	// A restarted container may be in its last try: after that the Job controller removes the
	// pod, and the reason would be lost.
	for _, s := range containerStatuses(pod) {
		if pod.Spec.RestartPolicy != corev1.RestartPolicyNever && lastFailure(pod, s) != nil {
			return &Cause{executionv1.ReasonContainerFailing, waitingMessage(executionv1.ReasonContainerFailing, images[s.Name], pod, s)}
		}
	}
	return nil
}

// lastFailure returns the last failure of a container that is or will be restarted; nil if it has
// not failed. The end of a container whose pod is being deleted is ignored: the deletion caused it.
func lastFailure(pod *corev1.Pod, s corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	ends := []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated}
	if !pod.DeletionTimestamp.IsZero() {
		ends = ends[1:]
	}
	for _, t := range ends {
		if t != nil && t.ExitCode != 0 {
			return t
		}
	}
	return nil
}

// waitingMessage returns a message that does not change while the problem stays the same: the
// kubelet's own message changes between a pull and the pause before the next one.
func waitingMessage(reason, image string, pod *corev1.Pod, s corev1.ContainerStatus) string {
	switch reason {
	case executionv1.ReasonImagePull:
		return fmt.Sprintf(
			"The image %q of container %q cannot be pulled. Check its name and tag, and that the cluster may pull it (imagePullSecrets).",
			image, s.Name,
		)
	case executionv1.ReasonContainerFailing:
		if t := lastFailure(pod, s); t != nil {
			return fmt.Sprintf("Container %q fails and is restarted: %s", s.Name, terminated(t))
		}
		return fmt.Sprintf("Container %q fails and is restarted.", s.Name)
	default:
		return fmt.Sprintf("Container %q cannot be created: %s", s.Name, Clean(s.State.Waiting.Message))
	}
}

func images(pod *corev1.Pod) map[string]string {
	m := map[string]string{}
	for _, c := range pod.Spec.InitContainers {
		m[c.Name] = c.Image
	}
	for _, c := range pod.Spec.Containers {
		m[c.Name] = c.Image
	}
	return m
}

func containerStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	all := make([]corev1.ContainerStatus, 0, len(pod.Status.InitContainerStatuses)+len(pod.Status.ContainerStatuses))
	all = append(all, pod.Status.InitContainerStatuses...)
	return append(all, pod.Status.ContainerStatuses...)
}

// PendingSince is since when a pod waits for a container to start; zero where none does. While an init container runs, the pod waits for
// nobody, and what follows has its time from the end of that one on.
func PendingSince(pod *corev1.Pod) time.Time {
	since := pod.CreationTimestamp.Time
	for _, s := range pod.Status.InitContainerStatuses {
		if isSidecar(pod, s.Name) {
			continue
		}
		if s.State.Running != nil {
			return time.Time{}
		}
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(since) {
			since = t.FinishedAt.Time
		}
	}
	if len(pod.Status.ContainerStatuses) < len(pod.Spec.Containers) {
		return since
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running == nil && s.State.Terminated == nil && s.LastTerminationState.Terminated == nil {
			return since
		}
	}
	return time.Time{}
}

// isSidecar reports whether an init container runs beside the pod's containers: nothing waits for its end.
func isSidecar(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}

// FailingContainer returns the container of a pod that has failed and is or will be restarted; nil if there is none.
func FailingContainer(pod *corev1.Pod) *executionv1.ContainerFailure {
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		return nil
	}
	for _, s := range containerStatuses(pod) {
		if t := lastFailure(pod, s); t != nil {
			return containerFailure(s.Name, t)
		}
	}
	return nil
}

// PodsFailure returns how the containers of the newest failed pod of a Job ended, and the first of them. Both are
// empty if there is no such pod: the Job controller removes pods whose containers are restarted in place.
func PodsFailure(pods []corev1.Pod) (string, *executionv1.ContainerFailure) {
	var newest *corev1.Pod
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase == corev1.PodFailed && (newest == nil || newest.CreationTimestamp.Before(&p.CreationTimestamp)) {
			newest = p
		}
	}
	if newest == nil {
		return "", nil
	}
	var parts []string
	var first *executionv1.ContainerFailure
	for _, s := range containerStatuses(newest) {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			parts = append(parts, fmt.Sprintf("container %q %s", s.Name, terminated(t)))
			first = cmp.Or(first, containerFailure(s.Name, t))
		}
	}
	if len(parts) == 0 && newest.Status.Message != "" {
		parts = append(parts, Clean(newest.Status.Message))
	}
	return strings.Join(parts, "; "), first
}

// containerFailure returns the end of a container; the Job is not filled in.
func containerFailure(name string, t *corev1.ContainerStateTerminated) *executionv1.ContainerFailure {
	f := &executionv1.ContainerFailure{Container: name, ExitCode: t.ExitCode, Message: terminationMessage(t.Message)}
	if t.Reason != "Error" {
		f.Reason = text.Cut(t.Reason, maxQuoted)
	}
	if !t.FinishedAt.IsZero() {
		f.FinishedAt = &t.FinishedAt
	}
	return f
}

func terminated(t *corev1.ContainerStateTerminated) string {
	s := fmt.Sprintf("exited with code %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" {
		s += " (" + t.Reason + ")"
	}
	if m := terminationMessage(t.Message); m != "" {
		s += ": " + m
	}
	return s
}

// jobFailure returns the reason and the message of a failed Job, from its condition.
func jobFailure(j *batchv1.Job) string {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return strings.TrimPrefix(c.Reason+": "+Clean(c.Message), ": ")
		}
	}
	return ""
}

// CreateTrouble returns why the Job controller cannot create pods, from the Events that
// it writes; nil if it can.
func CreateTrouble(events []corev1.Event) *Cause {
	var newest *corev1.Event
	for i := range events {
		e := &events[i]
		if e.Reason == "FailedCreate" && (newest == nil || eventTime(newest).Before(eventTime(e))) {
			newest = e
		}
	}
	if newest == nil {
		return nil
	}
	message := Clean(newest.Message)
	if isQuota(message) {
		return &Cause{executionv1.ReasonQuotaExceeded, "The pod cannot be created: " + message}
	}
	return &Cause{executionv1.ReasonPodRejected, "The pod cannot be created: " + podName.ReplaceAllString(message, "pod")}
}

// podName matches the random name in the Job controller's message; without the name the
// message is the same for each try.
var podName = regexp.MustCompile(`pods? "[^"]*"`)

func eventTime(e *corev1.Event) time.Time {
	if !e.EventTime.IsZero() {
		return e.EventTime.Time
	}
	return e.LastTimestamp.Time
}

func isQuota(message string) bool { return strings.Contains(message, "exceeded quota") }

var (
	// escape matches the escape sequences of terminals; control matches what is left of them, and the characters that
	// change the direction of text.
	escape  = regexp.MustCompile(`\x1b(?:\[[0-9;?]*[ -/]*[@-~]|[@-Z\\-_])`)
	control = regexp.MustCompile(`[\p{Cc}\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]+`)
)

// maxQuoted is how many bytes of a text from pods or servers are quoted.
const maxQuoted = 500

// Clean prepares a text from pods or servers for a condition: it removes queries and users of
// URLs, which may be credentials, and control characters, and cuts the text at maxQuoted bytes.
func Clean(s string) string { return text.Cut(singleLine(s), maxQuoted) }

// terminationMessage returns the termination message of a container. A long message of several lines is mostly the end
// of a log, whose last lines have the reason: of such a message the end is quoted.
func terminationMessage(s string) string {
	if log := singleLine(s); len(log) > maxQuoted && strings.Contains(strings.TrimSpace(s), "\n") {
		return "…" + strings.ToValidUTF8(log[len(log)-maxQuoted:], "")
	}
	return Clean(s)
}

// singleLine returns the text as one line without control characters and without secrets of URLs.
func singleLine(s string) string {
	s = redact.URLs(strings.ToValidUTF8(s, "\uFFFD"))
	return strings.Join(strings.Fields(control.ReplaceAllString(escape.ReplaceAllString(s, ""), " ")), " ")
}
