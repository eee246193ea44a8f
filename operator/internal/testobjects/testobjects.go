// SPDX-License-Identifier: Apache-2.0

// Package testobjects makes objects for tests. They are valid by default.
package testobjects

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// Namespace is where generated objects live.
const Namespace = "team-a"

// Epoch is when generated objects were created.
var Epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Scan returns a Scan of type nmap that has its finalizer.
func Scan(name string, options ...func(*executionv1.Scan)) *executionv1.Scan {
	s := &executionv1.Scan{
		TypeMeta: metav1.TypeMeta{APIVersion: executionv1.SchemeGroupVersion.String(), Kind: "Scan"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: Namespace, UID: types.UID("uid-of-" + name), Generation: 1,
			CreationTimestamp: metav1.Time{Time: Epoch}, Finalizers: []string{executionv1.FinalizerStorage},
		},
		Spec: executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"-p", "22", "example.com"}},
	}
	for _, o := range options {
		o(s)
	}
	return s
}

// WithState sets the state, and what the status of a Scan in that state has.
func WithState(state executionv1.ScanState) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) {
		s.Status.State = state
		if state != executionv1.ScanStateNew {
			s.Status.RawResultType, s.Status.RawResultFile = "nmap-xml", "nmap-results.xml"
			s.Status.StartedAt = &metav1.Time{Time: Epoch}
		}
		if s.Settled() {
			s.Status.FinishedAt = &metav1.Time{Time: Epoch.Add(time.Minute)}
		}
	}
}

// WithHooks sets the hooks that a Scan has selected.
func WithHooks(groups ...[]executionv1.HookStatus) func(*executionv1.Scan) {
	return func(s *executionv1.Scan) { s.Status.OrderedHookStatuses = groups }
}

// Suspended suspends a Scan.
func Suspended(s *executionv1.Scan) { s.Spec.Suspend = new(true) }

// Deleted marks a Scan as being deleted, one minute after it was created.
func Deleted(s *executionv1.Scan) { s.DeletionTimestamp = &metav1.Time{Time: Epoch.Add(time.Minute)} }

// ClusterWide makes a Scan use the Cluster* kinds.
func ClusterWide(s *executionv1.Scan) { s.Spec.ResourceMode = ptr.To(executionv1.ClusterWide) }

// ScanTypeSpec returns the spec of a ScanType as the chart of nmap installs it.
func ScanTypeSpec(options ...func(*executionv1.ScanTypeSpec)) *executionv1.ScanTypeSpec {
	t := &executionv1.ScanTypeSpec{
		ExtractResults: executionv1.ExtractResults{Type: "nmap-xml", Location: "/home/securecodebox/nmap-results.xml"},
		JobTemplate: batchv1.Job{Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](3),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyOnFailure,
				Containers: []corev1.Container{{
					Name: "nmap", Image: "docker.io/securecodebox/scanner-nmap:7.99-r0",
					Command: []string{"nmap", "-oX", "/home/securecodebox/nmap-results.xml"},
				}},
			}},
		}},
	}
	for _, o := range options {
		o(t)
	}
	return t
}

// HookSpec returns the spec of a hook.
func HookSpec(kind executionv1.HookType, priority int) *executionv1.ScanCompletionHookSpec {
	return &executionv1.ScanCompletionHookSpec{Type: kind, Priority: priority, Image: "docker.io/scanyard/hook:dev"}
}
