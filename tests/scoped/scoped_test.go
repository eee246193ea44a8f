// SPDX-License-Identifier: Apache-2.0

package scoped

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/suite"
)

// patience bounds the test, only to end a broken one.
const patience = 6 * time.Minute

// The namespaces of the test: the operator works in the first two.
const (
	teamA, teamB, outside = "team-a", "team-b", "outside"
	hooksElsewhere        = "hooks-elsewhere"
)

func TestScoped(t *testing.T) { suite.Run(t, "An operator for some namespaces") }

// rig is a cluster with an operator for two namespaces.
type rig struct {
	ctx   context.Context
	admin client.WithWatch
	helm  *install.Helm
	op    *install.Operator
	scans *follow.Objects[*executionv1.Scan]
}

func newRig(ctx context.Context, perScan bool) *rig {
	GinkgoHelper()
	r := &rig{ctx: ctx}
	programs, err := install.FromEnvironment("../..")
	r.must(err)
	images := filepath.Join(GinkgoT().TempDir(), "images.yaml")
	r.must(install.WriteImagesMap(images, append(programs.Images(), install.Image{Image: "docker.io/scoped/ok", Entrypoint: []string{"/bin/true"}})))
	cluster, err := localcluster.Start(ctx, localcluster.Options{
		Binary: programs.Path("localcluster"), Timeout: 5 * time.Minute, Node: localcluster.NodeOptions{ImagesMap: images},
	})
	r.must(err)
	DeferCleanup(cluster.Stop)
	cfg, err := cluster.RESTConfig()
	r.must(err)
	r.admin, err = scans.Connect(cfg)
	r.must(err)
	for _, ns := range []string{teamA, teamB, outside, hooksElsewhere} {
		r.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	r.helm, err = install.NewHelm(ctx, programs, cluster.Kubeconfig, GinkgoT().TempDir())
	r.must(err)
	r.install(cluster, perScan)
	r.scans = follow.Start[*executionv1.Scan](ctx, r.admin, &executionv1.ScanList{}, nil)
	return r
}

// install installs the chart with rights in two namespaces only.
func (r *rig) install(c *localcluster.Cluster, perScan bool) {
	GinkgoHelper()
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
	GinkgoHelper()
	Expect(err).NotTo(HaveOccurred())
}

func (r *rig) create(objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		r.must(r.admin.Create(r.ctx, o))
	}
}

func (r *rig) settled(s *executionv1.Scan) *executionv1.Scan {
	GinkgoHelper()
	got, err := r.scans.Until(r.ctx, s.Namespace, s.Name, func(s *executionv1.Scan, there bool) bool { return there && s.Settled() })
	Expect(err).NotTo(HaveOccurred(), "waiting for Scan %s to end: %+v", s.Name, got)
	return got
}

func (r *rig) done(s *executionv1.Scan) *executionv1.Scan {
	GinkgoHelper()
	got := r.settled(s)
	Expect(got.Status.State).To(Equal(executionv1.ScanStateDone), "Scan %s/%s: %s", s.Namespace, s.Name, got.Status.ErrorDescription)
	return got
}

var _ = Describe("An operator with the rights of two namespaces", Label("scoped"), func() {
	It("leads Scans of both modes and of schedules to their end there, looks at nothing else, and is never forbidden anything", NodeTimeout(patience), func(ctx SpecContext) {
		r := newRig(ctx, true)
		r.wantRolesOnly()
		r.wantRightsOnly()
		for _, ns := range []string{teamA, teamB, outside} {
			r.must(r.helm.Install(r.ctx, install.Release{Chart: "test-scan", Namespace: ns, Values: byTheAPI()}))
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
		Expect(r.scans.Until(r.ctx, teamA, "mine", func(_ *executionv1.Scan, there bool) bool { return !there })).Error().NotTo(HaveOccurred(), "waiting for the Scan to go")
		var untouched executionv1.Scan
		r.must(r.admin.Get(r.ctx, client.ObjectKeyFromObject(ignored), &untouched))
		Expect(untouched.Status.State).To(BeEmpty(), "the Scan outside")
		Expect(untouched.Finalizers).To(BeEmpty(), "the Scan outside")
		r.wantNoComplaint()
	})

	It("runs parsers and hooks as the accounts of secureCodeBox on request", NodeTimeout(patience), func(ctx SpecContext) {
		r := newRig(ctx, false)
		r.must(r.helm.Install(r.ctx, install.Release{Chart: "test-scan", Namespace: teamA, Values: byTheAPI()}))
		r.create(&executionv1.ScanCompletionHook{
			ObjectMeta: metav1.ObjectMeta{Namespace: teamA, Name: "reads"},
			Spec:       executionv1.ScanCompletionHookSpec{Type: executionv1.ReadOnly, Image: "docker.io/scoped/ok"},
		})
		s := scans.New(teamA, "mine", "test-scan")
		r.create(s)
		got := r.accounts(r.done(s))
		want := map[string]string{"scanner": executionv1.ServiceAccountLurker, "parser": executionv1.ServiceAccountParser, "reads": executionv1.ServiceAccountHook}
		Expect(got).To(Equal(want), "accounts")
		r.wantNoComplaint()
	})
})

// byTheAPI are values for a parser that works by the API, as those of others do, and so has an account.
func byTheAPI() map[string]any { return map[string]any{"parser": map[string]any{"scanAccess": "API"}} }

// wantRolesOnly: of ClusterRoles the chart has made one that reads Cluster* kinds.
func (r *rig) wantRolesOnly() {
	GinkgoHelper()
	var roles rbacv1.ClusterRoleList
	r.must(r.admin.List(r.ctx, &roles, client.MatchingLabels{"app.kubernetes.io/instance": "scanyard"}))
	Expect(roles.Items).To(HaveLen(1), "ClusterRoles, of which there is one that reads Cluster* kinds")
	for _, role := range roles.Items {
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if !strings.HasPrefix(resource, "cluster") || !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) {
					Fail(fmt.Sprintf("ClusterRole %s may %v %s", role.Name, rule.Verbs, resource))
				}
			}
		}
	}
}

// wantRightsOnly asks the API server what the operator may do in namespaces that are not
// its own.
func (r *rig) wantRightsOnly() {
	GinkgoHelper()
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
		Expect(review.Status.Allowed).To(Equal(tc.want), "the operator may %s %s in %q", tc.verb, tc.resource, tc.ns)
	}
}

// childOf waits for the first Scan of a schedule.
func (r *rig) childOf(scheduled *executionv1.ScheduledScan) *executionv1.Scan {
	GinkgoHelper()
	var list executionv1.ScanList
	var child *executionv1.Scan
	Eventually(r.ctx, func(g Gomega) {
		g.Expect(r.admin.List(r.ctx, &list, client.InNamespace(scheduled.Namespace))).To(Succeed())
		i := slices.IndexFunc(list.Items, func(s executionv1.Scan) bool {
			owner := metav1.GetControllerOf(&s)
			return owner != nil && owner.UID == scheduled.UID
		})
		g.Expect(i).To(BeNumerically(">=", 0), "the schedule has started no Scan")
		child = &list.Items[i]
	}).WithTimeout(patience).WithPolling(100 * time.Millisecond).Should(Succeed())
	return child
}

// wantJobsOf holds the accounts of a Scan's Jobs: parser and hook share one that is not
// the lurker's.
func (r *rig) wantJobsOf(s *executionv1.Scan, roles ...string) {
	GinkgoHelper()
	accounts := r.accounts(s)
	if len(accounts) != len(roles) || accounts["parser"] == "" || accounts["parser"] != accounts["reads"] || accounts["scanner"] != executionv1.ServiceAccountLurker {
		Fail(fmt.Sprintf("Jobs and accounts %v, want Jobs of %v, two of them with an account of the Scan", accounts, roles))
	}
}

func (r *rig) accounts(s *executionv1.Scan) map[string]string {
	GinkgoHelper()
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
	GinkgoHelper()
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
		Fail(fmt.Sprintf("the Scan ended %s: %s; want it to name the namespace and the setting", got.Status.State, got.Status.ErrorDescription))
	}
	r.must(r.admin.Delete(r.ctx, hook))
}

// wantNoComplaint: the operator was never forbidden anything, and never fell over.
func (r *rig) wantNoComplaint() {
	GinkgoHelper()
	logs, err := r.op.Logs(r.ctx)
	r.must(err)
	for line := range strings.Lines(logs) {
		lower := strings.ToLower(line)
		for _, bad := range []string{"forbidden", "panic", "x-amz-signature"} {
			Expect(lower).NotTo(ContainSubstring(bad), "the operator logged: %s", line)
		}
	}
	pods, err := r.op.Pods(r.ctx)
	r.must(err)
	for i := range pods {
		for _, c := range pods[i].Status.ContainerStatuses {
			Expect(c.RestartCount).To(BeZero(), "restarts of the operator")
		}
	}
}
