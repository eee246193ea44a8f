// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/apis/outcome"
)

// lastWords plays the kubelet: a pod of a Job that has ended well with these last words.
func (w *world) terminationMessage(j *batchv1.Job, words string) {
	w.Helper()
	// Nothing makes the accounts of namespaces here.
	err := w.Client.Create(w.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: "default"}})
	w.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	template := j.Spec.Template
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: j.Name + "-", Namespace: j.Namespace, Labels: template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	w.Expect(w.Client.Create(w.Context(), pod)).To(Succeed())
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: template.Spec.Containers[0].Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: words, FinishedAt: metav1.Now()}},
	}}
	w.Expect(w.Client.Status().Update(w.Context(), pod)).To(Succeed())
}

// handed is the Scan that a Job hands to its container.
func (w *world) handed(j *batchv1.Job) *executionv1.Scan {
	w.Helper()
	env := map[string]string{}
	for _, v := range j.Spec.Template.Spec.Containers[0].Env {
		env[v.Name] = v.Value
	}
	s := &executionv1.Scan{}
	w.Expect(json.Unmarshal(handover.Join(func(name string) string { return env[name] }), s)).To(Succeed())
	return s
}

func (w *world) accounts() []string {
	w.Helper()
	var list corev1.ServiceAccountList
	w.Expect(w.Client.List(w.Context(), &list, client.InNamespace(w.Namespace))).To(Succeed())
	var found []string
	for i := range list.Items {
		if n := list.Items[i].Name; n != "default" && n != executionv1.ServiceAccountLurker {
			found = append(found, n)
		}
	}
	return found
}

func words(t *testing.T, o *outcome.Outcome) string {
	t.Helper()
	text, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestHandover follows a Scan whose parser and hooks need no right: no account is made for it, what they have done is read
// from their pods, and each finds in its input what earlier ones have reported.
func TestHandover(t *testing.T) {
	w := newWorld(t)
	definition, editor, reader := w.parseDefinition(), w.hook("editor", executionv1.ReadAndWrite, 1), w.hook("reader", executionv1.ReadOnly, 0)
	for _, how := range []*executionv1.ScanAccess{&definition.Spec.ScanAccess, &editor.Spec.ScanAccess, &reader.Spec.ScanAccess} {
		*how = executionv1.ScanAccessHandover
	}
	w.Create(w.scanType(), definition, editor, reader, w.scan("s", func(s *executionv1.Scan) {
		s.Spec.Parameters = []string{"$(HOME)"}
	}))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")

	parser := w.job(executionv1.JobTypeParser)
	pod := parser.Spec.Template.Spec
	w.Expect(pod.ServiceAccountName).To(BeEmpty())
	w.Expect(pod.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
	w.Expect(w.handed(parser)).To(And(
		HaveField("Name", "s"), HaveField("Kind", "Scan"), HaveField("Status.RawResultType", "nmap-xml"),
		HaveField("Spec.Parameters", Equal([]string{"$(HOME)"})),
	))
	// The Job's end may be seen before the last words.
	w.finish(parser, batchv1.JobComplete, "CompletionsReached")
	w.terminationMessage(parser, words(t, &outcome.Outcome{
		Findings: &outcome.Findings{
			Count: 3, Severities: outcome.Severities{High: 3}, Categories: map[string]int64{"Open Port": 3}, Stored: outcome.StoredBytes([]byte("[1,2,3]")),
		},
		Reached: &outcome.Reached{Status: outcome.False, Message: "0 of 1 hosts answered"},
	}))

	edit := w.job(executionv1.JobTypeReadAndWriteHook)
	w.Expect(w.handed(edit).Status).To(And(
		HaveField("Findings.Count", HaveValue(BeEquivalentTo(3))), HaveField("FindingDownloadLink", Not(BeEmpty())),
		HaveField("StoredFindings", HaveValue(Equal(executionv1.StoredObject(outcome.StoredBytes([]byte("[1,2,3]")))))),
	))
	w.Eventually(func() []metav1.Condition { return w.get("s").Status.Conditions }).Should(ContainElement(And(
		HaveField("Type", executionv1.ConditionTargetReached), HaveField("Status", metav1.ConditionFalse),
		HaveField("Reason", executionv1.ReasonNothingReached), HaveField("Message", "0 of 1 hosts answered"),
	)))
	// Many categories are stored beside the findings.
	o := &outcome.Outcome{Findings: &outcome.Findings{
		Count: 2, Severities: outcome.Severities{Low: 2}, Categories: map[string]int64{"a": 1, "b": 1}, Stored: outcome.StoredBytes([]byte("[1,2]")),
	}}
	spilt, err := o.Spill()
	w.Expect(err).NotTo(HaveOccurred())
	w.put(w.get("s"), outcome.CategoriesFile, string(spilt))
	w.terminationMessage(edit, words(t, o))
	w.finish(edit, batchv1.JobComplete, "CompletionsReached")

	read := w.job(executionv1.JobTypeReadOnlyHook)
	w.Expect(w.handed(read).Status.Findings.FindingCategories).To(Equal(map[string]int64{"a": 1, "b": 1}))
	w.terminationMessage(read, words(t, &outcome.Outcome{}))
	w.finish(read, batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	status := w.get("s").Status
	w.Expect(status.Findings.Count).To(HaveValue(BeEquivalentTo(2)))
	w.Expect(status.Findings.FindingSeverities).To(Equal(executionv1.FindingSeverities{Low: ptr.To[int64](2)}))
	w.Expect(status.StoredFindings).To(HaveValue(Equal(executionv1.StoredObject(outcome.StoredBytes([]byte("[1,2]"))))))
	w.Expect(w.accounts()).To(BeEmpty())
}

// TestHandoverOfDeletedPods asks the API once, and then reports the state as unknown.
func TestHandoverOfDeletedPods(t *testing.T) {
	w := newWorld(t)
	definition := w.parseDefinition()
	definition.Spec.ScanAccess = executionv1.ScanAccessHandover
	w.Create(w.scanType(), definition, w.scan("s"))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeParser), batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	status := w.get("s").Status
	w.Expect(status.Findings.Count).To(BeNil())
	w.Expect(status.Conditions).To(ContainElement(And(HaveField("Type", executionv1.ConditionParsed), HaveField("Message", ContainSubstring("not known")))))
}

// TestHandoverToImageWithoutOutcome is one of others, in a chart that says it were ours.
func TestHandoverToImageWithoutOutcome(t *testing.T) {
	w := newWorld(t)
	definition := w.parseDefinition()
	definition.Spec.ScanAccess = executionv1.ScanAccessHandover
	w.Create(w.scanType(), definition, w.scan("s"))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	parser := w.job(executionv1.JobTypeParser)
	w.terminationMessage(parser, "all is well")
	w.finish(parser, batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	w.Expect(w.get("s").Status.ErrorDescription).To(ContainSubstring("take scanAccess: Handover out of ParseDefinition"))
}
