// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/findings/scanview"
)

// Selection says which logs are wanted. The zero value wants all.
type Selection struct {
	// Phase is scanner, parser, hooks or hook/NAME.
	Phase string
	// Container is the name of a container.
	Container string
}

// ParsePhase checks the name of a phase.
func ParsePhase(text string) (string, error) {
	if text == "" || slices.Contains([]string{scanview.PhaseScanner, scanview.PhaseParser, scanview.PhaseHooks}, text) {
		return text, nil
	}
	if name, ok := strings.CutPrefix(text, "hook/"); ok && name != "" {
		return text, nil
	}
	return "", fmt.Errorf("phase %q is none of scanner, parser, hooks, hook/NAME", text)
}

// jobPhase is the phase that a Job runs: "scanner", "parser", "hook/NAME".
func jobPhase(j metav1.Object) string {
	switch j.GetLabels()[executionv1.LabelJobType] {
	case executionv1.JobTypeScanner:
		return scanview.PhaseScanner
	case executionv1.JobTypeParser:
		return scanview.PhaseParser
	case executionv1.JobTypeReadOnlyHook, executionv1.JobTypeReadAndWriteHook:
		if name := j.GetAnnotations()[executionv1.AnnotationHookName]; name != "" {
			return "hook/" + name
		}
		return "hook/" + j.GetLabels()[executionv1.LabelHookName]
	}
	return ""
}

// wants says whether a phase is selected.
func (s Selection) wants(phase string) bool {
	return phase != "" && (s.Phase == "" || s.Phase == phase || s.Phase == scanview.PhaseHooks && strings.HasPrefix(phase, "hook/"))
}

// wantsJob says whether a phase is selected that a Job runs.
func (s Selection) wantsJob(j metav1.Object) bool {
	return s.wants(jobPhase(j)) || executionv1.IsFused(j) && s.wants(scanview.PhaseParser)
}

// Serves says whether a Job serves a Scan: by its owner, or by the label of Jobs in
// other namespaces.
func Serves(j metav1.Object, scan *executionv1.Scan) bool {
	if j.GetLabels()[executionv1.LabelScanUID] == string(scan.UID) {
		return true
	}
	owner := metav1.GetControllerOf(j)
	return owner != nil && owner.UID == scan.UID
}

// run is one run of a container: a restarted container is another one.
type run struct {
	namespace, pod, uid, container string
	// id is the runtime's; the count of restarts is not part of the name, since it is counted when the
	// next run begins by some and when this one ends by others.
	id string
	// previous says that the log belongs to the run before the current one.
	previous bool
	label    string
}

// containerKey names the container, whatever its runs.
func (r run) containerKey() string { return r.uid + "/" + r.container }

func (r run) key() string { return r.containerKey() + "/" + r.id }

// runs are those of a pod's containers that have begun: init containers first.
func runs(pod *corev1.Pod, phase string, s Selection) []run {
	main := ""
	if len(pod.Spec.Containers) > 0 {
		main = pod.Spec.Containers[0].Name
	}
	var out []run
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		phase, main := phase, main
		if c.Name == executionv1.ContainerParser && executionv1.IsFusedPod(pod) {
			phase, main = scanview.PhaseParser, c.Name
		}
		if s.Container != "" && s.Container != c.Name || !s.wants(phase) {
			continue
		}
		r := run{namespace: pod.Namespace, pod: pod.Name, uid: string(pod.UID), container: c.Name, label: label(phase, c.Name, main)}
		last := c.LastTerminationState.Terminated
		switch {
		case c.State.Running != nil, c.State.Terminated != nil:
			if last != nil {
				before := r
				before.id, before.previous = last.ContainerID, true
				out = append(out, before)
			}
			r.id = c.ContainerID
			out = append(out, r)
		case last != nil: // it waits for its next run
			r.id = last.ContainerID
			out = append(out, r)
		}
	}
	return out
}

// label names a log at the beginning of its lines.
func label(phase, container, main string) string {
	if container == main {
		return phase
	}
	return phase + "/" + container
}

// byCreation sorts Jobs and pods by when they were made.
func byCreation[O metav1.Object](a, b O) int {
	if c := a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time); c != 0 {
		return c
	}
	return strings.Compare(a.GetName(), b.GetName())
}

// phaseOrder is the place of a Job in the life of a Scan.
func phaseOrder(j *batchv1.Job) int {
	switch j.Labels[executionv1.LabelJobType] {
	case executionv1.JobTypeScanner:
		return 0
	case executionv1.JobTypeParser:
		return 1
	default:
		return 2
	}
}
