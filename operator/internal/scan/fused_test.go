// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/outcome"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
)

// fused makes a Scan whose parser may run in the scanner's pod, and returns the scanner's Job.
func (w *world) fused(further ...client.Object) *batchv1.Job {
	w.Helper()
	definition := w.parseDefinition()
	definition.Spec.ScanAccess, definition.Spec.Phases = executionv1.ScanAccessHandover, executionv1.PhasesFused
	w.Create(append(further, w.scanType(), definition, w.scan("s"))...)
	return w.job(executionv1.JobTypeScanner)
}

// pod plays the kubelet: a pod of a Job with containers in these states, in the order of the Job's.
func (w *world) pod(j *batchv1.Job, phase corev1.PodPhase, states ...corev1.ContainerState) {
	w.Helper()
	err := w.Client.Create(w.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: executionv1.ServiceAccountLurker}})
	w.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: j.Name, Namespace: j.Namespace, Labels: j.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: *j.Spec.Template.Spec.DeepCopy(),
	}
	if w.Client.Create(w.Context(), pod) != nil {
		w.Expect(w.Client.Get(w.Context(), client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	}
	pod.Status.Phase, pod.Status.ContainerStatuses = phase, nil
	for i, s := range states {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: pod.Spec.Containers[i].Name, State: s})
	}
	w.Expect(w.Client.Status().Update(w.Context(), pod)).To(Succeed())
}

func ended(words string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: words, FinishedAt: metav1.NewTime(time.Now().Add(-life.QuickParser))}}
}

var runs = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

// TestFused follows a Scan whose scanner and parser run in one pod: it passes the states of every Scan with one Job less.
func TestFused(t *testing.T) {
	w := newWorld(t)
	j := w.fused(w.hook("reader", executionv1.ReadOnly, 0))
	w.Expect(j.Annotations).To(HaveKeyWithValue(executionv1.AnnotationPhases, string(executionv1.PhasesFused)))
	w.Expect(j.Annotations).To(HaveKeyWithValue(executionv1.AnnotationHooks, "reader"))
	w.pod(j, corev1.PodRunning, runs, runs, runs)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
	w.pod(j, corev1.PodRunning, ended(""), runs, runs)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateParsing))
	w.Expect(w.condition("s", executionv1.ConditionScanned)()).To(Equal("True/" + executionv1.ReasonCompleted))

	w.pod(j, corev1.PodSucceeded, ended(""), ended(words(t, &outcome.Outcome{Findings: &outcome.Findings{
		Count: 3, Severities: outcome.Severities{High: 3}, Categories: map[string]int64{"Open Port": 3}, Stored: outcome.StoredBytes([]byte("[1,2,3]")),
	}})), ended(""))
	w.finish(j, batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeReadOnlyHook), batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	s := w.get("s")
	w.Expect(s.Status.Findings.Count).To(HaveValue(BeEquivalentTo(3)))
	w.Expect(s.Status.StoredFindings).To(HaveValue(Equal(executionv1.StoredObject(outcome.StoredBytes([]byte("[1,2,3]"))))))
	w.Expect(w.jobs(executionv1.JobTypeParser)).To(BeEmpty())
	w.Expect(w.accounts()).To(BeEmpty())

	w.put(s, s.Status.RawResultFile, "raw")
	w.ask("s", "parser") // over the stored raw result, in a pod of its own
	w.Expect(w.job(executionv1.JobTypeParser).Labels).To(HaveKeyWithValue(executionv1.LabelAttempt, "2"))
}

// TestFusedParserThatFails: whatever becomes of a parser in the scanner's pod, the parser gets a Job if the raw result is stored.
func TestFusedParserThatFails(t *testing.T) {
	for name, end := range map[string]func(w *world, j *batchv1.Job){
		"ToldNothing": func(w *world, j *batchv1.Job) {
			w.pod(j, corev1.PodSucceeded, ended(""), ended(""), ended(""))
			w.finish(j, batchv1.JobComplete, "CompletionsReached")
		},
		"PodGone": func(w *world, j *batchv1.Job) { w.finish(j, batchv1.JobComplete, "CompletionsReached") },
		"Killed": func(w *world, j *batchv1.Job) {
			w.put(w.get("s"), "nmap-results.xml", "raw")
			w.finish(j, batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			end(w, w.fused())
			parser := w.job(executionv1.JobTypeParser)
			w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateParsing))
			w.finish(parser, batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
			w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
			w.Expect(w.get("s").Status.ErrorDescription).To(HavePrefix("The parser failed (Job " + parser.Name))
			w.Expect(w.jobs(executionv1.JobTypeScanner)).To(HaveLen(1))
		})
	}
}

// TestFusedScannerThatFails stores no raw result: the scanner has failed, and nothing is parsed.
func TestFusedScannerThatFails(t *testing.T) {
	w := newWorld(t)
	w.finish(w.fused(), batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	w.Expect(w.get("s").Status.ErrorDescription).To(HavePrefix("The scanner failed"))
	w.Expect(w.jobs(executionv1.JobTypeParser)).To(BeEmpty())
}

// TestSeparateBySettings: settings keep the phases apart, and patches for one of them do.
func TestSeparateBySettings(t *testing.T) {
	for name, spec := range map[string]ownSpec{
		"Asked": {Jobs: &settingsv1alpha2.Jobs{Phases: executionv1.PhasesSeparate}},
		"PatchOfParsers": {JobPatches: []settingsv1alpha2.JobPatch{{
			Target: &settingsv1alpha2.PatchTarget{Phases: []settingsv1alpha2.Phase{settingsv1alpha2.PhaseParser}},
			Patch:  "spec: {activeDeadlineSeconds: 60}",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settings(spec)
			w.finish(w.fused(), batchv1.JobComplete, "CompletionsReached")
			w.Expect(w.job(executionv1.JobTypeParser).Name).To(HavePrefix("parse-"))
		})
	}
}
