// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
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
		"DeviceOfScanType": {initial(corev1.Container{VolumeDevices: []corev1.VolumeDevice{{Name: "of-the-type", DevicePath: "/dev/x"}}}), "volumeDevices: a Scan may use its own volumes"},
		"Nothing":          {func(*executionv1.ScanSpec) {}, ""},
	}
}

// nodeCases are ways to a node that the level baseline of the Pod Security Standards closes, and
// what scanners need beside it.
func nodeCases() map[string]policyCase {
	yes := true
	unmasked := corev1.UnmaskedProcMount
	with := func(c corev1.Container) policyCase {
		c.Name, c.Image = "init", "docker.io/e2e/ok"
		return policyCase{bring: func(s *executionv1.ScanSpec) { s.InitContainers = []corev1.Container{c} }}
	}
	context := func(s corev1.SecurityContext, says string) policyCase {
		out := with(corev1.Container{SecurityContext: &s})
		out.says = says
		return out
	}
	cases := map[string]policyCase{
		"HostPath": {func(s *executionv1.ScanSpec) {
			s.Volumes = []corev1.Volume{volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})}
		}, "only these types are allowed"},
		"Privileged":  context(corev1.SecurityContext{Privileged: &yes}, "none may be privileged"),
		"SysAdmin":    context(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}, "none may be privileged or add capabilities"),
		"HostProcess": context(corev1.SecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: &yes}}, "hostProcess"),
		"ProcMount":   context(corev1.SecurityContext{ProcMount: &unmasked}, "procMount"),
		"Seccomp":     context(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}, "may not be Unconfined"),
		"AppArmor":    context(corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}}, "may not be Unconfined"),
		"SELinux":     context(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}, "seLinuxOptions"),
		"Default": context(corev1.SecurityContext{
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			SELinuxOptions: &corev1.SELinuxOptions{Type: "container_t"}, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}, ""),
	}
	port := with(corev1.Container{Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}})
	port.says = "hostPort"
	cases["HostPort"] = port
	cases["Port"] = with(corev1.Container{Ports: []corev1.ContainerPort{{ContainerPort: 80}}})
	return cases
}

// wantPolicy tries to create something, as somebody who may create Scans and no pods.
func wantPolicy(ctx context.Context, c client.Client, o client.Object, says string) {
	GinkgoHelper()
	err := c.Create(ctx, o, client.DryRunAll)
	switch {
	case says == "" && err != nil:
		Fail(fmt.Sprintf("%T is refused: %v", o, err))
	case says != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says)):
		Fail(fmt.Sprintf("%T: the API server says %v, want a refusal with %q", o, err, says))
	}
}

var _ = Describe("The scan policy", Label("policy"), func() {
	// With the chart's ValidatingAdmissionPolicy somebody who may create Scans
	// and no pods gets nothing by a Scan that is not meant for Scans.
	It("lets nobody who may create Scans and no pods get by a Scan what is not meant for Scans", func(ctx SpecContext) {
		strict, open := namespace(ctx, policyLabel+"=strict"), namespace(ctx)
		c := scanAuthor(ctx, strict, open)
		untilPolicyHolds(ctx, strict)
		cases := policyCases()
		maps.Copy(cases, nodeCases())
		for name, tc := range cases {
			By(name, func() {
				s := scans.New(strict, "s", "nmap")
				tc.bring(&s.Spec)
				wantPolicy(ctx, c, s, tc.says)
				wantPolicy(ctx, c, &executionv1.ScheduledScan{
					ObjectMeta: metav1.ObjectMeta{Namespace: strict, Name: "s"},
					Spec:       executionv1.ScheduledScanSpec{ScanSpec: s.Spec.DeepCopy(), Interval: "1h"},
				}, tc.says)
				rule := &cascadingv1.CascadingRule{ObjectMeta: metav1.ObjectMeta{Namespace: strict, Name: "s"}}
				rule.Spec.Matches.AnyOf = []cascadingv1.MatchesRule{{Category: "Open Port"}}
				rule.Spec.ScanSpec = *s.Spec.DeepCopy()
				wantPolicy(ctx, c, rule, tc.says)
				elsewhere := s.DeepCopy()
				elsewhere.Namespace = open
				wantPolicy(ctx, c, elsewhere, "")
			})
		}
	})

	// Holds what pods are made from to the same.
	It("holds templates of pods to the same, and what was stored before stays manageable", func(ctx SpecContext) {
		strict := namespace(ctx, policyLabel+"=strict")
		c := scanAuthor(ctx, strict)
		untilPolicyHolds(ctx, strict)
		host := volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})
		kind := func(edit func(*corev1.PodSpec)) *executionv1.ScanType {
			o := shellType(strict, "test-txt")
			edit(&o.Spec.JobTemplate.Spec.Template.Spec)
			return o
		}
		account := func(name string) func(*corev1.PodSpec) {
			return func(p *corev1.PodSpec) { p.ServiceAccountName = name }
		}
		wantPolicy(ctx, c, kind(func(*corev1.PodSpec) {}), "")
		wantPolicy(ctx, c, kind(func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{host} }), "only these types are allowed")
		wantPolicy(ctx, c, kind(func(p *corev1.PodSpec) { p.Containers[0].Env = []corev1.EnvVar{secretEnv("database")} }), "env: only these Secrets")
		wantPolicy(ctx, c, kind(func(p *corev1.PodSpec) { p.HostNetwork = true }), "hostNetwork")
		wantPolicy(ctx, c, kind(account("cascading-scans")), "serviceAccountName: only these may be named: scan-*, allowed")
		wantPolicy(ctx, c, kind(account("allowed")), "")
		definition := parser(strict, "x")
		wantPolicy(ctx, c, definition, "")
		definition.Spec.Volumes = []corev1.Volume{host}
		wantPolicy(ctx, c, definition, "only these types are allowed")
		sender := hook(strict, "x", "ok", executionv1.ReadOnly, 0)
		name := "cascading-scans"
		sender.Spec.ServiceAccountName = &name
		wantPolicy(ctx, c, sender, "serviceAccountName")
		// What is stored stays manageable: a policy that comes later holds up no finalizer.
		before := namespace(ctx)
		old := scans.New(before, "old", "none")
		old.Spec.Volumes = []corev1.Volume{host}
		create(ctx, old)
		label(ctx, before)
		untilPolicyHolds(ctx, before)
		Expect(w.admin.Delete(ctx, old)).To(Succeed())
		gone(ctx, old)
	})

	// Without any value the chart's policy holds where a namespace has no level
	// of the Pod Security Standards, for whoever may create neither pods nor Jobs. What the charts
	// bring goes on to work, and so does what the operator makes of a ScheduledScan.
	It("holds by itself where a namespace has no Pod Security level, and lets charts and schedules work", func(ctx SpecContext) {
		const mine = policyLabel + "=by-itself"
		open, level := namespace(ctx, mine), namespace(ctx, mine, "pod-security.kubernetes.io/enforce=privileged")
		installPolicyByItself(ctx, open)
		c, operator := scanAuthor(ctx, open, level), asAccount(install.Namespace, "securecodebox-operator")
		editor := open + "-editor"
		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: open, Name: "edit"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: editor}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		})
		held := scans.New(open, "probe", "none")
		held.Spec.Volumes = []corev1.Volume{volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})}
		eventually(ctx, "the policy to hold in "+open, func(ctx context.Context) (bool, error) {
			err := c.Create(ctx, held.DeepCopy(), client.DryRunAll)
			return apierrors.IsForbidden(err), ignoreForbidden(err)
		})
		for name, tc := range nodeCases() {
			By(name, func() {
				s := scans.New(open, "s", "nmap")
				tc.bring(&s.Spec)
				wantPolicy(ctx, c, s, tc.says)
				wantPolicy(ctx, c, &executionv1.ScheduledScan{
					ObjectMeta: metav1.ObjectMeta{Namespace: open, Name: "s"},
					Spec:       executionv1.ScheduledScanSpec{ScanSpec: s.Spec.DeepCopy(), Interval: "1h"},
				}, tc.says)
				kind := shellType(open, "test-txt")
				kind.Spec.JobTemplate.Spec.Template.Spec.Volumes, kind.Spec.JobTemplate.Spec.Template.Spec.InitContainers = s.Spec.Volumes, s.Spec.InitContainers
				wantPolicy(ctx, c, kind, tc.says)
				wantPolicy(ctx, as(editor), s, "")
				wantPolicy(ctx, operator, s, "")
				elsewhere := s.DeepCopy()
				elsewhere.Namespace = level
				wantPolicy(ctx, c, elsewhere, "")
			})
		}
		By("Examples", func() { wantExamplesAllowed(ctx, c, open) })
	})
})

// installPolicyByItself makes the policy of a chart without values about it, for the namespaces of
// the test: the chart that all tests share has a stricter one for theirs.
func installPolicyByItself(ctx context.Context, name string) {
	GinkgoHelper()
	out, err := w.helm.Template(ctx, install.Release{Chart: "scanyard", Name: name, Namespace: install.Namespace, Values: map[string]any{
		"minio":      map[string]any{"enabled": false},
		"s3":         elsewhere,
		"scanPolicy": map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{policyLabel: "by-itself"}}},
	}}, "templates/scanpolicy.yaml")
	Expect(err).NotTo(HaveOccurred())
	for _, o := range documents(out) {
		createGlobal(ctx, o)
	}
}

// elsewhere is a store of one's own, for charts of which only other objects are looked at.
var elsewhere = map[string]any{"endpoint": "s3.example.com", "bucket": "scans"}

// documents are the objects of a YAML file.
func documents(text []byte) (objects []*unstructured.Unstructured) {
	GinkgoHelper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		if o.Object != nil {
			objects = append(objects, o)
		}
	}
}

// wantExamplesAllowed lets somebody who may create Scans and no pods create what the charts render,
// with all their values, their examples, and those of the documentation.
func wantExamplesAllowed(ctx context.Context, c client.Client, ns string) {
	GinkgoHelper()
	for pattern, atLeast := range map[string]int{
		"charts/internal/golden/*.yaml": 100, "charts/*/example.yaml": 10, "charts/*/cascading-rules/*.yaml": 10,
		"README.md": 1, "docs/*.md": 1, "docs/*/*.md": 5, "charts/*/README.md": 15, "hooks/*/README.md": 1,
	} {
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
		Expect(err).NotTo(HaveOccurred())
		count := 0
		for _, file := range files {
			for _, o := range examples(file) {
				o.SetNamespace(ns)
				count++
				Expect(c.Create(ctx, o, client.DryRunAll)).To(Succeed(), "%s", file)
			}
		}
		Expect(count).To(BeNumerically(">=", atLeast), "objects of %s", pattern)
	}
}

// whole is a block of documentation that is an object of ours, and not a part of one.
var whole = regexp.MustCompile(`(?m)^apiVersion: (execution|cascading)\.securecodebox\.io/`)

// examples are the namespaced objects of ours in a YAML or Markdown file.
func examples(file string) (objects []*unstructured.Unstructured) {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	blocks := [][]byte{text}
	if strings.HasSuffix(file, ".md") {
		blocks = nil
		for _, m := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(text, -1) {
			if whole.Match(m[1]) {
				blocks = append(blocks, m[1])
			}
		}
	}
	for _, b := range blocks {
		for _, o := range documents(b) {
			if slices.Contains([]string{"Scan", "ScheduledScan", "CascadingRule", "ScanType", "ParseDefinition", "ScanCompletionHook"}, o.GetKind()) {
				objects = append(objects, o)
			}
		}
	}
	return objects
}

// label puts a namespace under the policy.
func label(ctx context.Context, ns string) {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+policyLabel+`":"strict"}}}`))
	Expect(w.admin.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, patch)).To(Succeed())
}

// scanAuthor is somebody who may write our namespaced kinds and nothing else.
func scanAuthor(ctx context.Context, namespaces ...string) client.Client {
	GinkgoHelper()
	user := namespaces[0] + "-author"
	for _, ns := range namespaces {
		for _, kind := range []string{"scan", "scheduledscan", "cascadingrule", "scantype", "parsedefinition", "scancompletionhook"} {
			create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: kind},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: kind + "-editor-role"},
			})
		}
	}
	return as(user)
}

// untilPolicyHolds waits until the API server has taken the policy in.
func untilPolicyHolds(ctx context.Context, ns string) {
	GinkgoHelper()
	s := scans.New(ns, "probe", "none")
	s.Spec.Volumes = []corev1.Volume{volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}})}
	eventually(ctx, "the policy to hold in "+ns, func(ctx context.Context) (bool, error) {
		err := w.admin.Create(ctx, s.DeepCopy(), client.DryRunAll)
		return apierrors.IsForbidden(err), ignoreForbidden(err)
	})
}
