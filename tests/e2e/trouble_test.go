// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

var _ = Describe("Trouble", Label("trouble"), func() {
	// Whatever keeps a phase from going on is said on the Scan,
	// by a condition and an Event.
	Describe("shows on the Scan, by a condition and an Event", defect(7), func() {
		secret := func(j *batchv1.JobSpec) {
			j.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "not-made"}, Key: "token"},
			}}}
		}
		cases := map[string]struct {
			edit   func(*batchv1.JobSpec)
			scan   func(*executionv1.Scan)
			reason string
			says   []string
		}{
			"ImageMissing": {
				func(j *batchv1.JobSpec) { j.Template.Spec.Containers[0].Image = "docker.io/e2e/nothing:1" }, nil,
				executionv1.ReasonImagePull,
				[]string{"docker.io/e2e/nothing:1", "cannot be pulled", "imagePullSecrets"},
			},
			"ImageOfInitContainerMissing": {nil, func(s *executionv1.Scan) {
				s.Spec.InitContainers = []corev1.Container{{Name: "prepare", Image: "docker.io/e2e/nothing:2"}}
			}, executionv1.ReasonImagePull, []string{"docker.io/e2e/nothing:2", `container "prepare"`}},
			"Unschedulable": {
				nil, func(s *executionv1.Scan) { s.Spec.NodeSelector = map[string]string{"disk": "none"} },
				executionv1.ReasonUnschedulable,
				[]string{"nodes are available", "node affinity/selector"},
			},
			"TooLarge": {nil, func(s *executionv1.Scan) {
				s.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Ti")}
			}, executionv1.ReasonUnschedulable, []string{"Insufficient memory"}},
			"SecretMissing": {secret, nil, executionv1.ReasonContainerConfig, []string{"not-made"}},
		}
		for name, tc := range inOrder(cases) {
			It(name, func(ctx SpecContext) {
				ns := namespace(ctx)
				kind, s := shellType(ns, "test-txt"), shellScan(ns, "troubled", quick)
				if tc.edit != nil {
					kind = shellType(ns, "test-txt", tc.edit)
				}
				if tc.scan != nil {
					tc.scan(s)
				}
				create(ctx, kind, parser(ns, "test-txt"))
				got := troubled(ctx, s, tc.reason, tc.says...)
				Expect(got.Settled()).To(BeFalse(), "the Scan ended %s: what is wrong could still be put right", got.Status.State)
			})
		}
	})

	Describe("lets the Scan continue by itself when it ends", func() {
		It("a missing Secret", func(ctx SpecContext) {
			ns := namespace(ctx)
			create(ctx, shellType(ns, "test-txt", func(j *batchv1.JobSpec) {
				j.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}}}
			}), parser(ns, "test-txt"))
			s := shellScan(ns, "patient", quick)
			troubled(ctx, s, executionv1.ReasonContainerConfig, "late")
			create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "late"}, StringData: map[string]string{"TOKEN": "x"}})
			wantJobs(wantDone(ctx, s), "scanner", "parser")
		})
		It("a missing ScanType", func(ctx SpecContext) {
			ns := namespace(ctx)
			create(ctx, parser(ns, "test-txt"))
			s := shellScan(ns, "patient", quick)
			troubled(ctx, s, executionv1.ReasonScanTypeNotFound, `ScanType "sh" not found`, "helm install sh")
			create(ctx, shellType(ns, "test-txt"))
			wantJobs(wantDone(ctx, s), "scanner", "parser")
		})
		It("a missing ParseDefinition", func(ctx SpecContext) {
			ns := namespace(ctx)
			create(ctx, shellType(ns, "test-txt"))
			s := shellScan(ns, "patient", quick)
			troubled(ctx, s, executionv1.ReasonParseDefinitionNotFound, `ParseDefinition "test-txt" not found`)
			create(ctx, parser(ns, "test-txt"))
			wantJobs(wantDone(ctx, s), "scanner", "parser")
		})
	})

	It("with a missing kind fails the Scan after a while, and says what to install", defect(15), func(ctx SpecContext) {
		ns := namespace(ctx)
		// All charts are installed for the whole cluster: it takes a scanner that has none.
		errored(ctx, scans.New(ns, "nothing", "zmap"), executionv1.ReasonScanTypeNotFound, "zmap", "helm install zmap")
		errored(ctx, scans.NewClusterWide(ns, "nothing-wide", "zmap"), executionv1.ReasonScanTypeNotFound, "ClusterScanType", "zmap", "clusterWide=true")
	})

	Describe("with a quota shows, and the Scan continues when the quota allows it", func() {
		for name, what := range inOrder(map[string]corev1.ResourceName{"of Jobs": "count/jobs.batch", "of pods": corev1.ResourcePods}) {
			It(name, func(ctx SpecContext) {
				ns := prepared(ctx)
				quota := &corev1.ResourceQuota{
					ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tight"},
					Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{what: resource.MustParse("0")}},
				}
				create(ctx, quota)
				eventuallyQuota(ctx, quota)
				s := shellScan(ns, "held-up", quick)
				troubled(ctx, s, executionv1.ReasonQuotaExceeded, "exceeded quota: tight")
				Expect(w.admin.Delete(ctx, quota)).To(Succeed())
				wantJobs(wantDone(ctx, s), "scanner", "parser")
			})
		}
	})

	It("with a Job that the API server refuses fails the Scan with the server's message", defect(24), func(ctx SpecContext) {
		ns := prepared(ctx)
		s := shellScan(ns, "twice", quick)
		s.Spec.Volumes = []corev1.Volume{{Name: "same"}, {Name: "same"}}
		errored(ctx, s, executionv1.ReasonJobRejected, "volumes", "Duplicate value", "same")
		wantJobs(s)
	})

	It("with a policy that refuses pods, but not Jobs, shows as well", func(ctx SpecContext) {
		ns := namespace(ctx, "pod-security.kubernetes.io/enforce=restricted")
		create(ctx, shellType(ns, "test-txt"), parser(ns, "test-txt")) // its scanner may run as root
		troubled(ctx, shellScan(ns, "refused", quick), executionv1.ReasonPodRejected, "violates PodSecurity")
	})

	It("with a scanner that is restarted shows, and the end of the Scan says why it failed", func(ctx SpecContext) {
		ns := prepared(ctx)
		s := shellScan(ns, "crashes", "echo 'no such target' >/dev/termination-log; exit 7")
		got := errored(ctx, s, executionv1.ReasonScannerFailed, "code 7", "no such target")
		wantJobs(got, "scanner")
		Expect(resultsOf(ctx, got)).To(BeEmpty(), "a scanner that failed has stored")
	})

	It("with a wrong parameter fails the Scan with the tool's own message, and keeps the end of its log", func(ctx SpecContext) {
		ns := namespace(ctx)
		chart(ctx, "nmap", ns, scanner(ctx, "scanner-nmap"))
		const words = "unrecognized option '--nosuchflag'"
		s := scans.New(ns, "badarg", "nmap", "--nosuchflag")
		troubled(ctx, s, executionv1.ReasonContainerFailing, `Container "nmap" fails and is restarted`, words)
		got := settled(ctx, s)
		wantTrouble(ctx, got, executionv1.ReasonScannerFailed, words)
		Expect(got.Status.ErrorDescription).To(ContainSubstring(words), "errorDescription: %s", got.Status.ErrorDescription)
		eventually(ctx, "the end of the log is stored", func(context.Context) (bool, error) {
			return slices.Contains(stored(ctx, got), executionv1.ScannerLogFile), nil
		})
		body, err := w.store.GetObject(ctx, w.bucket, prefix(got)+executionv1.ScannerLogFile, minio.GetObjectOptions{})
		Expect(err).NotTo(HaveOccurred())
		if text, err := io.ReadAll(body); err != nil || !strings.Contains(string(text), words) {
			Fail(fmt.Sprintf("stored is %q, error %v", text, err))
		}
	})

	It("with a result that is not valid fails the Scan at the first try, with the parser's own message", func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "nmap-xml"), parser(ns, "nmap-xml"))
		began := time.Now()
		got := errored(ctx, shellScan(ns, "junk", "echo '<nmaprun><host>' >"+resultPath), executionv1.ReasonParserFailed, "exited with code 65: parse nmap-xml: ", "stopped before its end")
		if job := jobsOf(got)["parser"]; job == nil || job.Status.Failed != 1 {
			Fail(fmt.Sprintf("the parser's Job: %v", job))
		}
		GinkgoWriter.Printf("told after %s\n", time.Since(began).Round(time.Millisecond))
	})

	It("is not reported if a ScanType leaves the start to a queue such as Kueue", func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "test-txt", func(j *batchv1.JobSpec) { yes := true; j.Suspend = &yes }), parser(ns, "test-txt"))
		s := shellScan(ns, "queued", quick)
		create(ctx, s)
		until(ctx, s, "say that its Job is suspended", func(s *executionv1.Scan) bool { return scans.Ready(s).Reason == executionv1.ReasonJobSuspended })
		job := jobsOf(s)["scanner"].DeepCopy()
		Expect(w.admin.Patch(ctx, job, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`)))).To(Succeed())
		wantJobs(wantDone(ctx, s), "scanner", "parser")
	})
})

// eventuallyQuota waits until a quota counts: before that it lets everything pass.
func eventuallyQuota(ctx context.Context, q *corev1.ResourceQuota) {
	GinkgoHelper()
	eventually(ctx, "the quota to count", func(ctx context.Context) (bool, error) {
		var have corev1.ResourceQuota
		err := w.admin.Get(ctx, client.ObjectKeyFromObject(q), &have)
		return len(have.Status.Hard) > 0, err
	})
}
