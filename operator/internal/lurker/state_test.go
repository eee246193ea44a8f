// SPDX-License-Identifier: Apache-2.0

package lurker

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(policy corev1.RestartPolicy, state corev1.ContainerState, restarts int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{RestartPolicy: policy, Containers: []corev1.Container{{Name: "nmap"}, {Name: "lurker"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "lurker", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "nmap", State: state, RestartCount: restarts},
		}},
	}
}

func ended(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: metav1.NewTime(time.Unix(1000, 0))}}
}

func TestStateOf(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	crashed := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	own := pod(corev1.RestartPolicyOnFailure, ended(1, "Error"), 0)
	never := corev1.ContainerRestartPolicyNever
	own.Spec.Containers[0].RestartPolicy = &never
	cases := map[string]struct {
		reason    string
		pod       *corev1.Pod
		container string
		ended     bool
		err       string
	}{
		"Running":              {"it is waited for", pod(corev1.RestartPolicyNever, running, 0), "nmap", false, ""},
		"Done":                 {"its result is uploaded", pod(corev1.RestartPolicyNever, ended(0, "Completed"), 0), "nmap", true, ""},
		"DoneAfterRestart":     {"its result is uploaded", pod(corev1.RestartPolicyOnFailure, ended(0, "Completed"), 2), "nmap", true, ""},
		"FailedForGood":        {"a failed scanner is not one that has finished", pod(corev1.RestartPolicyNever, ended(2, "Error"), 0), "nmap", true, "exit code 2"},
		"OutOfMemory":          {"the reason is in the error", pod(corev1.RestartPolicyNever, ended(137, "OOMKilled"), 0), "nmap", true, "OOMKilled"},
		"FailedToBeRestarted":  {"between two attempts nothing has ended", pod(corev1.RestartPolicyOnFailure, ended(1, "Error"), 0), "nmap", false, ""},
		"WaitingToBeRestarted": {"between two attempts nothing has ended", pod(corev1.RestartPolicyOnFailure, crashed, 1), "nmap", false, ""},
		"OwnRestartPolicy":     {"a container may have a policy of its own", own, "nmap", true, "exit code 1"},
		"NoSuchContainer":      {"a typing error does not wait for ever", pod(corev1.RestartPolicyNever, running, 0), "nmpa", true, `no container "nmpa"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := stateOf(tc.pod, tc.container)
			if v.ended != tc.ended || (v.err == nil) != (tc.err == "") || v.err != nil && !strings.Contains(v.err.Error(), tc.err) {
				t.Errorf("%s: ended %t, error %v; want %t, %q", tc.reason, v.ended, v.err, tc.ended, tc.err)
			}
		})
	}
}
