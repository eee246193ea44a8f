// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/scans"
)

// as goes through the API as somebody else.
func as(user string, groups ...string) client.Client {
	GinkgoHelper()
	c, err := scans.Connect(scans.As(w.config, user, append(groups, "system:authenticated")...))
	Expect(err).NotTo(HaveOccurred())
	return c
}

// asAccount goes through the API as a ServiceAccount.
func asAccount(ns, name string) client.Client {
	GinkgoHelper()
	return as("system:serviceaccount:"+ns+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+ns)
}

// attempt is one call of somebody.
type attempt struct {
	what string
	do   func(context.Context) error
}

func wantForbidden(ctx context.Context, who string, attempts ...attempt) {
	GinkgoHelper()
	for _, a := range attempts {
		if err := a.do(ctx); !apierrors.IsForbidden(err) {
			Fail(fmt.Sprintf("%s may %s: %v, want Forbidden", who, a.what, err))
		}
	}
}

func wantAllowed(ctx context.Context, who string, attempts ...attempt) {
	GinkgoHelper()
	for _, a := range attempts {
		Expect(a.do(ctx)).To(Succeed(), "%s may not %s", who, a.what)
	}
}

// scanCalls are what a hook does to its Scan.
func scanCalls(c client.Client, s *executionv1.Scan) []attempt {
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"findings":{"count":0}}}`))
	return []attempt{
		{"get Scan " + s.Name, func(ctx context.Context) error { return c.Get(ctx, client.ObjectKeyFromObject(s), &executionv1.Scan{}) }},
		{"patch the status of Scan " + s.Name, func(ctx context.Context) error { return c.Status().Patch(ctx, s.DeepCopy(), patch) }},
	}
}

// otherCalls are what no hook may do where Scans are.
func otherCalls(c client.Client, s *executionv1.Scan) []attempt {
	in := client.InNamespace(s.Namespace)
	labels := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	return []attempt{
		{"patch Scan " + s.Name, func(ctx context.Context) error { return c.Patch(ctx, s.DeepCopy(), labels) }},
		{"delete Scan " + s.Name, func(ctx context.Context) error { return c.Delete(ctx, s.DeepCopy()) }},
		{"replace the status of Scan " + s.Name, func(ctx context.Context) error { return c.Status().Update(ctx, s.DeepCopy()) }},
		{"create Scans", func(ctx context.Context) error {
			return c.Create(ctx, scans.New(s.Namespace, "made-by-hook", "test-scan"))
		}},
		{"list Scans", func(ctx context.Context) error { return c.List(ctx, &executionv1.ScanList{}, in) }},
		{"list all Scans", func(ctx context.Context) error { return c.List(ctx, &executionv1.ScanList{}) }},
		{"list Secrets", func(ctx context.Context) error { return c.List(ctx, &corev1.SecretList{}, in) }},
		{"list pods", func(ctx context.Context) error { return c.List(ctx, &corev1.PodList{}, in) }},
	}
}

// teamCalls are what nobody of a team may do where the hooks of the cluster run.
func teamCalls(user, ns, secret string, pod *corev1.Pod) []attempt {
	GinkgoHelper()
	c := as(user)
	kube, err := kubernetes.NewForConfig(scans.As(w.config, user, "system:authenticated"))
	Expect(err).NotTo(HaveOccurred())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: executionv1.ServiceAccountHook}}
	in := client.InNamespace(ns)
	return []attempt{
		{"get the hook's Secret", func(ctx context.Context) error {
			return c.Get(ctx, client.ObjectKey{Namespace: ns, Name: secret}, &corev1.Secret{})
		}},
		{"list Secrets", func(ctx context.Context) error { return c.List(ctx, &corev1.SecretList{}, in) }},
		{"get the hook's pod", func(ctx context.Context) error { return c.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}) }},
		{"list pods", func(ctx context.Context) error { return c.List(ctx, &corev1.PodList{}, in) }},
		{"read the hook's log", func(ctx context.Context) error {
			_, err := kube.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
			return err
		}},
		{"list Jobs", func(ctx context.Context) error { return c.List(ctx, &batchv1.JobList{}, in) }},
		{"list Events", func(ctx context.Context) error { return c.List(ctx, &corev1.EventList{}, in) }},
		{"run a pod", func(ctx context.Context) error {
			return c.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "theirs"}, Spec: pod.Spec})
		}},
		{"take a token of the hook's account", func(ctx context.Context) error {
			return c.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{})
		}},
		{"run a Scan with its hooks", func(ctx context.Context) error { return c.Create(ctx, scans.New(ns, "theirs", "test-scan")) }},
	}
}

var _ = Describe("Tenancy", Label("isolation"), func() {
	// Holds a hook while it delivers. The team whose Scan it is can
	// not reach its Secret nor its pod, and adds nothing to it; the hook can reach that Scan
	// and no other; and afterwards it can reach nothing.
	Describe("keeps a team from a hook of the cluster, and the hook from Scans of others", func() {
		for name, c := range inOrder(map[string]tenancyCase{
			"Done":    {runOn: "Success", state: executionv1.ScanStateDone},
			"Errored": {runOn: "Failure", state: executionv1.ScanStateErrored},
			"Deleted": {runOn: "Success", deleted: true},
		}) {
			It(name, func(ctx SpecContext) {
				c.run(ctx)
			})
		}
	})

	// The account of a team's hook starts Scans in its own
	// namespace only, and reads nothing else; nobody borrows that of the cluster's.
	It("lets the cascading hook of a team start Scans in its own namespace only", func(ctx SpecContext) {
		clusterCascades(ctx)
		team, neighbour := namespace(ctx), namespace(ctx)
		chart(ctx, cascadingHook, team, nil)
		local, wide := asAccount(team, cascadingHook), asAccount(clusterCascadingNamespace, cascadingHook)
		starting := func(c client.Client, ns, name string) attempt {
			return attempt{"create Scans in " + ns, func(ctx context.Context) error { return c.Create(ctx, scans.New(ns, name, "nothing")) }}
		}
		read := func(c client.Client, ns string) attempt {
			return attempt{"list Scans in " + ns, func(ctx context.Context) error {
				return c.List(ctx, &executionv1.ScanList{}, client.InNamespace(ns))
			}}
		}
		rules := func(c client.Client, list client.ObjectList, ns string) attempt {
			return attempt{fmt.Sprintf("list %T", list), func(ctx context.Context) error { return c.List(ctx, list, client.InNamespace(ns)) }}
		}
		secrets := func(c client.Client, ns string) attempt {
			return attempt{"list Secrets in " + ns, func(ctx context.Context) error {
				return c.List(ctx, &corev1.SecretList{}, client.InNamespace(ns))
			}}
		}
		wantAllowed(ctx, "the team's hook", starting(local, team, "by-local"), read(local, team), rules(local, &cascadingv1.CascadingRuleList{}, team))
		wantForbidden(ctx, "the team's hook", starting(local, neighbour, "by-local"), read(local, neighbour), secrets(local, team), secrets(local, neighbour))
		wantAllowed(ctx, "the cluster's hook", starting(wide, team, "by-wide"), starting(wide, neighbour, "by-wide"), rules(wide, &cascadingv1.ClusterCascadingRuleList{}, ""))
		// Not even by mistake can it mix the kinds of rules.
		wantForbidden(ctx, "the cluster's hook", rules(wide, &cascadingv1.CascadingRuleList{}, team), secrets(wide, team), secrets(wide, clusterCascadingNamespace),
			attempt{"delete Scans", func(ctx context.Context) error { return wide.Delete(ctx, scans.New(team, "by-wide", "nothing")) }})
		admin := team + "-admin"
		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: admin}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		})
		user := as(admin)
		wantForbidden(ctx, admin,
			attempt{"take a token of the cluster's hook", func(ctx context.Context) error {
				account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: clusterCascadingNamespace, Name: cascadingHook}}
				return user.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{})
			}},
			attempt{"bind its rights for all namespaces", func(ctx context.Context) error {
				return user.Create(ctx, &rbacv1.ClusterRoleBinding{
					ObjectMeta: metav1.ObjectMeta{Name: team}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: admin}},
					RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterCascadingNamespace + "-" + cascadingHook},
				})
			}},
			starting(user, neighbour, "by-admin"))
	})
})

// tenancyCase is how a Scan ends whose hook is looked at.
type tenancyCase struct {
	runOn   string
	state   executionv1.ScanState
	deleted bool
}

// heldHook is a cluster-wide hook in a namespace of its own, whose far end keeps it waiting.
type heldHook struct {
	name, namespace string
	there           *farEnd
	arrived         chan struct{}
	letGo           func()
}

const heldToken = "Ttenancyt0kenT"

func holdHook(ctx context.Context, runOn string) *heldHook {
	GinkgoHelper()
	h := &heldHook{namespace: namespace(ctx), arrived: make(chan struct{}, 1)}
	h.name = h.namespace + "-hook"
	released := make(chan struct{})
	h.letGo = sync.OnceFunc(func() { close(released) })
	h.there = startFarEnd(func(e exchange) reply {
		if e.Header.Get("X-Api-Key") == heldToken {
			select {
			case h.arrived <- struct{}{}:
			default: // the test knows
			}
		}
		<-released
		return reply{}
	})
	DeferCleanup(h.letGo) // before the server is closed, which waits for its requests
	create(ctx, webhookSecret(h.namespace, map[string]string{"headerName": "X-Api-Key", "headerValue": heldToken}))
	clusterRelease(ctx, install.Release{Chart: "generic-webhook", Name: h.name, Namespace: h.namespace, Values: map[string]any{
		// As an image of others, which needs access to the Scan: ours has no account, and the Scan as data in its environment.
		"webhookUrl": h.there.URL, "hook": map[string]any{"runOn": runOn, "scanAccess": "API"},
	}})
	return h
}

// spy is what a team puts into its Scan to look into a hook.
const spy = "spy"

func spyingScan(ns, scanType, hook string) *executionv1.Scan {
	s := onlyHooks(scans.NewClusterWide(ns, "mine", scanType), hook)
	yes := true
	s.Labels = map[string]string{spy: spy, "argocd.argoproj.io/instance": spy}
	s.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
	s.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
		Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{spy: spy}}},
	}}}}
	s.Spec.Tolerations = []corev1.Toleration{{Key: spy, Operator: corev1.TolerationOpExists}}
	s.Spec.Env = []corev1.EnvVar{{Name: "SPY", Value: spy}}
	s.Spec.Volumes = []corev1.Volume{{Name: spy, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "generic-webhook-credentials", Optional: &yes}}}}
	s.Spec.VolumeMounts = []corev1.VolumeMount{{Name: spy, MountPath: "/" + spy}}
	s.Spec.InitContainers = []corev1.Container{{Name: spy, Image: "docker.io/e2e/ok", VolumeMounts: s.Spec.VolumeMounts}}
	return s
}

func (c *tenancyCase) run(ctx context.Context) {
	clusterCharts(ctx)
	team, neighbour := namespace(ctx), namespace(ctx)
	held := holdHook(ctx, c.runOn)
	members := map[string]string{"edit": team + "-editor", "admin": team + "-admin"}
	for role, user := range members {
		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})
	}
	scanType := "test-scan"
	if c.runOn == "Failure" {
		scanType = ownClusterScanType(ctx, team)
	}
	mine := spyingScan(team, scanType, held.name)
	other, theirs := onlyHooks(scans.NewClusterWide(team, "other", "test-scan"), ""), onlyHooks(scans.NewClusterWide(neighbour, "mine", "test-scan"), "")
	create(ctx, mine, other, theirs)
	wantDone(ctx, other)
	wantDone(ctx, theirs)
	select {
	case <-held.arrived:
	case <-bounded(ctx).Done():
		Fail("the hook never came")
	}

	pod := podOfHook(ctx, mine, held.name)
	job := jobsOf(mine)[held.name]
	for what, o := range map[string]any{"pod": pod.Spec, "pod's labels": pod.Labels, "pod's annotations": pod.Annotations, "Job": job.Spec, "Job's labels": job.Labels} {
		if b, err := json.Marshal(o); err != nil || strings.Contains(strings.ToLower(string(b)), spy) {
			Fail(fmt.Sprintf("the team has put something into the hook's %s (%v): %s", what, err, b))
		}
	}
	if s := pod.Spec; len(s.NodeSelector) > 0 || s.Affinity != nil {
		Fail(fmt.Sprintf("the team chooses the node of the hook: %v %v", s.NodeSelector, s.Affinity))
	}
	for _, user := range members {
		wantForbidden(ctx, user, teamCalls(user, held.namespace, "generic-webhook-credentials", pod)...)
	}
	wantNoCopyOf(ctx, heldToken, team, members["admin"])
	account := asAccount(held.namespace, pod.Spec.ServiceAccountName)
	wantAllowed(ctx, "the hook", scanCalls(account, mine)...)
	wantForbidden(ctx, "the hook", otherCalls(account, mine)...)
	for _, s := range []*executionv1.Scan{other, theirs} {
		wantForbidden(ctx, "the hook", append(scanCalls(account, s), otherCalls(account, s)...)...)
	}
	wantForbidden(ctx, "the hook", attempt{"list Secrets where it runs", func(ctx context.Context) error {
		return account.List(ctx, &corev1.SecretList{}, client.InNamespace(held.namespace))
	}})

	if c.deleted {
		Expect(w.admin.Delete(ctx, mine)).To(Succeed())
		gone(ctx, mine)
		eventually(ctx, "the hook's Job to be gone", func(context.Context) (bool, error) { return jobsOf(mine)[held.name] == nil, nil })
	} else {
		held.letGo()
		if got := until(ctx, mine, "end", toldEverybody); got.Status.State != c.state {
			Fail(fmt.Sprintf("the Scan ended %s, want %s: %s", got.Status.State, c.state, got.Status.ErrorDescription))
		}
	}
	eventually(ctx, "the hook to have lost its access", func(ctx context.Context) (bool, error) {
		err := account.Get(ctx, client.ObjectKeyFromObject(mine), &executionv1.Scan{})
		return apierrors.IsForbidden(err), client.IgnoreNotFound(ignoreForbidden(err))
	})
	wantForbidden(ctx, "the hook", append(scanCalls(account, mine), otherCalls(account, mine)...)...)
	if n := len(held.there.all()); !c.deleted && n != 1 {
		Fail(fmt.Sprintf("the hook delivered %d times", n))
	}
}

// ownClusterScanType is one for the whole cluster whose scanner fails.
func ownClusterScanType(ctx context.Context, name string) string {
	GinkgoHelper()
	kind := &executionv1.ClusterScanType{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: shellSpec("test-txt", once)}
	kind.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Command = []string{"/bin/sh", "-c", "exit 3"}
	createGlobal(ctx, kind)
	return name
}

// podOfHook is the pod of a Scan's hook.
func podOfHook(ctx context.Context, s *executionv1.Scan, hook string) *corev1.Pod {
	GinkgoHelper()
	var pods []corev1.Pod
	eventually(ctx, "the hook's pod", func(ctx context.Context) (bool, error) {
		if job := jobsOf(s)[hook]; job != nil {
			pods = podsOf(ctx, job.Namespace, ofJob(job))
		}
		return len(pods) == 1, nil
	})
	return &pods[0]
}

// wantNoCopyOf looks through what a team's admin can read in its namespace.
func wantNoCopyOf(ctx context.Context, secret, ns, admin string) {
	GinkgoHelper()
	c := as(admin)
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.PodList{}, &batchv1.JobList{}, &executionv1.ScanList{}, &corev1.EventList{}} {
		Expect(c.List(ctx, list, client.InNamespace(ns))).To(Succeed())
		for _, o := range items(list) {
			Expect(o).NotTo(ContainSubstring(secret), "a %T of the team holds the hook's credential: %s", list, o)
		}
	}
}

// items are the objects of a list, as JSON; bytes of Secrets are decoded.
func items(list client.ObjectList) []string {
	GinkgoHelper()
	var out []string
	err := meta.EachListItem(list, func(o runtime.Object) error {
		if s, ok := o.(*corev1.Secret); ok {
			for _, v := range s.Data {
				out = append(out, string(v))
			}
		}
		b, err := json.Marshal(o)
		out = append(out, string(b))
		return err
	})
	Expect(err).NotTo(HaveOccurred())
	return out
}
