// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

func TestRuns(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(id string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id}}
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	nmap, lurker := corev1.ContainerStatus{Name: "nmap", State: running, ContainerID: "n1"}, corev1.ContainerStatus{Name: "lurker", State: running, ContainerID: "l1"}
	for name, tc := range map[string]struct {
		init, main []corev1.ContainerStatus
		selection  Selection
		want       []string
	}{
		"NotStarted":   {main: []corev1.ContainerStatus{{Name: "nmap", State: waiting}}},
		"Running":      {main: []corev1.ContainerStatus{nmap, lurker}, want: []string{"scanner nmap n1", "scanner/lurker lurker l1"}},
		"InitFirst":    {init: []corev1.ContainerStatus{{Name: "clone", State: ended("c1"), ContainerID: "c1"}}, main: []corev1.ContainerStatus{nmap}, want: []string{"scanner/clone clone c1", "scanner nmap n1"}},
		"OneContainer": {main: []corev1.ContainerStatus{nmap, lurker}, selection: Selection{Container: "lurker"}, want: []string{"scanner/lurker lurker l1"}},
		"Restarted": {
			main: []corev1.ContainerStatus{{Name: "nmap", State: running, RestartCount: 1, ContainerID: "n2", LastTerminationState: ended("n1")}},
			want: []string{"scanner nmap n1 previous", "scanner nmap n2"},
		},
		// Whether the restart is counted already does not matter.
		"WaitsForAgain": {main: []corev1.ContainerStatus{{Name: "nmap", State: waiting, RestartCount: 1, LastTerminationState: ended("n1")}}, want: []string{"scanner nmap n1"}},
		"Ended":         {main: []corev1.ContainerStatus{{Name: "nmap", State: ended("n1"), ContainerID: "n1"}}, want: []string{"scanner nmap n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "nmap"}, {Name: "lurker"}}},
				Status: corev1.PodStatus{InitContainerStatuses: tc.init, ContainerStatuses: tc.main},
			}
			var got []string
			for _, r := range runs(pod, "scanner", tc.selection) {
				text := r.label + " " + r.container + " " + r.id
				if r.previous {
					text += " previous"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRunsOfBothPhases: in a pod that runs scanner and parser, the parser's container is the phase parser.
func TestRunsOfBothPhases(t *testing.T) {
	running := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, ContainerID: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{executionv1.LabelReports: "true", executionv1.LabelPhase: executionv1.PhaseScanner}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nmap"}, {Name: "parser"}, {Name: "lurker"}}},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running("nmap"), running("parser"), running("lurker")}},
	}
	job := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Labels:      map[string]string{executionv1.LabelJobType: executionv1.JobTypeScanner},
		Annotations: map[string]string{executionv1.AnnotationPhases: string(executionv1.PhasesFused)},
	}}
	for phase, want := range map[string][]string{
		"": {"scanner", "parser", "scanner/lurker"}, "scanner": {"scanner", "scanner/lurker"}, "parser": {"parser"}, "hooks": nil,
	} {
		s := Selection{Phase: phase}
		var got []string
		for _, r := range runs(pod, jobPhase(job), s) {
			got = append(got, r.label)
		}
		if diff := cmp.Diff(want, got); diff != "" || s.wantsJob(job) != (want != nil) {
			t.Errorf("phase %q: the Job is wanted: %t; (-want +got):\n%s", phase, s.wantsJob(job), diff)
		}
	}
}

func TestPhases(t *testing.T) {
	hook := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		executionv1.LabelJobType: executionv1.JobTypeReadOnlyHook, executionv1.LabelHookName: "notify",
	}}}
	for name, tc := range map[string]struct {
		asked string
		want  bool
	}{
		"All": {"", true}, "Hooks": {"hooks", true}, "ThisHook": {"hook/notify", true}, "OtherHook": {"hook/x", false}, "Scanner": {"scanner", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (Selection{Phase: tc.asked}).wants(jobPhase(hook)); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
	for _, bad := range []string{"hook/", "hook", "lurker", "Scanner"} {
		if _, err := ParsePhase(bad); err == nil {
			t.Errorf("%q is taken for a phase", bad)
		}
	}
}

func TestServes(t *testing.T) {
	scan := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "1"}}
	owned := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(scan, executionv1.SchemeGroupVersion.WithKind("Scan"))}}}
	labelled := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{executionv1.LabelScanUID: "1"}}}
	other := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{executionv1.LabelScanUID: "2"}}}
	if !Serves(owned, scan) || !Serves(labelled, scan) || Serves(other, scan) {
		t.Error("a Job is taken for that of another Scan, or not for its own")
	}
}

func TestSplitStamp(t *testing.T) {
	at, text := splitStamp("2026-11-21T10:00:00.5Z hello  world\r\n")
	if text != "hello  world" || !at.Equal(time.Date(2026, 11, 21, 10, 0, 0, 5e8, time.UTC)) {
		t.Errorf("got %v, %q", at, text)
	}
	if at, text := splitStamp("no stamp\n"); !at.IsZero() || text != "no stamp" {
		t.Errorf("got %v, %q", at, text)
	}
}
