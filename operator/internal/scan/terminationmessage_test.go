// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/exitcode"
)

// failTry plays kubelet and the Job controller: another pod of the Job has failed.
func (w *world) failTry(j *batchv1.Job, code int32, words string) {
	w.Helper()
	before := j.DeepCopy()
	j.Status.Failed++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-try-%d", j.Name, j.Status.Failed), Labels: j.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: j.Spec.Template.Spec,
	}
	w.Create(pod)
	old, c := pod.DeepCopy(), pod.Spec.Containers[0]
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: c.Name, Image: c.Image, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: words}},
	}}
	w.Expect(w.Client.Status().Patch(w.Context(), pod, client.MergeFrom(old))).To(Succeed())
	now := metav1.Now()
	if j.Status.StartTime == nil {
		j.Status.StartTime = &now
	}
	j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	w.Expect(w.Client.Status().Patch(w.Context(), j, client.MergeFrom(before))).To(Succeed())
}

// TestRetryIsExplained: while a parser and a hook are retried, the Scan shows the termination message of the failed
// try, without its secrets.
func TestRetryIsExplained(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.hook("crm", executionv1.ReadOnly, 0), w.scan("s"))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	message := func() string { return w.message("s", executionv1.ConditionReady) }
	parser := w.job(executionv1.JobTypeParser)
	w.failTry(parser, 1, "the store answers 503: https://s3/b/raw?X-Amz-Signature=secret")
	w.Eventually(message).Should(And(ContainSubstring("Tries that failed: 1"), ContainSubstring("exited with code 1: the store answers 503"), Not(ContainSubstring("secret"))))
	w.finish(parser, batchv1.JobComplete, "CompletionsReached")

	hook := w.job(executionv1.JobTypeReadOnlyHook)
	w.failTry(hook, 1, "the webhook at crm cannot be reached: connection refused")
	w.Eventually(message).Should(ContainSubstring(`Hook "crm": Tries that failed: 1 (the last one: container "hook" exited with code 1: the webhook at crm cannot be reached: connection refused)`))
}

// TestFinalFailureIsReportedInItsWords: the Job controller has ended the Job after the first try, and the reason is what
// the container said.
func TestFinalFailureIsReportedInItsWords(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	parser := w.job(executionv1.JobTypeParser)
	w.Expect(parser.Spec.PodFailurePolicy.Rules[0].OnExitCodes.Values).To(Equal(exitcode.Final()))
	w.failTry(parser, exitcode.InvalidInput, "parse nmap-xml: line 3: unexpected end of file")
	w.finish(parser, batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	w.Expect(w.get("s").Status.ErrorDescription).To(Equal(fmt.Sprintf(
		`The parser failed (Job %s): container "parser" exited with code 65: parse nmap-xml: line 3: unexpected end of file`, parser.Name)))
}
