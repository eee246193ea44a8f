// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
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
func prepared(t *testing.T, hooks ...*executionv1.ScanCompletionHook) string {
	t.Helper()
	ns := namespace(t)
	create(t, shellType(ns, "test-txt"), parser(ns, "test-txt"))
	for _, h := range hooks {
		h.Namespace = ns
		create(t, h)
	}
	return ns
}

func TestHookOrder(t *testing.T) {
	t.Parallel()
	ns := prepared(t,
		hook("", "ro-b", "ok", executionv1.ReadOnly, 0), hook("", "ro-a", "ok", executionv1.ReadOnly, 0),
		hook("", "rw-low", "ok", executionv1.ReadAndWrite, 0), hook("", "ro-high", "ok", executionv1.ReadOnly, 5),
		hook("", "rw-high-b", "ok", executionv1.ReadAndWrite, 5), hook("", "rw-high-a", "ok", executionv1.ReadAndWrite, 5))
	got := done(t, shellScan(ns, "ordered", quick))
	want := [][]string{{"rw-high-a Completed"}, {"rw-high-b Completed"}, {"ro-high Completed"}, {"rw-low Completed"}, {"ro-a Completed", "ro-b Completed"}}
	if diff := cmp.Diff(want, hookStates(got)); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	jobs := jobsOf(got)
	for i := 1; i < len(want); i++ {
		for _, h := range got.Status.OrderedHookStatuses[i] {
			for _, before := range got.Status.OrderedHookStatuses[i-1] {
				if started, ended := jobs[h.HookName].CreationTimestamp, jobs[before.HookName].Status.CompletionTime; started.Before(ended) {
					t.Errorf("hook %s started at %s, before %s ended at %s", h.HookName, started, before.HookName, ended)
				}
			}
		}
	}
}

// TestDefect17And18FailedHook: the others of the group run to their end, later groups are
// Cancelled, and (18) the message names the hook and says why it failed.
func TestDefect17And18FailedHook(t *testing.T) {
	t.Parallel()
	ns := prepared(t,
		hook("", "broken", "fail", executionv1.ReadOnly, 1), hook("", "fine", "slow", executionv1.ReadOnly, 1), hook("", "later", "ok", executionv1.ReadOnly, 0))
	got := errored(t, shellScan(ns, "unlucky", quick), executionv1.ReasonHookFailed, `Hook "broken"`, "the gateway is closed")
	want := [][]string{{"broken Failed", "fine Completed"}, {"later Cancelled"}}
	if diff := cmp.Diff(want, hookStates(got)); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	wantJobs(t, got, "scanner", "parser", "read-only-hook/broken", "read-only-hook/fine")
}

// TestDefect31LongHookName: a name that is no label value.
func TestDefect31LongHookName(t *testing.T) {
	t.Parallel()
	h := hook("", "l"+strings.Repeat("o", 80)+"ng", "ok", executionv1.ReadOnly, 0)
	h.Labels = nil // the name is no value of a label
	ns := prepared(t, h)
	got := done(t, shellScan(ns, "long-hook", quick))
	if diff := cmp.Diff([][]string{{h.Name + " Completed"}}, hookStates(got)); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
}

// TestDefect20HookEditedMidScan changes the type of a hook while it runs.
func TestDefect20HookEditedMidScan(t *testing.T) {
	t.Parallel()
	h := hook("", "edited", "slow", executionv1.ReadOnly, 0)
	ns := prepared(t, h)
	s := shellScan(ns, "steady", quick)
	create(t, s)
	until(t, s, "run its hook", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateHookProcessing })
	h.Spec.Type = executionv1.ReadAndWrite
	if err := w.admin.Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	got := wantDone(t, s)
	wantJobs(t, got, "scanner", "parser", "read-only-hook/edited")
}

// TestDefect49ExecutionNamespace: the hook runs where it was installed, reaches the one Scan
// while it runs, and leaves nothing behind.
func TestDefect49ExecutionNamespace(t *testing.T) {
	t.Parallel()
	clusterCharts(t)
	ns := namespace(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	granted := map[string][]rbacv1.PolicyRule{}
	roles := follow.Start(ctx, w.admin, &rbacv1.RoleList{}, func(r *rbacv1.Role, _ bool) {
		mu.Lock()
		defer mu.Unlock()
		granted[r.Labels[executionv1.LabelScanUID]] = r.Rules
	}, client.InNamespace(ns), client.HasLabels{executionv1.LabelScanUID})
	defer roles.Stop()

	got := done(t, onlyHooks(scans.NewClusterWide(ns, "away", "test-scan"), clusterWebhook))
	if job := jobsOf(got)[clusterWebhook]; job == nil || job.Namespace != clusterNamespace {
		t.Fatalf("the hook's Job is %v, want one in %s", job, clusterNamespace)
	}
	posts := 0
	for _, d := range w.hooks.At("/cluster") {
		if d.Scan.UID == got.UID {
			posts++
		}
	}
	if posts != 1 {
		t.Errorf("the webhook got the Scan %d times", posts)
	}
	mu.Lock()
	if len(granted[string(got.UID)]) == 0 {
		t.Error("the hook had no Role in the Scan's namespace")
	}
	for _, rule := range granted[string(got.UID)] {
		if names := rule.ResourceNames; len(names) != 1 || (names[0] != got.Name && names[0] != got.Status.RawResultType) {
			t.Errorf("the hook could reach %v, want this Scan and its ParseDefinition alone (defect 49)", rule)
		}
	}
	mu.Unlock()
	eventually(t, "the Role and RoleBinding to be gone", func(ctx context.Context) (bool, error) {
		var r rbacv1.RoleList
		var b rbacv1.RoleBindingList
		mine := client.MatchingLabels{executionv1.LabelScanUID: string(got.UID)}
		if err := w.admin.List(ctx, &r, mine); err != nil {
			return false, err
		}
		err := w.admin.List(ctx, &b, mine)
		return len(r.Items)+len(b.Items) == 0, err
	})
	if err := w.admin.Delete(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	gone(t, got)
	eventually(t, "the Job in the other namespace to be gone", func(context.Context) (bool, error) { return jobsOf(got)[clusterWebhook] == nil, nil })
}

// TestClusterWideUsesClusterHooksOnly: a hook of the namespace does not run for it.
func TestClusterWideUsesClusterHooksOnly(t *testing.T) {
	t.Parallel()
	clusterCharts(t)
	h := hook("", "local", "ok", executionv1.ReadOnly, 0)
	h.Labels = map[string]string{"app.kubernetes.io/instance": clusterUpdate} // as if selected too
	ns := prepared(t, h)
	got := done(t, onlyHooks(scans.NewClusterWide(ns, "wide", "test-scan"), clusterUpdate))
	wantJobs(t, got, "scanner", "parser", "read-and-write-hook/"+clusterUpdate)
	if diff := cmp.Diff(map[string]int64{"renamed": 2}, categories(findings(t, got))); diff != "" {
		t.Errorf("categories (-want +got):\n%s", diff)
	}
}

// TestHookSelector: labels choose, and (T10) labels of the Scan reach the pods of
// scanner and parser but not those of hooks.
func TestHookSelector(t *testing.T) {
	t.Parallel()
	ns := prepared(t, hook("", "chosen", "ok", executionv1.ReadOnly, 0), hook("", "other", "ok", executionv1.ReadOnly, 0))
	s := shellScan(ns, "choosy", quick)
	s.Labels = map[string]string{"team": "red"}
	s.Spec.HookSelector = onlyHooks(s.DeepCopy(), "").Spec.HookSelector
	s.Spec.HookSelector.MatchLabels = map[string]string{"hook": "chosen"}
	got := done(t, s)
	wantJobs(t, got, "scanner", "parser", "read-only-hook/chosen")
	for role, job := range jobsOf(got) {
		if job.Labels["team"] != "red" {
			t.Errorf("Job of %s has labels %v, want those of the Scan", role, job.Labels)
		}
		if got, want := job.Spec.Template.Labels["team"] == "red", role != "chosen"; got != want {
			t.Errorf("pod of %s has the Scan's labels: %t, want %t", role, got, want)
		}
	}
}

// TestDefect48ScannerHasNoToken: a compromised scanner cannot read the API.
func TestDefect48ScannerHasNoToken(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	create(t, shellType(ns, "test-txt", func(j *batchv1.JobSpec) { once(j) }), parser(ns, "test-txt"))
	got := done(t, shellScan(ns, "no-token", "! test -e /var/run/secrets/kubernetes.io/serviceaccount/token; "+quick))
	for _, c := range jobsOf(got)["scanner"].Spec.Template.Spec.Containers {
		if c.Name != "scanner" {
			continue
		}
		for _, m := range c.VolumeMounts {
			if strings.Contains(m.MountPath, "serviceaccount") {
				t.Errorf("the scanner mounts %s", m.MountPath)
			}
		}
	}
	if v := jobsOf(got)["scanner"].Spec.Template.Spec.AutomountServiceAccountToken; v == nil || *v {
		t.Error("the scanner pod mounts the token by itself")
	}
}

// hasVolume says whether a pod has a volume of a name.
func hasVolume(pod *corev1.PodSpec, name string) bool {
	for i := range pod.Volumes {
		if pod.Volumes[i].Name == name {
			return true
		}
	}
	return false
}
