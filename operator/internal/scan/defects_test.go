// SPDX-License-Identifier: Apache-2.0

package scan_test

// Defects of secureCodeBox's operator, as they are numbered in docs/defects.md: each
// is a case that this operator gets right.

import (
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/scan"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// failing makes calls of the Reconciler fail whose description starts with a text.
func (w *world) failing(prefix string, at int) {
	w.faults.mu.Lock()
	defer w.faults.mu.Unlock()
	w.faults.match = func(call string) bool { return strings.HasPrefix(call, prefix) }
	w.faults.at = at
}

func TestDefect02OneSlowScanHoldsNoOtherUp(t *testing.T) {
	w := newWorld(t)
	block := make(chan struct{})
	t.Cleanup(func() { close(block) })
	w.faults.match = func(call string) bool {
		if call == "presign upload" && w.blocked.CompareAndSwap(false, true) {
			<-block // storage that does not respond to one worker
		}
		return false
	}
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.scan("slow"))
	w.Eventually(w.blocked.Load).Should(BeTrue())
	w.Create(w.scan("quick"))
	w.Eventually(w.state("quick")).Should(Equal(executionv1.ScanStateDone))
	w.Expect(w.state("slow")()).To(Equal(executionv1.ScanStateNew))
}

func TestDefect03ConflictAfterTheJobIsTriedAgain(t *testing.T) {
	for _, at := range []int{1, 2} { // the writes of Scanning and of Parsing
		w := newWorld(t)
		w.failing("patch status", at)
		w.completeAll()
		w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
		w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
		w.Expect(w.jobs("")).To(HaveLen(2))
	}
}

func TestDefect04PresignFailureIsTriedAgain(t *testing.T) {
	for _, call := range []string{"presign upload", "presign download"} {
		w := newWorld(t)
		w.failing(call, 1)
		w.completeAll()
		w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
		w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
		w.Expect(w.jobs("")).To(HaveLen(2))
	}
}

func TestStorageOutageIsReported(t *testing.T) {
	w := newWorld(t)
	w.faults.match = func(call string) bool { return call == "presign upload" }
	w.faults.err = &store.Error{Doing: "presign PUT", Err: errors.New("connection refused")}
	w.faults.always = true
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonStorageUnavailable))
	w.faults.mu.Lock()
	w.faults.always = false
	w.faults.mu.Unlock()
	w.job(executionv1.JobTypeScanner)
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonRunning))
}

func TestDefect05NoJobIsNotACompletedJob(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	scanner := w.job(executionv1.JobTypeScanner)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
	w.Expect(w.Client.Delete(t.Context(), scanner, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	w.Expect(w.ready("s")()).To(Equal(executionv1.ReasonJobLost))
	w.Expect(w.jobs(executionv1.JobTypeParser)).To(BeEmpty())
}

func TestDefect05JobGoneButResultStoredGoesOn(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	scanner := w.job(executionv1.JobTypeScanner)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
	w.put(w.get("s"), "nmap-results.xml", "<nmaprun/>")
	w.Expect(w.Client.Delete(t.Context(), scanner, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	w.job(executionv1.JobTypeParser)
}

func TestDefect06AnyFailureOfAJobCounts(t *testing.T) {
	for _, reason := range []string{"DeadlineExceeded", "PodFailurePolicy", "BackoffLimitExceeded", "MaxFailedIndexesExceeded"} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t)
			w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
			w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobFailed, reason)
			w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
			w.Expect(w.get("s").Status.ErrorDescription).To(ContainSubstring(reason))
		})
	}
}

func TestDefect07WaitsHaveAnEndAndAReason(t *testing.T) {
	w := newWorld(t, func(o *scan.Options) { o.Settings.StartDeadline = 4 * time.Second })
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	scanner := w.job(executionv1.JobTypeScanner)
	w.podOf(scanner, corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"})
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonImagePull))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	w.Expect(w.get("s").Status.ErrorDescription).To(And(ContainSubstring("did not start within its deadline"), ContainSubstring("scanner-nmap")))
	w.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(scanner), scanner)).To(Succeed())
	w.Expect(*scanner.Spec.Suspend).To(BeTrue(), "the overdue Job is stopped")
}

func TestDefect08SuspendedScanCanBeDeleted(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	scanner := w.job(executionv1.JobTypeScanner)
	s := w.get("s")
	w.Expect(w.Client.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`)))).To(Succeed())
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonSuspended))
	w.finish(scanner, batchv1.JobComplete, "CompletionsReached")
	w.Consistently(func() []batchv1.Job { return w.jobs(executionv1.JobTypeParser) }, "500ms").Should(BeEmpty())
	w.Expect(w.Client.Delete(t.Context(), s)).To(Succeed())
	w.Eventually(w.gone("s")).Should(BeTrue())
}

func TestDefect09EmptyParametersRun(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition())
	w.createRaw("s", map[string]any{"scanType": "nmap", "parameters": []any{}})
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
}

func TestDefect09ScanWithoutSpecSaysSo(t *testing.T) {
	w := newWorld(t)
	w.createRaw("s", nil)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	w.Expect(w.get("s").Status.ErrorDescription).To(ContainSubstring("spec.scanType"))
}

func TestDefect13TwoOperatorsMakeOneJob(t *testing.T) {
	w := newWorld(t)
	w.run(nil) // a second operator over the same namespace, without leader election
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.hook("a", executionv1.ReadOnly, 0))
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.Create(w.scan(name))
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.Eventually(w.state(name)).Should(Equal(executionv1.ScanStateDone))
	}
	w.Expect(w.jobs("")).To(HaveLen(3 * 5))
}

func TestDefect14AScanOfAnOldNameHasItsOwnJobs(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	old := w.job(executionv1.JobTypeScanner)
	w.finish(old, batchv1.JobFailed, "BackoffLimitExceeded")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	w.Expect(w.Client.Delete(t.Context(), w.get("s"))).To(Succeed())
	w.Eventually(w.gone("s")).Should(BeTrue())

	w.Create(w.scan("s")) // its predecessor's Job is still there: nothing collects it here
	w.Eventually(func() []batchv1.Job { return w.jobs(executionv1.JobTypeScanner) }).Should(HaveLen(2))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
}

func TestDefect15ALateScanTypeIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scan("s"))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonScanTypeNotFound))
	w.Expect(w.state("s")()).To(Equal(executionv1.ScanStateNew))
	w.Create(w.scanType())
	scanner := w.job(executionv1.JobTypeScanner)
	w.finish(scanner, batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonParseDefinitionNotFound))
	w.Expect(w.state("s")()).To(Equal(executionv1.ScanStateScanCompleted))
	w.Create(w.parseDefinition())
	w.job(executionv1.JobTypeParser)
}

func TestDefect15MissingKindSaysWhatToInstall(t *testing.T) {
	w := newWorld(t, func(o *scan.Options) { o.Settings.MissingKindGrace = time.Second })
	w.Create(w.scanType(), w.scan("s", func(s *executionv1.Scan) { s.Spec.ScanType = "nmpa" }))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	w.Expect(w.get("s").Status.ErrorDescription).To(And(
		ContainSubstring(`ScanType "nmpa" not found`), ContainSubstring("helm install"), ContainSubstring("installed: nmap")))
}

func TestDefect16AScanBeingDeletedStartsNothing(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s", func(s *executionv1.Scan) { s.Finalizers = []string{"example.com/keep"} }))
	scanner := w.job(executionv1.JobTypeScanner)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
	w.finish(scanner, batchv1.JobComplete, "CompletionsReached")
	w.job(executionv1.JobTypeParser)
	w.Expect(w.Client.Delete(t.Context(), w.get("s"))).To(Succeed())
	// The running parser is deleted first; without a garbage collector here, we let it go.
	parser := w.job(executionv1.JobTypeParser)
	w.Eventually(func() *metav1.Time {
		w.Expect(w.Client.Get(t.Context(), client.ObjectKeyFromObject(parser), parser)).To(Succeed())
		return parser.DeletionTimestamp
	}).ShouldNot(BeNil())
	w.Expect(w.Client.Patch(t.Context(), parser, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	w.Eventually(func() []string { return w.get("s").Finalizers }).Should(ConsistOf("example.com/keep"))
	w.Expect(w.jobs(executionv1.JobTypeParser)).To(BeEmpty())
	w.Expect(w.Client.Patch(t.Context(), w.get("s"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	w.Eventually(w.gone("s")).Should(BeTrue())
}

func TestDefect17And18FailedHookIsNamedAndTheOthersEnd(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.hook("a", executionv1.ReadOnly, 0), w.hook("b", executionv1.ReadOnly, 0), w.hook("later", executionv1.ReadOnly, -1), w.scan("s"))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeParser), batchv1.JobComplete, "CompletionsReached")
	w.Eventually(func() []batchv1.Job { return w.jobs(executionv1.JobTypeReadOnlyHook) }).Should(HaveLen(2))
	hooks := map[string]*batchv1.Job{}
	for _, j := range w.jobs(executionv1.JobTypeReadOnlyHook) {
		hooks[j.Labels[executionv1.LabelHookName]] = &j
	}
	w.finish(hooks["a"], batchv1.JobFailed, "BackoffLimitExceeded")
	w.Eventually(func() executionv1.HookState { return w.get("s").Status.OrderedHookStatuses[0][0].State }).Should(Equal(executionv1.HookStateFailed))
	w.Expect(w.state("s")()).To(Equal(executionv1.ScanStateHookProcessing), "b still runs")
	w.finish(hooks["b"], batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	s := w.get("s")
	w.Expect(s.Status.ErrorDescription).To(ContainSubstring(`Hook "a" failed`))
	w.Expect(s.Status.OrderedHookStatuses[0][1].State).To(Equal(executionv1.HookStateCompleted))
	w.Expect(s.Status.OrderedHookStatuses[1][0].State).To(Equal(executionv1.HookStateCancelled))
}

func TestDefect20HookTypeEditedWhileItRuns(t *testing.T) {
	w := newWorld(t)
	h := w.hook("a", executionv1.ReadOnly, 0)
	w.Create(w.scanType(), w.parseDefinition(), h, w.scan("s"))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeParser), batchv1.JobComplete, "CompletionsReached")
	job := w.job(executionv1.JobTypeReadOnlyHook)
	w.Expect(w.Client.Patch(t.Context(), h, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"type":"ReadAndWrite"}}`)))).To(Succeed())
	w.touch("s")
	w.Consistently(w.state("s"), "500ms").Should(Equal(executionv1.ScanStateHookProcessing))
	w.finish(job, batchv1.JobFailed, "BackoffLimitExceeded")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
}

func TestDefect21ParallelScannersEndTogether(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(func(s *executionv1.ScanTypeSpec) {
		s.JobTemplate.Spec.Completions, s.JobTemplate.Spec.Parallelism = ptr.To[int32](3), ptr.To[int32](3)
	}), w.parseDefinition(), w.scan("s"))
	scanner := w.job(executionv1.JobTypeScanner)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
	before := scanner.DeepCopy()
	now := metav1.Now()
	scanner.Status.StartTime, scanner.Status.Succeeded, scanner.Status.Active = &now, 1, 2
	w.Expect(w.Client.Status().Patch(t.Context(), scanner, client.MergeFrom(before))).To(Succeed())
	w.Consistently(w.state("s"), "500ms").Should(Equal(executionv1.ScanStateScanning))
	w.finish(scanner, batchv1.JobComplete, "CompletionsReached")
	w.job(executionv1.JobTypeParser)
}

func TestDefect23PodTemplateMetadataSurvives(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(func(s *executionv1.ScanTypeSpec) {
		s.JobTemplate.Spec.Template.Labels = map[string]string{"cost-centre": "42"}
		s.JobTemplate.Spec.Template.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
	}), w.parseDefinition(), w.scan("s"))
	pod := w.job(executionv1.JobTypeScanner).Spec.Template
	w.Expect(pod.Labels).To(HaveKeyWithValue("cost-centre", "42"))
	w.Expect(pod.Annotations).To(HaveKeyWithValue("karpenter.sh/do-not-disrupt", "true"))
}

func TestDefect24RejectedJobIsReported(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(func(s *executionv1.ScanTypeSpec) {
		s.JobTemplate.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "twice"}}
	}), w.parseDefinition(), w.scan("s", func(s *executionv1.Scan) { s.Spec.Volumes = []corev1.Volume{{Name: "twice"}} }))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	s := w.get("s")
	w.Expect(w.ready("s")()).To(Equal(executionv1.ReasonJobRejected))
	w.Expect(s.Status.ErrorDescription).To(And(ContainSubstring("twice"), Not(ContainSubstring("X-Amz"))))
	w.Eventually(func() string { return w.events("s") }).Should(ContainSubstring("twice"))
}

func TestDefect25EmptyTolerationsStayEmpty(t *testing.T) {
	w := newWorld(t)
	d := w.parseDefinition()
	d.Spec.Tolerations = []corev1.Toleration{{Key: "from-definition"}}
	w.Create(w.scanType(), d)
	w.createRaw("s", map[string]any{"scanType": "nmap", "parameters": []any{"x"}, "tolerations": []any{}})
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	w.Expect(w.job(executionv1.JobTypeParser).Spec.Template.Spec.Tolerations).To(BeEmpty())
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("Scan"))
	w.Expect(w.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: "s"}, u)).To(Succeed())
	_, found, err := unstructured.NestedSlice(u.Object, "spec", "tolerations")
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(found).To(BeTrue(), "what the user wrote is still there")
}

func TestDefect26AccessErrorsAreTriedAgain(t *testing.T) {
	for _, call := range []string{"create v1.ServiceAccount", "create v1.Role", "create v1.RoleBinding"} {
		t.Run(call, func(t *testing.T) {
			w := newWorld(t)
			w.failing(call, 1)
			w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
			w.job(executionv1.JobTypeScanner)
			w.Expect(w.faults.count()).To(BeNumerically(">=", 1))
		})
	}
}

func TestDefect31LongHookNames(t *testing.T) {
	w := newWorld(t)
	name := strings.Repeat("a-very-long-name.", 8) + "hook"
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.hook(name, executionv1.ReadOnly, 0), w.scan("s"))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	job := w.job(executionv1.JobTypeReadOnlyHook)
	w.Expect(job.Annotations).To(HaveKeyWithValue(executionv1.AnnotationHookName, name))
}

func TestDefect32ScansAreCountedOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	w := newWorld(t, func(o *scan.Options) { o.Metrics = scan.NewMetrics(registry) })
	w.failing("patch status", 1) // the first write of Scanning fails and is tried again
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"), w.scan("bad", func(s *executionv1.Scan) { s.Spec.HookSelector = badSelector }))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.Eventually(w.state("bad")).Should(Equal(executionv1.ScanStateErrored))
	w.touch("s")
	for name, want := range map[string]float64{
		"securecodebox_scans_started_count": 1, "securecodebox_scans_done_count": 1, "securecodebox_scans_errored_count": 1,
		"scanyard_scan_failures_total": 1,
	} {
		w.Eventually(func() float64 { return total(t, registry, name) }).Should(Equal(want), name)
		w.Consistently(func() float64 { return total(t, registry, name) }, "300ms").Should(Equal(want), name)
	}
}

var badSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Is"}}}

// total sums a counter over its labels.
func total(t *testing.T, g prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func TestDefect33TTLCountsFromTheEnd(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s", func(s *executionv1.Scan) { s.Spec.TTLSecondsAfterFinished = ptr.To[int32](1) }))
	w.Eventually(w.gone("s")).Should(BeTrue())
}

func TestDefect44HooksOfAPriorityRunInTheOrderOfTheirNames(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	for _, name := range []string{"c", "a", "b"} {
		w.Create(w.hook(name, executionv1.ReadAndWrite, 0))
	}
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	var order []string
	for _, g := range w.get("s").Status.OrderedHookStatuses {
		order = append(order, g[0].HookName)
	}
	w.Expect(order).To(Equal([]string{"a", "b", "c"}))
}

func TestDefect46LinksCanBeSwitchedOff(t *testing.T) {
	w := newWorld(t, func(o *scan.Options) { o.Settings.StatusLinks = false })
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	s := w.get("s").Status
	w.Expect([]string{s.FindingDownloadLink, s.FindingHeadLink, s.RawResultDownloadLink, s.RawResultHeadLink}).To(HaveEach(""))
}

func TestDefect48ScannersGetNoToken(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	pod := w.job(executionv1.JobTypeScanner).Spec.Template.Spec
	w.Expect(*pod.AutomountServiceAccountToken).To(BeFalse())
	for _, c := range pod.Containers {
		for _, m := range c.VolumeMounts {
			if strings.Contains(m.MountPath, "serviceaccount") {
				w.Expect(c.Name).To(Equal("lurker"))
			}
		}
	}
}

func TestDefect54DeletionIsNeverBlockedForEver(t *testing.T) {
	w := newWorld(t, func(o *scan.Options) { o.Settings.CleanupDeadline = 2 * time.Second })
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.faults.mu.Lock()
	w.faults.match = func(call string) bool { return call == "remove stored" }
	w.faults.always = true
	w.faults.mu.Unlock()
	w.Expect(w.Client.Delete(t.Context(), w.get("s"))).To(Succeed())
	w.Eventually(w.gone("s")).Should(BeTrue())
	w.Expect(w.faults.count()).To(BeNumerically(">", 1), "it was tried more than once")
	w.Eventually(func() string { return w.events("s") }).Should(ContainSubstring("may be left there"))
}

func TestDefect54EverythingBelowThePrefixGoes(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	s := w.get("s")
	files := []string{"nmap-results.xml", "findings.json", "report.html"}
	for _, f := range files {
		w.put(s, f, "x")
	}
	w.Expect(w.Client.Delete(t.Context(), s)).To(Succeed())
	w.Eventually(w.gone("s")).Should(BeTrue())
	for _, f := range files {
		w.Expect(w.stored(s, f)).To(BeFalse(), f)
	}
}

func TestDefect59AScanTellsAboutItself(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.Create(w.scan("bad", func(s *executionv1.Scan) { s.Spec.HookSelector = badSelector }))
	w.Eventually(func() string { return w.events("bad") }).Should(ContainSubstring("spec.hookSelector"))
	s := w.get("s").Status
	w.Expect(s.StartedAt).NotTo(BeNil())
	w.Expect(s.ObservedGeneration).To(Equal(int64(1)))
	for _, kind := range []string{executionv1.ConditionReady, executionv1.ConditionScanned, executionv1.ConditionParsed, executionv1.ConditionHooksCompleted} {
		w.Expect(s.Conditions).To(ContainElement(And(HaveField("Type", kind), HaveField("Status", metav1.ConditionTrue))))
	}
}

// TestTrapT4WholeStatusReplaced: a hook that replaces the status by the fields it knows
// changes nothing in the outcome.
func TestTrapT4WholeStatusReplaced(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.hook("dojo", executionv1.ReadAndWrite, 1), w.hook("reader", executionv1.ReadOnly, 0), w.scan("s"))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeParser), batchv1.JobComplete, "CompletionsReached")
	dojo := w.job(executionv1.JobTypeReadAndWriteHook)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateHookProcessing))
	patch := `[{"op":"replace","path":"/status","value":{"state":"Parsing","rawResultType":"nmap-xml","rawResultFile":"nmap-results.xml","findings":{"count":1,"severities":{"high":1}}}}]`
	w.Expect(w.Client.Status().Patch(t.Context(), w.get("s"), client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateHookProcessing))
	w.finish(dojo, batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeReadOnlyHook), batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	s := w.get("s")
	w.Expect(w.jobs("")).To(HaveLen(4))
	w.Expect(s.Status.Conditions).To(HaveLen(4))
	w.Expect(s.Status.StartedAt).NotTo(BeNil())
	w.Expect(*s.Status.Findings.Count).To(Equal(int64(1)))
}

// TestAdoptsJobsOfAnotherOperator: during a migration the Jobs that secureCodeBox's
// operator has made, with random names, are taken over.
func TestAdoptsJobsOfAnotherOperator(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scan("s", testobjects.Suspended))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonSuspended))
	theirs, err := jobs.NewScanner(jobs.Scanner{Scan: w.get("s"), ScanType: testobjects.ScanTypeSpec(), UploadURL: "https://s3/x", Attempt: 1}, jobs.Config{
		Lurker: jobs.Lurker{Image: "lurker", SeccompProfile: corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
	})
	w.Expect(err).NotTo(HaveOccurred())
	theirs.Name = "scan-s-x7k2p"
	w.Create(theirs, w.scanType(), w.parseDefinition())
	w.Expect(w.Client.Patch(t.Context(), w.get("s"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`)))).To(Succeed())
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	w.job(executionv1.JobTypeParser)
	w.Expect(w.jobs(executionv1.JobTypeScanner)).To(HaveLen(1))
}

// TestStatusIsNotWrittenTwice: a pass that finds nothing new writes nothing.
func TestStatusIsNotWrittenTwice(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.job(executionv1.JobTypeScanner)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
	w.touch("s")
	version := w.get("s").ResourceVersion
	w.Consistently(func() string { return w.get("s").ResourceVersion }, "1500ms").Should(Equal(version))
}

func TestNameConflictIsReported(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scan("s", testobjects.Suspended))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonSuspended))
	foreign := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: jobs.ScannerName(w.get("s"), 1)},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}},
	}
	w.Create(foreign, w.scanType())
	w.Expect(w.Client.Patch(t.Context(), w.get("s"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`)))).To(Succeed())
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonNameConflict))
	w.Expect(apierrors.IsNotFound(w.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))).To(BeFalse())
}
