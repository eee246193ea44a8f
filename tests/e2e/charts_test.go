// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/scans"
)

func wantObjects(t *testing.T, namespace string, objects map[string]client.Object) {
	t.Helper()
	for name, o := range objects {
		if err := w.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
			t.Errorf("%T %s: %v", o, name, err)
		}
	}
}

func TestChartsInstallIntoANamespace(t *testing.T) {
	t.Parallel()
	cases := map[string]map[string]client.Object{
		"nmap":            {"nmap": &executionv1.ScanType{}, "nmap-xml": &executionv1.ParseDefinition{}},
		"gitleaks":        {"gitleaks": &executionv1.ScanType{}, "gitleaks-json": &executionv1.ParseDefinition{}},
		"test-scan":       {"test-scan": &executionv1.ScanType{}, "test-txt": &executionv1.ParseDefinition{}},
		"generic-webhook": {"generic-webhook": &executionv1.ScanCompletionHook{}},
		"update-field":    {"update-field": &executionv1.ScanCompletionHook{}},
	}
	for name, objects := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			chart(t, name, ns, nil)
			wantObjects(t, ns, objects)
			if err := w.helm.Uninstall(t.Context(), name, ns); err != nil {
				t.Error(err)
			}
		})
	}
}

// clusterReleases are installed once for all tests that need them: names of Cluster*
// objects are taken once per cluster.
var clusterReleases sync.Once

// clusterNamespace is where they are installed, and where their hooks run.
const clusterNamespace = "e2e-cluster-admin"

const (
	clusterWebhook = "e2e-cluster-webhook" // runs in clusterNamespace
	clusterUpdate  = "e2e-cluster-update"  // runs in the namespace of the Scan
)

func clusterCharts(t *testing.T) {
	t.Helper()
	clusterReleases.Do(func() {
		wide := map[string]any{"clusterWide": true}
		for _, r := range []install.Release{
			{Chart: "nmap", Values: wide},
			{Chart: "gitleaks", Values: wide},
			{Chart: "test-scan", Values: wide},
			{Chart: "generic-webhook", Name: clusterWebhook, Values: map[string]any{
				"clusterWide": true, "executionNamespace": clusterNamespace, "webhookUrl": w.hooks.URL("/cluster"), "fullnameOverride": clusterWebhook,
			}},
			{Chart: "update-field", Name: clusterUpdate, Values: map[string]any{
				"clusterWide": true, "fullnameOverride": clusterUpdate, "attribute": map[string]any{"name": "category", "value": "renamed"},
			}},
		} {
			r.Namespace = clusterNamespace
			release(t, r)
		}
	})
}

func TestChartsInstallClusterWide(t *testing.T) {
	t.Parallel()
	clusterCharts(t)
	webhook, update := &executionv1.ClusterScanCompletionHook{}, &executionv1.ClusterScanCompletionHook{}
	wantObjects(t, "", map[string]client.Object{
		"nmap": &executionv1.ClusterScanType{}, "nmap-xml": &executionv1.ClusterParseDefinition{},
		"gitleaks": &executionv1.ClusterScanType{}, "gitleaks-json": &executionv1.ClusterParseDefinition{},
		"test-scan": &executionv1.ClusterScanType{}, "test-txt": &executionv1.ClusterParseDefinition{},
		clusterWebhook: webhook, clusterUpdate: update,
	})
	if webhook.Spec.ExecutionNamespace != clusterNamespace || update.Spec.ExecutionNamespace != "" {
		t.Errorf("executionNamespaces %q and %q", webhook.Spec.ExecutionNamespace, update.Spec.ExecutionNamespace)
	}
}

func TestChartsRefuse(t *testing.T) {
	t.Parallel()
	configMap := []any{map[string]any{"name": "rules", "configMap": map[string]any{"name": "rules"}}}
	cases := map[string]struct {
		chart  string
		values map[string]any
		says   []string
	}{
		"ConfigMapOfScanner": {
			"nmap",
			map[string]any{"clusterWide": true, "scanner": map[string]any{"extraVolumes": configMap}},
			[]string{"clusterWide is true, but scanner.env or scanner.extraVolumes reads a ConfigMap", "--set clusterWide=false"},
		},
		"ConfigMapOfHook": {
			"generic-webhook",
			map[string]any{"clusterWide": true, "hook": map[string]any{"extraVolumes": configMap}},
			[]string{"reads a ConfigMap", "--set executionNamespace="},
		},
		"OtherExecutionNamespace": {
			"generic-webhook",
			map[string]any{"clusterWide": true, "executionNamespace": "elsewhere"},
			[]string{"executionNamespace is elsewhere, but the release is installed into", "leave executionNamespace empty"},
		},
		"ExecutionNamespaceOfOneNamespace": {
			"update-field",
			map[string]any{"executionNamespace": "elsewhere"},
			[]string{"clusterWide is false", "--set clusterWide=true"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := w.helm.Install(t.Context(), install.Release{Name: "refused", Chart: tc.chart, Namespace: "e2e-refused", Values: tc.values})
			if err == nil {
				t.Fatal("it was installed")
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the refusal does not say %q:\n%v", part, err)
				}
			}
		})
	}
}

// TestUserRoles asks what users who have Kubernetes' own roles in a namespace may do.
func TestUserRoles(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	for _, role := range []string{"view", "edit", "admin"} {
		create(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: ns + "-" + role}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})
	}
	const exec, casc = "execution.securecodebox.io", "cascading.securecodebox.io"
	cases := []struct {
		name                      string
		who                       []string
		verbs, groups, kinds, sub string
		inNamespace, want         bool
	}{
		{"ViewersRead", []string{"view", "edit", "admin"}, "get list watch", exec, "scans scheduledscans scantypes parsedefinitions scancompletionhooks", "", true, true},
		{"ViewersReadRules", []string{"view", "edit", "admin"}, "get list watch", casc, "cascadingrules", "", true, true},
		{"ViewersDoNotWrite", []string{"view", "nobody"}, "create update patch delete", exec, "scans scheduledscans scantypes parsedefinitions scancompletionhooks", "", true, false},
		{"EditorsWrite", []string{"edit", "admin"}, "create update patch delete", exec, "scans scheduledscans scantypes parsedefinitions scancompletionhooks", "", true, true},
		{"NobodyWritesStatus", []string{"view", "edit", "admin", "nobody"}, "update patch", exec, "scans", "status", true, false},
		{"OthersReadNothing", []string{"nobody"}, "get list", exec, "scans", "", true, false},
		{"EverybodyReadsClusterKinds", []string{"view", "edit", "admin", "nobody"}, "get list watch", exec, "clusterscantypes clusterparsedefinitions clusterscancompletionhooks", "", false, true},
		{"EverybodyReadsClusterRules", []string{"nobody"}, "get list watch", casc, "clustercascadingrules", "", false, true},
		{"OnlyClusterAdminsWriteClusterKinds", []string{"view", "edit", "admin", "nobody"}, "create update patch delete", exec, "clusterscantypes clusterparsedefinitions clusterscancompletionhooks", "", false, false},
		{"OnlyClusterAdminsWriteClusterRules", []string{"view", "edit", "admin", "nobody"}, "create update patch delete", casc, "clustercascadingrules", "", false, false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			for _, who := range tc.who {
				for verb := range strings.FieldsSeq(tc.verbs) {
					for kind := range strings.FieldsSeq(tc.kinds) {
						a := &authorizationv1.ResourceAttributes{Verb: verb, Group: tc.groups, Resource: kind, Subresource: tc.sub}
						if tc.inNamespace {
							a.Namespace = ns
						}
						wantAccess(t, ns+"-"+who, a, tc.want)
					}
				}
			}
		})
	}
}

// wantAccess waits for the answer: roles are aggregated a moment after they are made.
func wantAccess(t *testing.T, user string, a *authorizationv1.ResourceAttributes, want bool) {
	t.Helper()
	eventually(t, "the answer whether "+user+" may "+a.Verb+" "+a.Resource, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:authenticated"}, ResourceAttributes: a,
		}}
		err := w.admin.Create(ctx, review)
		return review.Status.Allowed == want, err
	})
}

// TestUsersByImpersonation goes through the API as users do.
func TestUsersByImpersonation(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	editor := ns + "-editor"
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: editor}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	})
	c, err := scans.Connect(scans.As(w.config, editor, "system:authenticated"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the editor to create a Scan", func(ctx context.Context) (bool, error) {
		err := c.Create(ctx, scans.New(ns, "mine", "nothing"))
		return err == nil, client.IgnoreNotFound(ignoreForbidden(err))
	})
	wide := &executionv1.ClusterScanType{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: shellSpec("test-txt")}
	if err := c.Create(t.Context(), wide); !apierrors.IsForbidden(err) {
		t.Errorf("an editor creates a ClusterScanType: %v, want Forbidden", err)
	}
	if err := c.List(t.Context(), &executionv1.ClusterScanTypeList{}); err != nil {
		t.Errorf("an editor lists ClusterScanTypes: %v", err)
	}
	if err := c.List(t.Context(), &executionv1.ScanList{}, client.InNamespace("default")); !apierrors.IsForbidden(err) {
		t.Errorf("an editor of one namespace reads Scans of another: %v, want Forbidden", err)
	}
}

func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// TestDefect01ClusterWideScanWorksAsInstalled runs a clusterWide Scan with no more
// rights than the chart ships, while Scans of others go on.
func TestDefect01ClusterWideScanWorksAsInstalled(t *testing.T) {
	t.Parallel()
	clusterCharts(t)
	ns, other := namespace(t), namespace(t)
	chart(t, "test-scan", other, nil)
	wide, local := onlyHooks(scans.NewClusterWide(ns, "wide", "test-scan"), ""), scans.New(other, "local", "test-scan")
	create(t, wide, local)
	wantDone(t, wide)
	wantDone(t, local)
	logs, err := w.op.Logs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := complaints(logs); err != nil {
		t.Error(err)
	}
}

// TestDefect51RestrictedNamespace runs a whole Scan where the restricted Pod Security
// level is enforced.
func TestDefect51RestrictedNamespace(t *testing.T) {
	t.Parallel()
	ns := namespace(t, "pod-security.kubernetes.io/enforce=restricted")
	chart(t, "nmap", ns, nil)
	chart(t, "update-field", ns, nil)
	chart(t, "generic-webhook", ns, map[string]any{"webhookUrl": w.hooks.URL("/" + ns)})
	got := done(t, scans.New(ns, "restricted", "nmap", "-p", "1", "127.0.0.1"))
	wantJobs(t, got, "scanner", "parser", "read-and-write-hook/update-field", "read-only-hook/generic-webhook")
	if n := len(w.hooks.At("/" + ns)); n != 1 {
		t.Errorf("the webhook was called %d times", n)
	}
	var pods corev1.PodList
	if err := w.admin.List(t.Context(), &pods, client.InNamespace(ns)); err != nil || len(pods.Items) != 4 {
		t.Errorf("%d pods ran, want 4 (%v)", len(pods.Items), err)
	}
}
