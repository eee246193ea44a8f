// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
)

// patience bounds the test, only to end a broken one.
const patience = 6 * time.Minute

// The namespaces of the test: the operator works in the first two.
const (
	teamA, teamB, outside = "team-a", "team-b", "outside"
	hooksElsewhere        = "hooks-elsewhere"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// rig is a cluster with an operator for two namespaces.
type rig struct {
	*testing.T
	ctx   context.Context
	admin client.WithWatch
	helm  *install.Helm
	op    *install.Operator
	scans *follow.Objects[*executionv1.Scan]
}

func newRig(t *testing.T, perScan bool) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	r := &rig{T: t, ctx: ctx}
	programs, err := install.FromEnvironment("../..")
	r.must(err)
	images := filepath.Join(t.TempDir(), "images.yaml")
	r.must(install.WriteImagesMap(images, append(programs.Images(), install.Image{Image: "docker.io/scoped/ok", Entrypoint: []string{"/bin/true"}})))
	cluster, err := localcluster.Start(ctx, localcluster.Options{
		Binary: programs.Path("localcluster"), Timeout: 2 * time.Minute, Node: localcluster.NodeOptions{ImagesMap: images},
	})
	r.must(err)
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := cluster.RESTConfig()
	r.must(err)
	r.admin, err = scans.Connect(cfg)
	r.must(err)
	for _, ns := range []string{teamA, teamB, outside, hooksElsewhere} {
		r.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	r.helm, err = install.NewHelm(ctx, programs, cluster.Kubeconfig, t.TempDir())
	r.must(err)
	r.install(cluster, perScan)
	r.scans = follow.Start[*executionv1.Scan](ctx, r.admin, &executionv1.ScanList{}, nil)
	return r
}

// install installs the chart with rights in two namespaces only.
func (r *rig) install(c *localcluster.Cluster, perScan bool) {
	r.Helper()
	cfg, err := c.RESTConfig()
	r.must(err)
	r.op, err = r.helm.InstallOperator(r.ctx, cfg, install.OperatorOptions{
		Store: c.ObjectStore,
		Values: map[string]any{
			"watchNamespaces": []any{teamA, teamB}, "access": map[string]any{"perScan": perScan},
			// Nobody else's rights may help the operator.
			"rbac": map[string]any{"clusterKinds": map[string]any{"readable": false}},
		},
		Args: []string{"--missing-kind-grace=5s"},
	})
	r.must(err)
	r.must(r.op.Ready(r.ctx, 2*time.Minute))
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) create(objects ...client.Object) {
	r.Helper()
	for _, o := range objects {
		r.must(r.admin.Create(r.ctx, o))
	}
}

func (r *rig) settled(s *executionv1.Scan) *executionv1.Scan {
	r.Helper()
	got, err := r.scans.Until(r.ctx, s.Namespace, s.Name, func(s *executionv1.Scan, there bool) bool { return there && s.Settled() })
	if err != nil {
		r.Fatalf("waiting for Scan %s to end: %v; %+v", s.Name, err, got)
	}
	return got
}

func (r *rig) done(s *executionv1.Scan) *executionv1.Scan {
	r.Helper()
	got := r.settled(s)
	if got.Status.State != executionv1.ScanStateDone {
		r.Fatalf("Scan %s/%s ended %s: %s", s.Namespace, s.Name, got.Status.State, got.Status.ErrorDescription)
	}
	return got
}

// TestScopedInstall: an operator with the rights of two namespaces leads Scans to their
// end there, of both modes and from schedules, looks at nothing else, and is never
// forbidden anything.
func TestScopedInstall(t *testing.T) {
	r := newRig(t, true)
	r.wantRolesOnly()
	r.wantRightsOnly()
	for _, ns := range []string{teamA, teamB, outside} {
		r.must(r.helm.Install(r.ctx, install.Release{Chart: "test-scan", Namespace: ns}))
		r.create(&executionv1.ScanCompletionHook{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reads"},
			Spec:       executionv1.ScanCompletionHookSpec{Type: executionv1.ReadOnly, Image: "docker.io/scoped/ok"},
		})
	}
	r.must(r.helm.Install(r.ctx, install.Release{Chart: "test-scan", Name: "wide", Namespace: install.Namespace, Values: map[string]any{"clusterWide": true}}))

	ignored := scans.New(outside, "ignored", "test-scan")
	mine, wide := scans.New(teamA, "mine", "test-scan"), scans.NewClusterWide(teamB, "wide", "test-scan")
	scheduled := &executionv1.ScheduledScan{
		ObjectMeta: metav1.ObjectMeta{Namespace: teamB, Name: "scheduled"},
		Spec:       executionv1.ScheduledScanSpec{Interval: "1h", ScanSpec: &scans.New("", "", "test-scan").Spec},
	}
	r.create(ignored, mine, wide, scheduled)
	r.done(mine)
	r.done(wide)
	r.done(r.childOf(scheduled))
	r.wantJobsOf(mine, "scanner", "parser", "reads")
	r.wantHookElsewhereRefused()

	r.must(r.admin.Delete(r.ctx, mine))
	if _, err := r.scans.Until(r.ctx, teamA, "mine", func(_ *executionv1.Scan, there bool) bool { return !there }); err != nil {
		t.Fatalf("waiting for the Scan to go: %v", err)
	}
	var untouched executionv1.Scan
	r.must(r.admin.Get(r.ctx, client.ObjectKeyFromObject(ignored), &untouched))
	if untouched.Status.State != "" || len(untouched.Finalizers) > 0 {
		t.Errorf("the Scan outside is %q with finalizers %v, want it left alone", untouched.Status.State, untouched.Finalizers)
	}
	r.wantNoComplaint()
}

// TestSharedAccounts: on request parsers and hooks run as the accounts of secureCodeBox.
func TestSharedAccounts(t *testing.T) {
	r := newRig(t, false)
	r.must(r.helm.Install(r.ctx, install.Release{Chart: "test-scan", Namespace: teamA}))
	r.create(&executionv1.ScanCompletionHook{
		ObjectMeta: metav1.ObjectMeta{Namespace: teamA, Name: "reads"},
		Spec:       executionv1.ScanCompletionHookSpec{Type: executionv1.ReadOnly, Image: "docker.io/scoped/ok"},
	})
	s := scans.New(teamA, "mine", "test-scan")
	r.create(s)
	got := r.accounts(r.done(s))
	want := map[string]string{"scanner": executionv1.ServiceAccountLurker, "parser": executionv1.ServiceAccountParser, "reads": executionv1.ServiceAccountHook}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
	r.wantNoComplaint()
}

// wantRolesOnly: of ClusterRoles the chart has made one that reads Cluster* kinds.
func (r *rig) wantRolesOnly() {
	r.Helper()
	var roles rbacv1.ClusterRoleList
	r.must(r.admin.List(r.ctx, &roles, client.MatchingLabels{"app.kubernetes.io/instance": "scanyard"}))
	if len(roles.Items) != 1 {
		r.Errorf("%d ClusterRoles, want the one that reads Cluster* kinds", len(roles.Items))
	}
	for _, role := range roles.Items {
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if !strings.HasPrefix(resource, "cluster") || !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
					r.Errorf("ClusterRole %s may %v %s", role.Name, rule.Verbs, resource)
				}
			}
		}
	}
}

// wantRightsOnly asks the API server what the operator may do in namespaces that are not
// its own.
func (r *rig) wantRightsOnly() {
	r.Helper()
	cases := []struct {
		ns, verb, group, resource string
		want                      bool
	}{
		{teamA, "create", "batch", "jobs", true},
		{teamB, "patch", "execution.securecodebox.io", "scans", true},
		{outside, "create", "batch", "jobs", false},
		{outside, "get", "execution.securecodebox.io", "scans", false},
		{outside, "create", "rbac.authorization.k8s.io", "roles", false},
		{"", "list", "", "pods", false},
		{"", "list", "", "namespaces", false},
		{"", "list", "execution.securecodebox.io", "scans", false},
		{"", "list", "execution.securecodebox.io", "clusterscantypes", true},
		{"", "create", "authentication.k8s.io", "tokenreviews", false},
		{teamA, "get", "", "secrets", false},
		{install.Namespace, "get", "", "secrets", false},
	}
	for _, tc := range cases {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + install.Namespace + ":securecodebox-operator",
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + install.Namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: tc.ns, Verb: tc.verb, Group: tc.group, Version: "*", Resource: tc.resource},
		}}
		r.must(r.admin.Create(r.ctx, review))
		if review.Status.Allowed != tc.want {
			r.Errorf("the operator may %s %s in %q: %t, want %t", tc.verb, tc.resource, tc.ns, review.Status.Allowed, tc.want)
		}
	}
}

// childOf waits for the first Scan of a schedule.
func (r *rig) childOf(scheduled *executionv1.ScheduledScan) *executionv1.Scan {
	r.Helper()
	var list executionv1.ScanList
	for r.ctx.Err() == nil {
		r.must(r.admin.List(r.ctx, &list, client.InNamespace(scheduled.Namespace)))
		for i := range list.Items {
			if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.UID == scheduled.UID {
				return &list.Items[i]
			}
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	r.Fatal("the schedule has started no Scan")
	return nil
}

// wantJobsOf holds the accounts of a Scan's Jobs: parser and hook share one that is not
// the lurker's.
func (r *rig) wantJobsOf(s *executionv1.Scan, roles ...string) {
	r.Helper()
	accounts := r.accounts(s)
	if len(accounts) != len(roles) || accounts["parser"] == "" || accounts["parser"] != accounts["reads"] || accounts["scanner"] != executionv1.ServiceAccountLurker {
		r.Errorf("Jobs and accounts %v, want Jobs of %v, two of them with an account of the Scan", accounts, roles)
	}
}

func (r *rig) accounts(s *executionv1.Scan) map[string]string {
	r.Helper()
	var jobs batchv1.JobList
	r.must(r.admin.List(r.ctx, &jobs, client.InNamespace(s.Namespace)))
	accounts := map[string]string{}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if owner := metav1.GetControllerOf(j); owner == nil || owner.UID != s.UID {
			continue
		}
		role := j.Labels[executionv1.LabelJobType]
		if hook := j.Labels[executionv1.LabelHookName]; hook != "" {
			role = hook
		}
		accounts[role] = j.Spec.Template.Spec.ServiceAccountName
	}
	return accounts
}

// wantHookElsewhereRefused: a hook that is to run where the operator may not work ends the
// Scan with what to do.
func (r *rig) wantHookElsewhereRefused() {
	r.Helper()
	hook := &executionv1.ClusterScanCompletionHook{
		ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", Labels: map[string]string{"where": "elsewhere"}},
		Spec: executionv1.ClusterScanCompletionHookSpec{
			ScanCompletionHookSpec: executionv1.ScanCompletionHookSpec{Type: executionv1.ReadOnly, Image: "docker.io/scoped/ok"},
			ExecutionNamespace:     hooksElsewhere,
		},
	}
	s := scans.NewClusterWide(teamA, "elsewhere", "test-scan")
	s.Spec.HookSelector = &metav1.LabelSelector{MatchLabels: hook.Labels}
	r.create(hook, s)
	got := r.settled(s)
	if got.Status.State != executionv1.ScanStateErrored || !strings.Contains(got.Status.ErrorDescription, "--watch-namespaces") || !strings.Contains(got.Status.ErrorDescription, hooksElsewhere) {
		r.Errorf("the Scan ended %s: %s; want it to name the namespace and the setting", got.Status.State, got.Status.ErrorDescription)
	}
	r.must(r.admin.Delete(r.ctx, hook))
}

// wantNoComplaint: the operator was never forbidden anything, and never fell over.
func (r *rig) wantNoComplaint() {
	r.Helper()
	logs, err := r.op.Logs(r.ctx)
	r.must(err)
	for line := range strings.Lines(logs) {
		lower := strings.ToLower(line)
		for _, bad := range []string{"forbidden", "panic", "x-amz-signature"} {
			if strings.Contains(lower, bad) {
				r.Errorf("the operator logged: %s", line)
			}
		}
	}
	pods, err := r.op.Pods(r.ctx)
	r.must(err)
	for i := range pods {
		for _, c := range pods[i].Status.ContainerStatuses {
			if c.RestartCount > 0 {
				r.Errorf("the operator was restarted %d times", c.RestartCount)
			}
		}
	}
}
