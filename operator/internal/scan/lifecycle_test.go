// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// TestScanFromStartToDone follows one Scan step by step.
func TestScanFromStartToDone(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.hook("webhook", executionv1.ReadOnly, 0), w.scan("s"))

	scanner := w.job(executionv1.JobTypeScanner)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
	s := w.get("s")
	w.Expect(s.Finalizers).To(ConsistOf(executionv1.FinalizerStorage))
	w.Expect(s.Status.RawResultType).To(Equal("nmap-xml"))
	w.Expect(s.Status.RawResultFile).To(Equal("nmap-results.xml"))
	w.Expect(s.Status.FindingDownloadLink).To(ContainSubstring("X-Amz-Expires=604800"))
	w.Expect(s.Status.RawResultHeadLink).To(ContainSubstring("nmap-results.xml"))
	w.Expect(s.Status.StartedAt).NotTo(BeNil())

	w.finish(scanner, batchv1.JobComplete, "CompletionsReached")
	parser := w.job(executionv1.JobTypeParser)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateParsing))
	w.finish(parser, batchv1.JobComplete, "CompletionsReached")

	hook := w.job(executionv1.JobTypeReadOnlyHook)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateHookProcessing))
	w.Expect(w.get("s").Status.OrderedHookStatuses).To(Equal([][]executionv1.HookStatus{{
		{HookName: "webhook", State: executionv1.HookStateInProgress, JobName: hook.Name, Type: executionv1.ReadOnly},
	}}))
	w.finish(hook, batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.Expect(w.get("s").Status.FinishedAt).NotTo(BeNil())
	w.Expect(w.exist(executionv1.ServiceAccountLurker)).To(Equal(3))
}

// TestDefect49PodsRunAsAnAccountOfTheirScan, which goes with the Scan's end.
func TestDefect49PodsRunAsAnAccountOfTheirScan(t *testing.T) {
	w := newWorld(t)
	own := w.hook("own", executionv1.ReadAndWrite, 1)
	own.Spec.ServiceAccountName = new("sender")
	w.Create(w.scanType(), w.parseDefinition(), own, w.hook("webhook", executionv1.ReadOnly, 0), w.scan("s"))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	parser := w.job(executionv1.JobTypeParser)
	key := client.ObjectKey{Namespace: w.Namespace, Name: parser.Spec.Template.Spec.ServiceAccountName}
	var account corev1.ServiceAccount
	w.Expect(w.Client.Get(t.Context(), key, &account)).To(Succeed())
	w.Expect(account.OwnerReferences[0].UID).To(Equal(w.get("s").UID))

	w.finish(parser, batchv1.JobComplete, "CompletionsReached")
	sender := w.job(executionv1.JobTypeReadAndWriteHook)
	w.Expect(sender.Spec.Template.Spec.ServiceAccountName).To(Equal("sender"), "a hook keeps the account that it brings")
	w.finish(sender, batchv1.JobComplete, "CompletionsReached")
	hook := w.job(executionv1.JobTypeReadOnlyHook)
	w.Expect(hook.Spec.Template.Spec.ServiceAccountName).To(Equal(key.Name))
	w.Expect(w.Client.Get(t.Context(), key, &account)).To(Succeed(), "hooks still need it")
	w.finish(hook, batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.Expect(w.Client.Get(t.Context(), key, &account)).To(Satisfy(apierrors.IsNotFound))
	w.Expect(w.exist(executionv1.ServiceAccountParser) + w.exist(executionv1.ServiceAccountHook)).To(BeZero())
}

// exist counts the ServiceAccount, Role and RoleBinding of one name.
func (w *world) exist(name string) int {
	found := 0
	for _, o := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		err := w.Client.Get(w.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, o)
		if err == nil {
			found++
		}
		w.Expect(client.IgnoreNotFound(err)).To(Succeed())
	}
	return found
}

// TestScanSurvivesEveryFault fails each write of a Scan's life in turn, once before
// and once after it has had its effect. Every time the Scan ends Done with one Job for
// each phase.
func TestScanSurvivesEveryFault(t *testing.T) {
	live := func(t *testing.T, at int, after bool) (calls int) {
		w := newWorld(t)
		w.faults.at, w.faults.after = at, after
		w.completeAll()
		w.Create(w.scanType(), w.parseDefinition(), w.hook("writer", executionv1.ReadAndWrite, 0), w.hook("reader", executionv1.ReadOnly, 0), w.scan("s"))
		w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
		for _, kind := range []string{executionv1.JobTypeScanner, executionv1.JobTypeParser, executionv1.JobTypeReadAndWriteHook, executionv1.JobTypeReadOnlyHook} {
			w.Expect(w.jobs(kind)).To(HaveLen(1), kind)
		}
		w.Expect(w.Client.Delete(t.Context(), w.get("s"))).To(Succeed())
		w.Eventually(w.gone("s")).Should(BeTrue())
		return w.faults.count()
	}
	var writes int
	if !t.Run("None", func(t *testing.T) { writes = live(t, 0, false) }) {
		return
	}
	if writes < 20 {
		t.Fatalf("only %d calls were counted; does the test still see them?", writes)
	}
	for at := 1; at <= writes; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%02d/after=%t", at, after), func(t *testing.T) {
				t.Parallel()
				live(t, at, after)
			})
		}
	}
}

// TestClusterWideScan uses the Cluster* kinds only, and leaves what images need.
func TestClusterWideScan(t *testing.T) {
	w := newWorld(t)
	clusterHook := &executionv1.ClusterScanCompletionHook{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-" + w.Namespace, Labels: map[string]string{"of": w.Namespace}},
		Spec:       executionv1.ClusterScanCompletionHookSpec{ScanCompletionHookSpec: *testobjects.HookSpec(executionv1.ReadOnly, 0)},
	}
	kind := w.clusterKinds(clusterHook)
	w.Create(w.hook("namespaced", executionv1.ReadOnly, 0))
	w.completeAll()
	w.Create(w.scan("s", testobjects.ClusterWide, func(s *executionv1.Scan) {
		s.Spec.ScanType = kind
		s.Spec.HookSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": w.Namespace}}
	}))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.Expect(w.jobs(executionv1.JobTypeReadOnlyHook)).To(HaveLen(1), "the namespaced hook must not run")

	var mirror executionv1.ParseDefinition
	w.Expect(w.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: kind + "-xml"}, &mirror)).To(Succeed())
	w.Expect(mirror.Spec.ContentType).To(Equal(executionv1.ContentTypeBinary))
	w.Expect(mirror.OwnerReferences).To(HaveLen(1))
	w.Expect(mirror.OwnerReferences[0].UID).To(Equal(w.get("s").UID))

	// A second Scan shares the mirror; a namespaceLocal one does not see it.
	w.Create(w.scan("second", testobjects.ClusterWide, func(s *executionv1.Scan) {
		s.Spec.ScanType = kind
		s.Spec.HookSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"of": "none"}}
	}))
	w.Eventually(w.state("second")).Should(Equal(executionv1.ScanStateDone))
	w.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(&mirror), &mirror)).To(Succeed())
	w.Expect(mirror.OwnerReferences).To(HaveLen(2))

	w.Create(w.scanType(func(s *executionv1.ScanTypeSpec) { s.ExtractResults.Type = kind + "-xml" }), w.scan("local"))
	w.Eventually(w.ready("local")).Should(Equal(executionv1.ReasonParseDefinitionNotFound))
}

// TestExecutionNamespace runs a cluster hook away from the Scan's namespace.
func TestExecutionNamespace(t *testing.T) {
	away := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "hooks-"}}
	if err := cluster.Client.Create(t.Context(), away); err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, []string{away.Name})
	label := map[string]string{"of": w.Namespace}
	h := &executionv1.ClusterScanCompletionHook{
		ObjectMeta: metav1.ObjectMeta{Name: "away-" + w.Namespace, Labels: label},
		Spec:       executionv1.ClusterScanCompletionHookSpec{ScanCompletionHookSpec: *testobjects.HookSpec(executionv1.ReadOnly, 0), ExecutionNamespace: away.Name},
	}
	kind := w.clusterKinds(h)
	w.completeAll()
	w.Create(w.scan("s", testobjects.ClusterWide, func(s *executionv1.Scan) {
		s.Spec.ScanType, s.Spec.HookSelector = kind, &metav1.LabelSelector{MatchLabels: label}
	}))

	var job batchv1.Job
	w.Eventually(func(g Gomega) {
		var list batchv1.JobList
		g.Expect(w.Client.List(t.Context(), &list, client.InNamespace(away.Name))).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1))
		job = list.Items[0]
	}).Should(Succeed())
	scan := w.get("s")
	w.Expect(job.OwnerReferences).To(BeEmpty())
	w.Expect(job.Labels).To(HaveKeyWithValue(executionv1.LabelScanUID, string(scan.UID)))
	w.Expect(job.Spec.Template.Spec.Containers[0].Env).To(ContainElement(corev1.EnvVar{Name: "NAMESPACE", Value: w.Namespace}))

	account := types.NamespacedName{Namespace: away.Name, Name: job.Spec.Template.Spec.ServiceAccountName}
	w.Expect(w.Client.Get(t.Context(), account, &corev1.ServiceAccount{})).To(Succeed())
	var role rbacv1.Role
	w.Expect(w.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: account.Name}, &role)).To(Succeed())
	for _, rule := range role.Rules {
		w.Expect(rule.ResourceNames).NotTo(BeEmpty(), "the hook must reach this one Scan only")
	}
	var binding rbacv1.RoleBinding
	w.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(&role), &binding)).To(Succeed())
	w.Expect(binding.Subjects).To(ConsistOf(rbacv1.Subject{Kind: "ServiceAccount", Name: account.Name, Namespace: away.Name}))

	w.finish(&job, batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.Eventually(func() error {
		return w.Client.Get(t.Context(), client.ObjectKeyFromObject(&binding), &rbacv1.RoleBinding{})
	}).Should(Satisfy(apierrors.IsNotFound), "access ends with the Scan")

	// Nothing collects a Job in another namespace but the Scan's finalizer.
	w.Expect(w.Client.Delete(t.Context(), w.get("s"))).To(Succeed())
	w.Eventually(w.gone("s")).Should(BeTrue())
	w.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(&job), &job)).To(Or(Satisfy(apierrors.IsNotFound), Satisfy(func(error) bool { return job.DeletionTimestamp != nil })))
}

// TestForgedHookJobIsNotBelieved: a Job elsewhere that claims to be a hook of a Scan
// says nothing unless it runs where a cluster admin sends that hook.
func TestForgedHookJobIsNotBelieved(t *testing.T) {
	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "tenant-b-"}}
	if err := cluster.Client.Create(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, []string{elsewhere.Name})
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	scanner := w.job(executionv1.JobTypeScanner)
	forged := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "forged", Namespace: elsewhere.Name,
			Labels: map[string]string{
				executionv1.LabelJobType: executionv1.JobTypeReadOnlyHook, executionv1.LabelHookName: "webhook", executionv1.LabelScanUID: string(w.get("s").UID),
			},
			Annotations: map[string]string{executionv1.AnnotationScan: w.Namespace + "/s"},
		},
		Spec: scanner.Spec,
	}
	forged.Spec.Selector, forged.Spec.Template.Labels = nil, nil
	w.Expect(w.Client.Create(t.Context(), forged)).To(Succeed())
	w.finish(forged, batchv1.JobComplete, "CompletionsReached")
	w.finish(scanner, batchv1.JobComplete, "CompletionsReached")
	w.job(executionv1.JobTypeParser)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateParsing))
}

// TestHooksAfterAFailure: a hook for failed Scans runs for a Scan that is
// Errored, the Scan stays as it ended, and a hook that failed is run again on demand.
func TestHooksAfterAFailure(t *testing.T) {
	w := newWorld(t)
	caller := w.hook("caller", executionv1.ReadOnly, 0)
	caller.Spec.RunOn = executionv1.RunOnFailure
	w.Create(w.scanType(), w.parseDefinition(), w.hook("webhook", executionv1.ReadOnly, 0), caller, w.scan("s"))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeParser), batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeReadOnlyHook), batchv1.JobFailed, "BackoffLimitExceeded")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))

	hookJobs := func(name string) func() []batchv1.Job {
		return func() (own []batchv1.Job) {
			for _, j := range w.jobs(executionv1.JobTypeReadOnlyHook) {
				if j.Labels[executionv1.LabelHookName] == name {
					own = append(own, j)
				}
			}
			return own
		}
	}
	w.Eventually(hookJobs("caller")).Should(HaveLen(1))
	w.finish(&hookJobs("caller")()[0], batchv1.JobComplete, "CompletionsReached")
	w.Eventually(func() executionv1.HookState { return w.get("s").Status.OrderedHookStatuses[1][0].State }).Should(Equal(executionv1.HookStateCompleted))
	s := w.get("s")
	w.Expect(s.Status.State).To(Equal(executionv1.ScanStateErrored))
	w.Expect(s.Status.ErrorDescription).To(ContainSubstring(`Hook "webhook" failed`))

	patch := client.MergeFrom(s.DeepCopy())
	s.Annotations = map[string]string{executionv1.AnnotationRerun: "hooks"}
	w.Expect(w.Client.Patch(t.Context(), s, patch)).To(Succeed())
	w.Eventually(hookJobs("webhook")).Should(HaveLen(2))
	for _, j := range hookJobs("webhook")() {
		if j.Labels[executionv1.LabelAttempt] == "2" {
			w.finish(&j, batchv1.JobComplete, "CompletionsReached")
		}
	}
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	s = w.get("s")
	w.Expect(s.Status.ErrorDescription).To(BeEmpty())
	w.Expect(s.Status.LastRerun).To(Equal("hooks"))
	w.Expect(hookJobs("caller")()).To(HaveLen(1), "nothing has failed this time")
}

// TestHooksLearnOfTheRunBefore: a run of a ScheduledScan gives its hooks the findings of
// the run before it, the first run gives none.
func TestHooksLearnOfTheRunBefore(t *testing.T) {
	w := newWorld(t)
	schedule := &executionv1.ScheduledScan{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly", Namespace: w.Namespace},
		Spec:       executionv1.ScheduledScanSpec{Interval: "1h", ScanSpec: &executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{}}},
	}
	w.Create(w.scanType(), w.parseDefinition(), w.hook("webhook", executionv1.ReadOnly, 0), schedule)
	w.completeAll()
	run := func(name string) []corev1.EnvVar {
		w.Create(w.scan(name, func(s *executionv1.Scan) {
			s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(schedule, executionv1.SchemeGroupVersion.WithKind("ScheduledScan"))}
		}))
		w.Eventually(w.state(name)).Should(Equal(executionv1.ScanStateDone))
		for _, j := range w.jobs(executionv1.JobTypeReadOnlyHook) {
			if metav1.GetControllerOf(&j).Name == name {
				return j.Spec.Template.Spec.Containers[0].Env
			}
		}
		t.Fatalf("Scan %s has no hook Job", name)
		return nil
	}
	first := run("first")
	w.Expect(first).To(ContainElement(corev1.EnvVar{Name: "HOOK_NAME", Value: "webhook"}))
	w.Expect(first).NotTo(ContainElement(HaveField("Name", "PREVIOUS_FINDINGS_URL")))
	uid := string(w.get("first").UID)
	// Creation times have no fractions of a second.
	w.Eventually(func() bool { return time.Since(w.get("first").CreationTimestamp.Time) > time.Second }).Should(BeTrue())
	w.Expect(run("second")).To(ContainElement(And(HaveField("Name", "PREVIOUS_FINDINGS_URL"), HaveField("Value", ContainSubstring(uid)))))
}

// TestHooksWriteBesideTheResults: a hook gets URLs for the objects that its spec names, and what it writes there goes with
// the Scan.
func TestHooksWriteBesideTheResults(t *testing.T) {
	w := newWorld(t)
	report := w.hook("report", executionv1.ReadOnly, 0)
	report.Spec.Outputs = []string{"report.html"}
	w.Create(w.scanType(), w.parseDefinition(), report, w.scan("s"))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeParser), batchv1.JobComplete, "CompletionsReached")
	job := w.job(executionv1.JobTypeReadOnlyHook)
	urls := map[string]string{}
	for _, e := range job.Spec.Template.Spec.Containers[0].Env {
		if e.Name == "OUTPUT_URLS" {
			w.Expect(json.Unmarshal([]byte(e.Value), &urls)).To(Succeed())
		}
	}
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, urls["report.html"], strings.NewReader("<html></html>"))
	w.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(put)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(response.Body.Close()).To(Succeed())
	w.Expect(response.StatusCode).To(Equal(http.StatusOK))
	w.finish(job, batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	s := w.get("s")
	w.Expect(w.stored(s, "report.html")).To(BeTrue())
	w.Expect(w.Client.Delete(t.Context(), s)).To(Succeed())
	w.Eventually(w.gone("s")).Should(BeTrue())
	w.Expect(w.stored(s, "report.html")).To(BeFalse())
}
