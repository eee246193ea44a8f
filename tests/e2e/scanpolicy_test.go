// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/scans"
)

// policyLabel marks the namespaces that the chart's policy holds for in these tests.
const policyLabel = "e2e/scan-policy"

// policyValues install it.
func policyValues() map[string]any {
	return map[string]any{"enabled": true, "namespaceSelector": map[string]any{"matchLabels": map[string]any{policyLabel: "strict"}}, "serviceAccounts": []any{"scan-*", "allowed"}}
}

func volume(source corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: "v", VolumeSource: source}
}

func secretEnv(secret string) corev1.EnvVar {
	return corev1.EnvVar{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: "token",
	}}}
}

func projected(source corev1.VolumeProjection) corev1.Volume {
	return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}})
}

// policyCase is something that a Scan brings along.
type policyCase struct {
	bring func(*executionv1.ScanSpec)
	// says is what the refusal tells; empty where it is allowed.
	says string
}

func policyCases() map[string]policyCase {
	with := func(v corev1.Volume) func(*executionv1.ScanSpec) {
		return func(s *executionv1.ScanSpec) {
			s.Volumes = []corev1.Volume{{Name: "ok", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, v}
		}
	}
	initial := func(c corev1.Container) func(*executionv1.ScanSpec) {
		c.Name, c.Image = "init", "docker.io/e2e/ok"
		return func(s *executionv1.ScanSpec) { s.InitContainers = []corev1.Container{c} }
	}
	yes := true
	secret := func(name string) corev1.VolumeProjection {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	return map[string]policyCase{
		"HostPath":         {with(volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}})), "only these types are allowed"},
		"NFS":              {with(volume(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}})), "only these types are allowed"},
		"ForeignSecret":    {with(volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "database"}})), "only these Secrets may be mounted: scan-*"},
		"OwnSecret":        {with(volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "scan-login"}})), ""},
		"ProjectedForeign": {with(projected(secret("database"))), "only these Secrets may be projected"},
		"ProjectedOwn":     {with(projected(secret("scan-login"))), ""},
		"Token":            {with(projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}})), "may not hold tokens"},
		"ConfigMap":        {with(volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}})), ""},
		"EnvForeign":       {func(s *executionv1.ScanSpec) { s.Env = []corev1.EnvVar{{Name: "A", Value: "b"}, secretEnv("database")} }, "env: only these Secrets may be read"},
		"EnvOwn":           {func(s *executionv1.ScanSpec) { s.Env = []corev1.EnvVar{secretEnv("scan-login")} }, ""},
		"InitEnvForeign":   {initial(corev1.Container{Env: []corev1.EnvVar{secretEnv("database")}}), "env: only these Secrets may be read"},
		"InitEnvFromForeign": {initial(corev1.Container{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "database"},
		}}}}), "envFrom: only these Secrets may be read"},
		"MountOfScanType": {func(s *executionv1.ScanSpec) {
			s.VolumeMounts = []corev1.VolumeMount{{Name: "of-the-type", MountPath: "/x"}}
		}, "not those of its ScanType"},
		"InitMountOfType": {initial(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "lurker-token", MountPath: "/x"}}}), "not those of its ScanType"},
		"MountOfResults":  {initial(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "scan-results", MountPath: "/x"}}}), ""},
		"Privileged":      {initial(corev1.Container{SecurityContext: &corev1.SecurityContext{Privileged: &yes}}), "none may be privileged"},
		"Capabilities": {initial(corev1.Container{SecurityContext: &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}},
		}}), "none may be privileged or add capabilities"},
		"Nothing": {func(*executionv1.ScanSpec) {}, ""},
	}
}

// wantPolicy tries to create something, as somebody who may create Scans and no pods.
func wantPolicy(t *testing.T, c client.Client, o client.Object, says string) {
	t.Helper()
	err := c.Create(t.Context(), o, client.DryRunAll)
	switch {
	case says == "" && err != nil:
		t.Errorf("%T is refused: %v", o, err)
	case says != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says)):
		t.Errorf("%T: the API server says %v, want a refusal with %q", o, err, says)
	}
}

// TestScanPolicy: with the chart's ValidatingAdmissionPolicy somebody who may create Scans
// and no pods gets nothing by a Scan that is not meant for Scans.
func TestScanPolicy(t *testing.T) {
	t.Parallel()
	strict, open := namespace(t, policyLabel+"=strict"), namespace(t)
	c := scanAuthor(t, strict, open)
	untilPolicyHolds(t, strict)
	for name, tc := range policyCases() {
		t.Run(name, func(t *testing.T) {
			s := scans.New(strict, "s", "nmap")
			tc.bring(&s.Spec)
			wantPolicy(t, c, s, tc.says)
			wantPolicy(t, c, &executionv1.ScheduledScan{
				ObjectMeta: metav1.ObjectMeta{Namespace: strict, Name: "s"},
				Spec:       executionv1.ScheduledScanSpec{ScanSpec: s.Spec.DeepCopy(), Interval: "1h"},
			}, tc.says)
			rule := &cascadingv1.CascadingRule{ObjectMeta: metav1.ObjectMeta{Namespace: strict, Name: "s"}}
			rule.Spec.Matches.AnyOf = []cascadingv1.MatchesRule{{Category: "Open Port"}}
			rule.Spec.ScanSpec = *s.Spec.DeepCopy()
			wantPolicy(t, c, rule, tc.says)
			elsewhere := s.DeepCopy()
			elsewhere.Namespace = open
			wantPolicy(t, c, elsewhere, "")
		})
	}
}

// TestScanPolicyOfTemplates holds what pods are made from to the same.
func TestScanPolicyOfTemplates(t *testing.T) {
	t.Parallel()
	strict := namespace(t, policyLabel+"=strict")
	c := scanAuthor(t, strict)
	untilPolicyHolds(t, strict)
	host := volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})
	kind := func(edit func(*corev1.PodSpec)) *executionv1.ScanType {
		o := shellType(strict, "test-txt")
		edit(&o.Spec.JobTemplate.Spec.Template.Spec)
		return o
	}
	account := func(name string) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) { p.ServiceAccountName = name }
	}
	wantPolicy(t, c, kind(func(*corev1.PodSpec) {}), "")
	wantPolicy(t, c, kind(func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{host} }), "only these types are allowed")
	wantPolicy(t, c, kind(func(p *corev1.PodSpec) { p.Containers[0].Env = []corev1.EnvVar{secretEnv("database")} }), "env: only these Secrets")
	wantPolicy(t, c, kind(func(p *corev1.PodSpec) { p.HostNetwork = true }), "hostNetwork")
	wantPolicy(t, c, kind(account("cascading-scans")), "serviceAccountName: only these may be named: scan-*, allowed")
	wantPolicy(t, c, kind(account("allowed")), "")
	definition := parser(strict, "x")
	wantPolicy(t, c, definition, "")
	definition.Spec.Volumes = []corev1.Volume{host}
	wantPolicy(t, c, definition, "only these types are allowed")
	sender := hook(strict, "x", "ok", executionv1.ReadOnly, 0)
	name := "cascading-scans"
	sender.Spec.ServiceAccountName = &name
	wantPolicy(t, c, sender, "serviceAccountName")
	// What is stored stays manageable: a policy that comes later holds up no finalizer.
	before := namespace(t)
	old := scans.New(before, "old", "none")
	old.Spec.Volumes = []corev1.Volume{host}
	create(t, old)
	label(t, before)
	untilPolicyHolds(t, before)
	if err := w.admin.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	gone(t, old)
}

// label puts a namespace under the policy.
func label(t *testing.T, ns string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+policyLabel+`":"strict"}}}`))
	if err := w.admin.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, patch); err != nil {
		t.Fatal(err)
	}
}

// scanAuthor is somebody who may write our namespaced kinds and nothing else.
func scanAuthor(t *testing.T, namespaces ...string) client.Client {
	t.Helper()
	user := namespaces[0] + "-author"
	for _, ns := range namespaces {
		for _, kind := range []string{"scan", "scheduledscan", "cascadingrule", "scantype", "parsedefinition", "scancompletionhook"} {
			create(t, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kind},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: kind + "-editor-role"},
			})
		}
	}
	return as(t, user)
}

// untilPolicyHolds waits until the API server has taken the policy in.
func untilPolicyHolds(t *testing.T, ns string) {
	t.Helper()
	s := scans.New(ns, "probe", "none")
	s.Spec.Volumes = []corev1.Volume{volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})}
	eventually(t, "the policy to hold in "+ns, func(ctx context.Context) (bool, error) {
		err := w.admin.Create(ctx, s.DeepCopy(), client.DryRunAll)
		return apierrors.IsForbidden(err), ignoreForbidden(err)
	})
}
