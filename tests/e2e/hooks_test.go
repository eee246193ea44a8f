// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/scans"
)

// hookStates is the order of hooks and how each ended.
func hookStates(s *executionv1.Scan) [][]string {
	var out [][]string
	for _, g := range s.Status.OrderedHookStatuses {
		var group []string
		for _, h := range g {
			group = append(group, h.HookName+" "+string(h.State))
		}
		out = append(out, group)
	}
	return out
}

// prepared makes a namespace where shellScans go through, with hooks.
func prepared(ctx context.Context, hooks ...*executionv1.ScanCompletionHook) string {
	GinkgoHelper()
	ns := namespace(ctx)
	create(ctx, shellType(ns, "test-txt"), parser(ns, "test-txt"))
	for _, h := range hooks {
		h.Namespace = ns
		create(ctx, h)
	}
	return ns
}

var _ = Describe("Hooks", Label("hooks"), func() {
	It("run by priority, those that write one after another, before those that read", Label("smoke"), func(ctx SpecContext) {
		ns := prepared(ctx,
			hook("", "ro-b", "ok", executionv1.ReadOnly, 0), hook("", "ro-a", "ok", executionv1.ReadOnly, 0),
			hook("", "rw-low", "ok", executionv1.ReadAndWrite, 0), hook("", "ro-high", "ok", executionv1.ReadOnly, 5),
			hook("", "rw-high-b", "ok", executionv1.ReadAndWrite, 5), hook("", "rw-high-a", "ok", executionv1.ReadAndWrite, 5))
		got := done(ctx, shellScan(ns, "ordered", quick))
		want := [][]string{{"rw-high-a Completed"}, {"rw-high-b Completed"}, {"ro-high Completed"}, {"rw-low Completed"}, {"ro-a Completed", "ro-b Completed"}}
		Expect(hookStates(got)).To(BeComparableTo(want), "hooks")
		jobs := jobsOf(got)
		for i := 1; i < len(want); i++ {
			for _, h := range got.Status.OrderedHookStatuses[i] {
				for _, before := range got.Status.OrderedHookStatuses[i-1] {
					if started, ended := jobs[h.HookName].CreationTimestamp, jobs[before.HookName].Status.CompletionTime; started.Before(ended) {
						Fail(fmt.Sprintf("hook %s started at %s, before %s ended at %s", h.HookName, started, before.HookName, ended))
					}
				}
			}
		}
	})

	// The others of the group run to their end, later groups are
	// Cancelled, and (18) the message names the hook and says why it failed.
	It("end the others of their group when one fails, and cancel later groups", slow, defect(17, 18), func(ctx SpecContext) {
		ns := prepared(ctx,
			hook("", "broken", "fail", executionv1.ReadOnly, 1), hook("", "fine", "slow", executionv1.ReadOnly, 1), hook("", "later", "ok", executionv1.ReadOnly, 0))
		got := errored(ctx, shellScan(ns, "unlucky", quick), executionv1.ReasonHookFailed, `Hook "broken"`, "the gateway is closed")
		want := [][]string{{"broken Failed", "fine Completed"}, {"later Cancelled"}}
		Expect(hookStates(got)).To(BeComparableTo(want), "hooks")
		wantJobs(got, "scanner", "parser", "read-only-hook/broken", "read-only-hook/fine")
	})

	It("run under names that are not valid as label values", defect(31), func(ctx SpecContext) {
		h := hook("", "l"+strings.Repeat("o", 80)+"ng", "ok", executionv1.ReadOnly, 0)
		h.Labels = nil // the name is not a value of a label
		ns := prepared(ctx, h)
		got := done(ctx, shellScan(ns, "long-hook", quick))
		Expect(hookStates(got)).To(BeComparableTo([][]string{{h.Name + " Completed"}}), "hooks")
	})

	It("keep the type that they had when they were selected", defect(20), func(ctx SpecContext) {
		h := hook("", "edited", "slow", executionv1.ReadOnly, 0)
		ns := prepared(ctx, h)
		s := shellScan(ns, "steady", quick)
		create(ctx, s)
		until(ctx, s, "run its hook", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateHookProcessing })
		h.Spec.Type = executionv1.ReadAndWrite
		Expect(w.admin.Update(ctx, h)).To(Succeed())
		got := wantDone(ctx, s)
		wantJobs(got, "scanner", "parser", "read-only-hook/edited")
	})

	// The hook runs where it was installed, reaches the one Scan
	// while it runs, and leaves nothing behind.
	It("run where they were installed, reach one Scan while they run, and leave nothing behind", defect(49), func(ctx SpecContext) {
		clusterCharts(ctx)
		ns := namespace(ctx)
		var mu sync.Mutex
		granted := map[string][]rbacv1.PolicyRule{}
		roles := follow.Start(ctx, w.admin, &rbacv1.RoleList{}, func(r *rbacv1.Role, _ bool) {
			mu.Lock()
			defer mu.Unlock()
			granted[r.Labels[executionv1.LabelScanUID]] = r.Rules
		}, client.InNamespace(ns), client.HasLabels{executionv1.LabelScanUID})
		defer roles.Stop()

		got := done(ctx, onlyHooks(scans.NewClusterWide(ns, "away", "test-scan"), clusterWebhook))
		if job := jobsOf(got)[clusterWebhook]; job == nil || job.Namespace != clusterNamespace {
			Fail(fmt.Sprintf("the hook's Job is %v, want one in %s", job, clusterNamespace))
		}
		posts := 0
		for _, d := range delivered(ctx, "/cluster") {
			if d.Scan.UID == got.UID {
				posts++
			}
		}
		Expect(posts).To(Equal(1), "the webhook got the Scan %d times", posts)
		mu.Lock()
		Expect(granted[string(got.UID)]).NotTo(BeEmpty(), "the hook had no Role in the Scan's namespace")
		for _, rule := range granted[string(got.UID)] {
			if names := rule.ResourceNames; len(names) != 1 || (names[0] != got.Name && names[0] != got.Status.RawResultType) {
				Fail(fmt.Sprintf("the hook could reach %v, want this Scan and its ParseDefinition alone (defect 49)", rule))
			}
		}
		mu.Unlock()
		eventually(ctx, "the Role and RoleBinding to be gone", func(ctx context.Context) (bool, error) {
			var r rbacv1.RoleList
			var b rbacv1.RoleBindingList
			mine := client.MatchingLabels{executionv1.LabelScanUID: string(got.UID)}
			if err := w.admin.List(ctx, &r, mine); err != nil {
				return false, err
			}
			err := w.admin.List(ctx, &b, mine)
			return len(r.Items)+len(b.Items) == 0, err
		})
		Expect(w.admin.Delete(ctx, got)).To(Succeed())
		gone(ctx, got)
		eventually(ctx, "the Job in the other namespace to be gone", func(context.Context) (bool, error) { return jobsOf(got)[clusterWebhook] == nil, nil })
	})

	It("of a namespace do not run for clusterWide Scans", func(ctx SpecContext) {
		clusterCharts(ctx)
		h := hook("", "local", "ok", executionv1.ReadOnly, 0)
		h.Labels = map[string]string{"app.kubernetes.io/instance": clusterUpdate} // as if selected too
		ns := prepared(ctx, h)
		got := done(ctx, onlyHooks(scans.NewClusterWide(ns, "wide", "test-scan"), clusterUpdate))
		wantJobs(got, "scanner", "read-and-write-hook/"+clusterUpdate) // the parser runs in the scanner's pod
		Expect(categories(findings(ctx, got))).To(BeComparableTo(map[string]int64{"renamed": 2}), "categories")
	})

	// Labels choose, and (T10) labels of the Scan reach the pods of
	// scanner and parser but not those of hooks.
	It("are chosen by labels", func(ctx SpecContext) {
		ns := prepared(ctx, hook("", "chosen", "ok", executionv1.ReadOnly, 0), hook("", "other", "ok", executionv1.ReadOnly, 0))
		s := shellScan(ns, "choosy", quick)
		s.Labels = map[string]string{"team": "red"}
		s.Spec.HookSelector = onlyHooks(s.DeepCopy(), "").Spec.HookSelector
		s.Spec.HookSelector.MatchLabels = map[string]string{"hook": "chosen"}
		got := done(ctx, s)
		wantJobs(got, "scanner", "parser", "read-only-hook/chosen")
		for role, job := range jobsOf(got) {
			Expect(job.Labels["team"]).To(Equal("red"), "Job of %s has labels %v, want those of the Scan", role, job.Labels)
			if got, want := job.Spec.Template.Labels["team"] == "red", role != "chosen"; got != want {
				Fail(fmt.Sprintf("pod of %s has the Scan's labels: %t, want %t", role, got, want))
			}
		}
	})

	It("run after a scanner that has no token", defect(48), func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "test-txt", func(j *batchv1.JobSpec) { once(j) }), parser(ns, "test-txt"))
		got := done(ctx, shellScan(ns, "no-token", "! test -e /var/run/secrets/kubernetes.io/serviceaccount/token; "+quick))
		for _, c := range jobsOf(got)["scanner"].Spec.Template.Spec.Containers {
			if c.Name != "scanner" {
				continue
			}
			for _, m := range c.VolumeMounts {
				Expect(m.MountPath).NotTo(ContainSubstring("serviceaccount"), "the scanner mounts %s", m.MountPath)
			}
		}
		if v := jobsOf(got)["scanner"].Spec.Template.Spec.AutomountServiceAccountToken; v == nil || *v {
			Fail("the scanner pod mounts the token by itself")
		}
	})
})

// hasVolume says whether a pod has a volume of a name.
func hasVolume(pod *corev1.PodSpec, name string) bool {
	for i := range pod.Volumes {
		if pod.Volumes[i].Name == name {
			return true
		}
	}
	return false
}
