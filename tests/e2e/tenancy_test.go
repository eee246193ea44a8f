// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

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
func as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	c, err := scans.Connect(scans.As(w.config, user, append(groups, "system:authenticated")...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// asAccount goes through the API as a ServiceAccount.
func asAccount(t *testing.T, ns, name string) client.Client {
	t.Helper()
	return as(t, "system:serviceaccount:"+ns+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+ns)
}

// attempt is one call of somebody.
type attempt struct {
	what string
	do   func(context.Context) error
}

func wantForbidden(t *testing.T, who string, attempts ...attempt) {
	t.Helper()
	for _, a := range attempts {
		if err := a.do(t.Context()); !apierrors.IsForbidden(err) {
			t.Errorf("%s may %s: %v, want Forbidden", who, a.what, err)
		}
	}
}

func wantAllowed(t *testing.T, who string, attempts ...attempt) {
	t.Helper()
	for _, a := range attempts {
		if err := a.do(t.Context()); err != nil {
			t.Errorf("%s may not %s: %v", who, a.what, err)
		}
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
func teamCalls(t *testing.T, user, ns, secret string, pod *corev1.Pod) []attempt {
	t.Helper()
	c := as(t, user)
	kube, err := kubernetes.NewForConfig(scans.As(w.config, user, "system:authenticated"))
	if err != nil {
		t.Fatal(err)
	}
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

// TestTenancyOfClusterHooks holds a hook while it delivers. The team whose Scan it is can
// not reach its Secret nor its pod, and adds nothing to it; the hook can reach that Scan
// and no other; and afterwards it can reach nothing.
func TestTenancyOfClusterHooks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]tenancyCase{
		"Done":    {runOn: "Success", state: executionv1.ScanStateDone},
		"Errored": {runOn: "Failure", state: executionv1.ScanStateErrored},
		"Deleted": {runOn: "Success", deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.run(t)
		})
	}
}

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

func holdHook(t *testing.T, runOn string) *heldHook {
	t.Helper()
	h := &heldHook{namespace: namespace(t), arrived: make(chan struct{}, 1)}
	h.name = h.namespace + "-hook"
	released := make(chan struct{})
	h.letGo = sync.OnceFunc(func() { close(released) })
	h.there = startFarEnd(t, func(e exchange) reply {
		if e.Header.Get("X-Api-Key") == heldToken {
			select {
			case h.arrived <- struct{}{}:
			default: // the test knows
			}
		}
		<-released
		return reply{}
	})
	t.Cleanup(h.letGo) // before the server is closed, which waits for its requests
	create(t, webhookSecret(h.namespace, map[string]string{"headerName": "X-Api-Key", "headerValue": heldToken}))
	clusterRelease(t, install.Release{Chart: "generic-webhook", Name: h.name, Namespace: h.namespace, Values: map[string]any{
		"webhookUrl": h.there.URL, "hook": map[string]any{"runOn": runOn},
	}})
	return h
}

// spy is what a team puts into its Scan to look into a hook.
const spy = "spy"

func spyingScan(ns, scanType, hook string) *executionv1.Scan {
	s := onlyHooks(scans.NewClusterWide(ns, "mine", scanType), hook)
	yes := true
	s.Spec.Env = []corev1.EnvVar{{Name: "SPY", Value: spy}}
	s.Spec.Volumes = []corev1.Volume{{Name: spy, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "generic-webhook-credentials", Optional: &yes}}}}
	s.Spec.VolumeMounts = []corev1.VolumeMount{{Name: spy, MountPath: "/" + spy}}
	s.Spec.InitContainers = []corev1.Container{{Name: spy, Image: "docker.io/e2e/ok", VolumeMounts: s.Spec.VolumeMounts}}
	return s
}

func (c *tenancyCase) run(t *testing.T) {
	clusterCharts(t)
	team, neighbour := namespace(t), namespace(t)
	held := holdHook(t, c.runOn)
	members := map[string]string{"edit": team + "-editor", "admin": team + "-admin"}
	for role, user := range members {
		create(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})
	}
	scanType := "test-scan"
	if c.runOn == "Failure" {
		scanType = ownClusterScanType(t, team)
	}
	mine := spyingScan(team, scanType, held.name)
	other, theirs := onlyHooks(scans.NewClusterWide(team, "other", "test-scan"), ""), onlyHooks(scans.NewClusterWide(neighbour, "mine", "test-scan"), "")
	create(t, mine, other, theirs)
	wantDone(t, other)
	wantDone(t, theirs)
	select {
	case <-held.arrived:
	case <-bounded(t).Done():
		t.Fatal("the hook never came")
	}

	pod := podOfHook(t, mine, held.name)
	if b, err := json.Marshal(pod.Spec); err != nil || strings.Contains(strings.ToLower(string(b)), spy) {
		t.Errorf("the team has put something into the hook's pod (%v): %s", err, b)
	}
	for _, user := range members {
		wantForbidden(t, user, teamCalls(t, user, held.namespace, "generic-webhook-credentials", pod)...)
	}
	wantNoCopyOf(t, heldToken, team, members["admin"])
	account := asAccount(t, held.namespace, pod.Spec.ServiceAccountName)
	wantAllowed(t, "the hook", scanCalls(account, mine)...)
	wantForbidden(t, "the hook", otherCalls(account, mine)...)
	for _, s := range []*executionv1.Scan{other, theirs} {
		wantForbidden(t, "the hook", append(scanCalls(account, s), otherCalls(account, s)...)...)
	}
	wantForbidden(t, "the hook", attempt{"list Secrets where it runs", func(ctx context.Context) error {
		return account.List(ctx, &corev1.SecretList{}, client.InNamespace(held.namespace))
	}})

	if c.deleted {
		if err := w.admin.Delete(t.Context(), mine); err != nil {
			t.Fatal(err)
		}
		gone(t, mine)
		eventually(t, "the hook's Job to be gone", func(context.Context) (bool, error) { return jobsOf(mine)[held.name] == nil, nil })
	} else {
		held.letGo()
		if got := until(t, mine, "end", toldEverybody); got.Status.State != c.state {
			t.Errorf("the Scan ended %s, want %s: %s", got.Status.State, c.state, got.Status.ErrorDescription)
		}
	}
	eventually(t, "the hook to have lost its access", func(ctx context.Context) (bool, error) {
		err := account.Get(ctx, client.ObjectKeyFromObject(mine), &executionv1.Scan{})
		return apierrors.IsForbidden(err), client.IgnoreNotFound(ignoreForbidden(err))
	})
	wantForbidden(t, "the hook", append(scanCalls(account, mine), otherCalls(account, mine)...)...)
	if n := len(held.there.all()); !c.deleted && n != 1 {
		t.Errorf("the hook delivered %d times", n)
	}
}

// TestTenancyOfCascadingScans: the account of a team's hook starts Scans in its own
// namespace only, and reads nothing else; nobody borrows that of the cluster's.
func TestTenancyOfCascadingScans(t *testing.T) {
	t.Parallel()
	clusterCascades(t)
	team, neighbour := namespace(t), namespace(t)
	chart(t, cascadingHook, team, nil)
	local, wide := asAccount(t, team, cascadingHook), asAccount(t, clusterCascadingNamespace, cascadingHook)
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
	wantAllowed(t, "the team's hook", starting(local, team, "by-local"), read(local, team), rules(local, &cascadingv1.CascadingRuleList{}, team))
	wantForbidden(t, "the team's hook", starting(local, neighbour, "by-local"), read(local, neighbour), secrets(local, team), secrets(local, neighbour))
	wantAllowed(t, "the cluster's hook", starting(wide, team, "by-wide"), starting(wide, neighbour, "by-wide"), rules(wide, &cascadingv1.ClusterCascadingRuleList{}, ""))
	// Not even by mistake can it mix the kinds of rules.
	wantForbidden(t, "the cluster's hook", rules(wide, &cascadingv1.CascadingRuleList{}, team), secrets(wide, team), secrets(wide, clusterCascadingNamespace),
		attempt{"delete Scans", func(ctx context.Context) error { return wide.Delete(ctx, scans.New(team, "by-wide", "nothing")) }})
	admin := team + "-admin"
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: admin}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
	})
	user := as(t, admin)
	wantForbidden(t, admin,
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
}

// ownClusterScanType is one for the whole cluster whose scanner fails.
func ownClusterScanType(t *testing.T, name string) string {
	t.Helper()
	kind := &executionv1.ClusterScanType{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: shellSpec("test-txt", once)}
	kind.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Command = []string{"/bin/sh", "-c", "exit 3"}
	createGlobal(t, kind)
	return name
}

// podOfHook is the pod of a Scan's hook.
func podOfHook(t *testing.T, s *executionv1.Scan, hook string) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	eventually(t, "the hook's pod", func(ctx context.Context) (bool, error) {
		job := jobsOf(s)[hook]
		if job == nil {
			return false, nil
		}
		err := w.admin.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{"job-name": job.Name})
		return len(pods.Items) == 1, err
	})
	return &pods.Items[0]
}

// wantNoCopyOf looks through what a team's admin can read in its namespace.
func wantNoCopyOf(t *testing.T, secret, ns, admin string) {
	t.Helper()
	c := as(t, admin)
	for _, list := range []client.ObjectList{&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.PodList{}, &batchv1.JobList{}, &executionv1.ScanList{}, &corev1.EventList{}} {
		if err := c.List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		for _, o := range items(t, list) {
			if strings.Contains(o, secret) {
				t.Errorf("a %T of the team holds the hook's credential: %s", list, o)
			}
		}
	}
}

// items are the objects of a list, as JSON; bytes of Secrets are decoded.
func items(t *testing.T, list client.ObjectList) []string {
	t.Helper()
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
	if err != nil {
		t.Fatal(err)
	}
	return out
}
