// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/minio/minio-go/v7"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

func suspend(ctx context.Context, s *executionv1.Scan, to string) {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":`+to+`}}`))
	Expect(w.admin.Patch(ctx, s, patch)).To(Succeed())
}

var _ = Describe("A Scan's life", Label("life"), func() {
	It("does not start while it is suspended", Label("smoke"), func(ctx SpecContext) {
		ns := prepared(ctx)
		s := shellScan(ns, "paused", quick)
		yes := true
		s.Spec.Suspend = &yes
		create(ctx, s)
		until(ctx, s, "be suspended", func(s *executionv1.Scan) bool { return scans.Ready(s).Reason == executionv1.ReasonSuspended })
		if n := len(jobsOf(s)); n > 0 {
			Fail(fmt.Sprintf("a suspended Scan has %d Jobs", n))
		}
		suspend(ctx, s, "false")
		wantJobs(wantDone(ctx, s), "scanner", "parser")
	})

	// What runs goes on to its end, nothing further starts.
	It("stops when it is suspended midway", func(ctx SpecContext) {
		ns := prepared(ctx)
		s := shellScan(ns, "midway", "sleep 2; "+quick)
		create(ctx, s)
		until(ctx, s, "run", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateScanning })
		suspend(ctx, s, "true")
		Expect(w.jobs.UntilAll(bounded(ctx), func([]*batchv1.Job) bool {
			j := jobsOf(s)["scanner"]
			return j != nil && j.Status.Succeeded == 1 && j.Status.CompletionTime != nil
		})).Error().NotTo(HaveOccurred(), "the running Job did not end")
		wantJobs(s, "scanner")
		suspend(ctx, s, "false")
		wantJobs(wantDone(ctx, s), "scanner", "parser")
	})

	It("can be deleted while it is suspended", defect(8), func(ctx SpecContext) {
		ns := prepared(ctx)
		s := shellScan(ns, "stuck", "sleep 60")
		create(ctx, s)
		until(ctx, s, "run", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateScanning })
		suspend(ctx, s, "true")
		Expect(w.admin.Delete(ctx, s)).To(Succeed())
		gone(ctx, s)
	})

	It("is deleted some time after its end, with all that is stored", func(ctx SpecContext) {
		ns := prepared(ctx)
		s := shellScan(ns, "short-lived", quick)
		ttl := int32(1)
		s.Spec.TTLSecondsAfterFinished = &ttl
		create(ctx, s)
		gone(ctx, s)
		wantJobs(s, "scanner", "parser")
		Expect(stored(ctx, s)).To(BeEmpty(), "storage still has")
	})

	// All of it, not the two known objects only, and
	// the Jobs with it.
	It("is deleted with its Jobs and with all that is stored under its prefix", defect(54), func(ctx SpecContext) {
		ns := prepared(ctx)
		got := done(ctx, shellScan(ns, "doomed", quick))
		extra := []byte("a screenshot")
		Expect(w.store.PutObject(ctx, w.bucket, prefix(got)+"more/shot.png", bytes.NewReader(extra), int64(len(extra)), minio.PutObjectOptions{})).Error().NotTo(HaveOccurred())
		Expect(resultsOf(ctx, got)).To(BeComparableTo([]string{"findings.json", "more/shot.png", "result"}), "stored")
		Expect(w.admin.Delete(ctx, got)).To(Succeed())
		gone(ctx, got)
		Expect(stored(ctx, got)).To(BeEmpty(), "storage still has")
		eventually(ctx, "Jobs to be gone", func(context.Context) (bool, error) { return len(jobsOf(got)) == 0, nil })
	})

	It("starts nothing more when it is deleted while its scanner runs", defect(16), func(ctx SpecContext) {
		ns := prepared(ctx)
		s := shellScan(ns, "cut-short", quick+"; sleep 60")
		create(ctx, s)
		until(ctx, s, "run", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateScanning })
		Expect(w.admin.Delete(ctx, s)).To(Succeed())
		gone(ctx, s)
		eventually(ctx, "Jobs to be gone", func(context.Context) (bool, error) { return len(jobsOf(s)) == 0, nil })
		wantJobs(s, "scanner")
		Expect(stored(ctx, s)).To(BeEmpty(), "storage has")
	})

	It("starts from scratch when it is created again under its old name", defect(14), func(ctx SpecContext) {
		ns := prepared(ctx)
		first := done(ctx, shellScan(ns, "again", quick))
		Expect(w.admin.Delete(ctx, first, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		gone(ctx, first)
		second := done(ctx, shellScan(ns, "again", quick))
		wantJobs(first, "scanner", "parser")
		wantJobs(second, "scanner", "parser")
		Expect(first.UID).NotTo(Equal(second.UID), "it is the same Scan")
	})

	It("does not treat a deleted Job as completed", defect(5), func(ctx SpecContext) {
		ns := prepared(ctx)
		s := shellScan(ns, "robbed", "sleep 60")
		create(ctx, s)
		until(ctx, s, "run", func(s *executionv1.Scan) bool {
			return s.Status.State == executionv1.ScanStateScanning && jobsOf(s)["scanner"] != nil
		})
		Expect(w.admin.Delete(ctx, jobsOf(s)["scanner"], client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		got := settled(ctx, s)
		wantTrouble(ctx, got, executionv1.ReasonJobLost, "result")
		wantJobs(got, "scanner")
	})

	// Any failed Job counts, not one reason only.
	It("fails with its Job, whatever the reason", defect(6), func(ctx SpecContext) {
		ns := namespace(ctx)
		two := int64(2)
		create(ctx, shellType(ns, "test-txt", func(j *batchv1.JobSpec) { j.ActiveDeadlineSeconds = &two }), parser(ns, "test-txt"))
		errored(ctx, shellScan(ns, "too-slow", "sleep 60"), executionv1.ReasonScannerFailed, "DeadlineExceeded")
	})

	It("has a deadline for each phase, which can be set", defect(7), func(ctx SpecContext) {
		ns := prepared(ctx)
		s := shellScan(ns, "bounded", "sleep 60")
		two := int64(2)
		s.Spec.Deadlines = &executionv1.Deadlines{ScannerSeconds: &two}
		errored(ctx, s, executionv1.ReasonDeadlineExceeded, "scanner", "2s")
	})

	It("may have empty parameters, which stay in the stored object", defect(9), func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "test-txt", func(j *batchv1.JobSpec) { j.Template.Spec.Containers[0].Command = []string{"touch", resultPath} }), parser(ns, "test-txt"))
		got := done(ctx, scans.New(ns, "bare", "sh"))
		Expect(got.Spec.Parameters).NotTo(BeNil(), "parameters: [] is gone from the stored Scan")
	})

	It("waits for the last completion of a Job that has several", defect(21), func(ctx SpecContext) {
		ns := namespace(ctx)
		three := int32(3)
		create(ctx, shellType(ns, "test-txt", func(j *batchv1.JobSpec) { j.Completions = &three }), parser(ns, "test-txt"))
		got := done(ctx, shellScan(ns, "thrice", quick))
		jobs := jobsOf(got)
		Expect(jobs["scanner"].Status.Succeeded).To(BeEquivalentTo(3), "%d pods of the scanner had succeeded", jobs["scanner"].Status.Succeeded)
		Expect(jobs["parser"].CreationTimestamp.Before(jobs["scanner"].Status.CompletionTime)).To(BeFalse(), "the parser started before the scanner's Job was complete")
	})

	// Volumes without a mount in the scanner container,
	// and labels and annotations of the pod template (trap T9).
	It("keeps volumes, labels and annotations of the pod template (trap T9)", defect(22, 23), func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "test-txt", func(j *batchv1.JobSpec) {
			pod := &j.Template
			pod.Labels, pod.Annotations = map[string]string{"cost": "red"}, map[string]string{"karpenter.sh/do-not-disrupt": "true"}
			pod.Spec.Volumes = []corev1.Volume{{Name: "spare"}}
			pod.Spec.InitContainers = []corev1.Container{{
				Name: "prepare", Image: "docker.io/e2e/sh", Command: []string{"/bin/sh", "-c", "touch /spare/x"}, VolumeMounts: []corev1.VolumeMount{{Name: "spare", MountPath: "/spare"}},
			}}
		}), parser(ns, "test-txt"))
		pod := jobsOf(done(ctx, shellScan(ns, "kept", quick)))["scanner"].Spec.Template
		if pod.Labels["cost"] != "red" || pod.Annotations["karpenter.sh/do-not-disrupt"] != "true" || !hasVolume(&pod.Spec, "spare") {
			Fail(fmt.Sprintf("labels %v, annotations %v, volumes %v", pod.Labels, pod.Annotations, pod.Spec.Volumes))
		}
	})

	It("clears tolerations of ScanType and ParseDefinition with an empty list", defect(25), func(ctx SpecContext) {
		ns := namespace(ctx)
		p := parser(ns, "test-txt")
		p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		create(ctx, shellType(ns, "test-txt"), p)
		u := `{"apiVersion":"execution.securecodebox.io/v1","kind":"Scan","metadata":{"name":"clear","namespace":"` + ns + `"},` +
			`"spec":{"scanType":"sh","parameters":["` + quick + `"],"tolerations":[]}}`
		s := apply(ctx, u)
		wantDone(ctx, s)
		Expect(jobsOf(s)["parser"].Spec.Template.Spec.Tolerations).To(BeEmpty(), "the parser has tolerations")
	})

	It("shows its state in the columns of kubectl get", defect(59), func(ctx SpecContext) {
		c, err := execution()
		Expect(err).NotTo(HaveOccurred())
		var table metav1.Table
		err = c.Get().Resource("scans").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Into(&table)
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, col := range table.ColumnDefinitions {
			names = append(names, col.Name)
		}
		for _, want := range []string{"Name", "UID", "Type", "State", "Findings", "Parameters", "Age"} {
			Expect(names).To(ContainElement(want), "column %s is missing among %v", want, names)
		}
	})

	It("is refused with the field's name if it can never work", func(ctx SpecContext) {
		cases := map[string]struct {
			reason string
			object client.Object
			says   string
		}{
			"HookType":     {"defect 19: an unknown type was never run", hook("default", "bad", "ok", "Sometimes", 0), "spec.type"},
			"Location":     {"nobody could read the result", locationType("/tmp/result"), "spec.extractResults.location"},
			"FindingsFile": {"defect 53: it collides with the findings", locationType("/home/securecodebox/findings.json"), "findings.json"},
			"ResourceMode": {"there are two", mode("everywhere"), "spec.resourceMode"},
		}
		for name, tc := range cases {
			By(name, func() {
				err := w.admin.Create(ctx, tc.object, client.DryRunAll)
				if !apierrors.IsInvalid(err) || !bytes.Contains([]byte(err.Error()), []byte(tc.says)) {
					Fail(fmt.Sprintf("%s: got %v, want it invalid with %q", tc.reason, err, tc.says))
				}
			})
		}
	})
})

// apply sends a manifest as it is, without passing through Go types.
func apply(ctx context.Context, manifest string) *executionv1.Scan {
	GinkgoHelper()
	s, err := post(ctx, manifest)
	Expect(err).NotTo(HaveOccurred())
	return s
}

func execution() (*rest.RESTClient, error) {
	cfg := rest.CopyConfig(w.config)
	cfg.GroupVersion, cfg.APIPath, cfg.NegotiatedSerializer = &executionv1.SchemeGroupVersion, "/apis", scheme.Codecs.WithoutConversion()
	return rest.RESTClientFor(cfg)
}

func locationType(location string) *executionv1.ScanType {
	t := shellType("default", "test-txt")
	t.Spec.ExtractResults.Location = location
	return t
}

func mode(m executionv1.ResourceMode) *executionv1.Scan {
	s := shellScan("default", "bad", quick)
	s.Spec.ResourceMode = &m
	return s
}

// post creates a Scan from JSON.
func post(ctx context.Context, manifest string) (*executionv1.Scan, error) {
	c, err := execution()
	if err != nil {
		return nil, err
	}
	s := &executionv1.Scan{}
	if err := json.Unmarshal([]byte(manifest), s); err != nil {
		return nil, err
	}
	b, err := c.Post().Resource("scans").Namespace(s.Namespace).SetHeader("Content-Type", "application/json").Body([]byte(manifest)).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	return s, json.Unmarshal(b, s)
}
