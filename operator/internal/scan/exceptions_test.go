// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/apis/outcome"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
)

// exceptionsURL is where a Job's pod reads exceptions.
func exceptionsURL(j *batchv1.Job) string {
	for _, v := range j.Spec.Template.Spec.Containers[0].Env {
		if v.Name == handover.EnvExceptionsURL {
			return v.Value
		}
	}
	return ""
}

// TestExceptionsAreHandedOver: pods get those that hold when they are made, of the namespace and of the cluster, and need no
// right for it; the status says how many findings are open.
func TestExceptionsAreHandedOver(t *testing.T) {
	w := newWorld(t)
	definition, reader := w.parseDefinition(), w.hook("reader", executionv1.ReadOnly, 0)
	definition.Spec.ScanAccess, reader.Spec.ScanAccess = executionv1.ScanAccessHandover, executionv1.ScanAccessHandover
	w.Create(w.scanType(), definition, reader, w.scan("s"))
	own := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	own.Spec.Status, own.Spec.Reason = settingsv1alpha2.ExceptionFalsePositive, "The scanner is wrong"
	own.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Names: []string{"a"}}}
	cluster := &settingsv1alpha2.ClusterFindingException{ObjectMeta: metav1.ObjectMeta{GenerateName: "handed-"}}
	cluster.Spec.ExceptionSpec = *own.Spec.ExceptionSpec.DeepCopy()
	cluster.Spec.Match.AnyOf[0].Names[0] = "b"
	cluster.Spec.Scope = &settingsv1alpha2.ClusterExceptionScope{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.Namespace},
	}}
	w.Create(own)
	w.Expect(w.Client.Create(w.Context(), cluster)).To(Succeed())
	t.Cleanup(func() { w.Expect(w.Client.Delete(context.WithoutCancel(t.Context()), cluster)).To(Succeed()) })
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	parser := w.job(executionv1.JobTypeParser)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, exceptionsURL(parser), http.NoBody)
	w.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	w.Expect(err).NotTo(HaveOccurred())
	text, err := io.ReadAll(response.Body)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(response.Body.Close()).To(Succeed())
	taken, err := exception.TakeOver(text)
	w.Expect(err).NotTo(HaveOccurred())
	decoder := finding.NewDecoder(0)
	for element, want := range map[string]string{`{"name":"a"}`: "own", `{"name":"b"}`: cluster.Name, `{"name":"c"}`: ""} {
		mark, _, err := taken.MatchRaw(decoder, []byte(element))
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(mark.Name).To(Equal(want), element)
	}
	w.terminationMessage(parser, words(t, &outcome.Outcome{
		Findings: &outcome.Findings{
			Count: 2, Severities: outcome.Severities{High: 1, Low: 1}, Stored: outcome.StoredBytes([]byte("[1,2]")),
			Open: &outcome.Severities{Low: 1}, Excepted: 1, Exceptions: []outcome.ExceptionCount{{Name: cluster.Name, Cluster: true, Count: 1}},
		},
		Conditions: []outcome.Condition{{Type: executionv1.ConditionExceptionsApplied, Status: outcome.True, Reason: executionv1.ReasonExceptionsApplied}},
	}))
	w.finish(parser, batchv1.JobComplete, "CompletionsReached")
	hook := w.job(executionv1.JobTypeReadOnlyHook)
	w.Expect(exceptionsURL(hook)).NotTo(BeEmpty())
	w.Expect(w.handed(hook).Status.Findings.Excepted).To(HaveValue(BeEquivalentTo(1)))
	w.Eventually(func() executionv1.FindingStats { return w.get("s").Status.Findings }).Should(And(
		HaveField("Count", HaveValue(BeEquivalentTo(2))), HaveField("Excepted", HaveValue(BeEquivalentTo(1))),
		HaveField("Open", Equal(&executionv1.FindingSeverities{Low: new(int64(1))})),
		HaveField("Exceptions", Equal([]executionv1.ExceptionCount{{Name: cluster.Name, Kind: "ClusterFindingException", Count: 1}})),
	))
	w.Eventually(func() []metav1.Condition { return w.get("s").Status.Conditions }).Should(ContainElement(And(
		HaveField("Type", executionv1.ConditionExceptionsApplied), HaveField("Status", metav1.ConditionTrue),
	)))
}
