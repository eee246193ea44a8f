// SPDX-License-Identifier: Apache-2.0

package chartcontract

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// podOf returns the pod of a ScanType.
func podOf(t *testing.T, rendering, scanType string) corev1.PodSpec {
	t.Helper()
	s, ok := scanTypes(t, rendering)[scanType]
	if !ok {
		t.Fatalf("%s has no ScanType %s", rendering, scanType)
	}
	return s.Spec.JobTemplate.Spec.Template.Spec
}

// mounted returns the volume that a container has at a path.
func mounted(t *testing.T, pod corev1.PodSpec, path string) (corev1.Volume, corev1.VolumeMount) {
	t.Helper()
	for _, m := range pod.Containers[0].VolumeMounts {
		if m.MountPath != path {
			continue
		}
		for _, v := range pod.Volumes {
			if v.Name == m.Name {
				return v, m
			}
		}
	}
	t.Fatalf("nothing is mounted at %s: %v of %v", path, pod.Containers[0].VolumeMounts, pod.Volumes)
	return corev1.Volume{}, corev1.VolumeMount{}
}

// TestScannersBringWhatTheyNeed: variables and volumes that a chart adds by itself, and
// that values of the same name take the place of.
func TestScannersBringWhatTheyNeed(t *testing.T) {
	firefox := []corev1.EnvVar{{Name: "MOZ_HEADLESS", Value: "1"}, {Name: "MOZ_DISABLE_CONTENT_SANDBOX", Value: "1"}, {Name: "MOZ_ENABLE_WAYLAND", Value: "0"}}
	if got := podOf(t, "screenshooter", "screenshooter").Containers[0].Env; !slices.Equal(got, firefox) {
		t.Errorf("screenshooter: env %v", got)
	}
	changed := []corev1.EnvVar{firefox[1], firefox[2], {Name: "MOZ_HEADLESS", Value: "0"}, {Name: "LANG", Value: "C.UTF-8"}}
	if got := podOf(t, "screenshooter-env", "screenshooter").Containers[0].Env; !slices.Equal(got, changed) {
		t.Errorf("screenshooter with variables of the user: env %v, want %v", got, changed)
	}
	pod := podOf(t, "subfinder", "subfinder")
	if v, _ := mounted(t, pod, "/.config/subfinder/"); v.Name != "subfinder-config" || v.EmptyDir == nil {
		t.Errorf("subfinder: %v", v)
	}
	if pod.SecurityContext == nil || *pod.SecurityContext.RunAsUser != 10001 {
		t.Errorf("subfinder: pod security context %v", pod.SecurityContext)
	}
	pod = podOf(t, "subfinder-domain", "subfinder")
	if v, _ := mounted(t, pod, "/.config/subfinder/"); v.Secret == nil || len(pod.Volumes) != 1 {
		t.Errorf("subfinder with a volume of the user: %v", pod.Volumes)
	}
}

// TestNucleiTemplateCache: a claim, what fills it and what reads it.
func TestNucleiTemplateCache(t *testing.T) {
	claim := one[corev1.PersistentVolumeClaim](t, "nuclei", "PersistentVolumeClaim")
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if claim.Name != "nuclei-content-claim" || size.String() != "1Gi" || !slices.Equal(claim.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{"ReadWriteOnce", "ReadOnlyMany"}) {
		t.Errorf("claim %s: %v", claim.Name, claim.Spec)
	}
	v, m := mounted(t, podOf(t, "nuclei", "nuclei"), "/root")
	if v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != claim.Name || !m.ReadOnly {
		t.Errorf("scans have %v at %v", v, m)
	}
	cron, job := one[batchv1.CronJob](t, "nuclei", "CronJob"), one[batchv1.Job](t, "nuclei", "Job")
	if cron.Name != "nuclei-update-template-cache" || job.Name != "nuclei-update-initial-template-cache" {
		t.Errorf("CronJob %s, Job %s", cron.Name, job.Name)
	}
	if s := cron.Spec; s.Schedule != "0 */1 * * *" || *s.SuccessfulJobsHistoryLimit != 3 || *s.FailedJobsHistoryLimit != 10 || s.ConcurrencyPolicy != batchv1.ReplaceConcurrent {
		t.Errorf("CronJob %+v", s)
	}
	for name, pod := range map[string]corev1.PodSpec{"CronJob": cron.Spec.JobTemplate.Spec.Template.Spec, "Job": job.Spec.Template.Spec} {
		v, m := mounted(t, pod, "/root")
		if v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != claim.Name || m.ReadOnly || !slices.Equal(pod.Containers[0].Command, []string{"nuclei", "-update-templates"}) {
			t.Errorf("the %s runs %v with %v", name, pod.Containers[0].Command, v)
		}
	}
	if jobs := objectsOf[batchv1.Job](t, "nuclei-upgrade", "Job"); len(jobs) > 0 {
		t.Error("an upgrade would change the Job, which the API server refuses")
	}
	for _, rendering := range []string{"nuclei-no-cache", "nuclei-cluster"} {
		if n := len(objectsOf[map[string]any](t, rendering, "PersistentVolumeClaim", "CronJob", "Job")); n > 0 {
			t.Errorf("%s has %d objects of the cache", rendering, n)
		}
	}
}

// TestTrivyDatabaseServer: the address that scans ask is that of a Service, whose pods
// could run where the restricted Pod Security level is enforced.
func TestTrivyDatabaseServer(t *testing.T) {
	for _, rendering := range []string{"trivy", "trivy-cluster"} {
		service := one[corev1.Service](t, rendering, "Service")
		url := "http://" + service.Name + "." + service.Namespace + ".svc:8080"
		for name, s := range scanTypes(t, rendering) {
			if asks := slices.Contains(s.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Command, url); asks != (name != "trivy-k8s") {
				t.Errorf("%s: %s asks %s: %v", rendering, name, url, asks)
			}
		}
		d := one[appsv1.Deployment](t, rendering, "Deployment")
		if d.Name != "trivy-database" || *d.Spec.Replicas != 1 {
			t.Errorf("%s: Deployment %s with %d replicas", rendering, d.Name, *d.Spec.Replicas)
		}
		for key, value := range service.Spec.Selector {
			if d.Spec.Template.Labels[key] != value || d.Spec.Selector.MatchLabels[key] != value {
				t.Errorf("%s: the Service selects %s=%s, pods have %v", rendering, key, value, d.Spec.Template.Labels)
			}
		}
		pod := d.Spec.Template.Spec
		c, p := pod.Containers[0], pod.SecurityContext
		if !slices.Equal(c.Command, []string{"trivy", "server", "--listen", "0.0.0.0:8080"}) {
			t.Errorf("%s: runs %v", rendering, c.Command)
		}
		for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
			if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != "/healthz" {
				t.Errorf("%s: %s probe %v", rendering, name, probe)
			}
		}
		if *p.RunAsUser != 10001 || !*p.RunAsNonRoot || p.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.AutomountServiceAccountToken ||
			*c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem || !slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: security contexts %v and %v", rendering, p, c.SecurityContext)
		}
		if v, _ := mounted(t, pod, "/var/cache/trivy"); v.EmptyDir == nil || v.EmptyDir.SizeLimit.String() != "1Gi" {
			t.Errorf("%s: cache %v", rendering, v)
		}
		if len(c.Resources.Requests) == 0 || len(c.Resources.Limits) == 0 {
			t.Errorf("%s: resources %v", rendering, c.Resources)
		}
	}
	if n := len(objectsOf[map[string]any](t, "trivy-no-server", "Deployment", "Service")); n > 0 {
		t.Errorf("%d objects of a server that is off", n)
	}
}

// TestTrivyMayReadOnly is about secureCodeBox's chart, which binds cluster-admin: here
// the roles read, no Secrets among what they read, and bindings name them.
func TestTrivyMayReadOnly(t *testing.T) {
	for _, rendering := range []string{"trivy", "trivy-full", "trivy-cluster-k8s"} {
		roles := map[string]bool{"lurker": true} // the operator's own
		for _, r := range objectsOf[rbacv1.ClusterRole](t, rendering, "Role", "ClusterRole") {
			roles[r.Name] = true
			for _, rule := range r.Rules {
				if r.Name == "trivy-autodiscovery" {
					if !slices.Equal(rule.Resources, []string{"secrets"}) || !slices.Equal(rule.Verbs, []string{"create"}) {
						t.Errorf("%s: %s may %v %v", rendering, r.Name, rule.Verbs, rule.Resources)
					}
					continue
				}
				if !slices.Equal(rule.Verbs, []string{"get", "list"}) || slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "*") {
					t.Errorf("%s: %s may %v %v", rendering, r.Name, rule.Verbs, rule.Resources)
				}
			}
		}
		accounts := map[string]bool{}
		for _, a := range objectsOf[corev1.ServiceAccount](t, rendering, "ServiceAccount") {
			accounts[a.Namespace+"/"+a.Name] = true
		}
		wide := 0
		for _, b := range objectsOf[rbacv1.ClusterRoleBinding](t, rendering, "RoleBinding", "ClusterRoleBinding") {
			if b.Kind == "ClusterRoleBinding" {
				wide++
			}
			if !roles[b.RoleRef.Name] {
				t.Errorf("%s: %s binds %s", rendering, b.Name, b.RoleRef.Name)
			}
			for _, s := range b.Subjects {
				if !accounts[s.Namespace+"/"+s.Name] {
					t.Errorf("%s: %s is for %s/%s, which the chart does not make", rendering, b.Name, s.Namespace, s.Name)
				}
			}
		}
		if want := map[string]int{"trivy": 0, "trivy-full": 1, "trivy-cluster-k8s": 1}[rendering]; wide != want {
			t.Errorf("%s: %d ClusterRoleBindings, want %d", rendering, wide, want)
		}
		namespaces := map[string][]string{"trivy-cluster-k8s": {"team-a", "team-b"}}[rendering]
		if namespaces == nil {
			namespaces = []string{"team"}
		}
		for _, s := range scanTypes(t, rendering) {
			name := s.Spec.JobTemplate.Spec.Template.Spec.ServiceAccountName
			for _, ns := range namespaces {
				if name != "" && !accounts[ns+"/"+name] {
					t.Errorf("%s: ServiceAccount %s of %s is missing in %s", rendering, name, s.Name, ns)
				}
			}
		}
	}
}

// TestZapConfigMaps: their names are used by Scans and by auto-discovery.
func TestZapConfigMaps(t *testing.T) {
	data := map[string]map[string]string{}
	for _, c := range objectsOf[corev1.ConfigMap](t, "zap-automation-framework", "ConfigMap") {
		data[c.Name] = c.Data
	}
	pod := podOf(t, "zap-automation-framework", "zap-automation-framework")
	v, m := mounted(t, pod, "/zap/zap-entrypoint.bash")
	if v.ConfigMap == nil || v.ConfigMap.Name != "zap-automation-framework-entrypoint" || data[v.ConfigMap.Name][m.SubPath] == "" {
		t.Errorf("the start script is from %v", v)
	}
	if v, _ := mounted(t, pod, "/zap/wrk"); v.EmptyDir == nil {
		t.Errorf("/zap/wrk is %v", v)
	}
	baseline := data["zap-automation-framework-baseline-config"]["automation.yaml"]
	for _, part := range []string{"${TARGET_URL}", "traditional-xml", "reportDir: /home/securecodebox\n", "reportFile: zap-results\n"} {
		if !strings.Contains(baseline, part) {
			t.Errorf("the baseline plan does not say %q", part)
		}
	}
	if wide := podOf(t, "zap-automation-framework-cluster", "zap-automation-framework").Containers[0]; strings.TrimSpace(wide.Env[0].Value) != strings.TrimSpace(baseline) {
		t.Errorf("the plan for all namespaces is another: %s", wide.Env[0].Value)
	}
}

// TestZapStartScript runs the command of the ScanType with a stand-in for ZAP: only the
// exit code 1 stays, and the plan is written unless the Scan has brought one.
func TestZapStartScript(t *testing.T) {
	for _, tc := range []struct {
		name             string
		zap, want        string
		mounted, planned string
	}{
		{"Success", "exit 0", "", "", "the plan"},
		{"Error", "exit 1", "exit status 1", "", "the plan"},
		{"Warnings", "exit 2", "", "", "the plan"},
		{"Killed", "kill -9 $$", "", "", "the plan"},
		{"PlanOfTheScan", "exit 0", "", "mine", "mine"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			zap, home := filepath.Join(dir, "zap"), filepath.Join(dir, "home")
			written := filepath.Join(home, "scb-automation", "automation.yaml")
			if err := errors.Join(os.MkdirAll(zap, 0o755), os.MkdirAll(filepath.Dir(written), 0o755),
				os.WriteFile(filepath.Join(zap, "zap.sh"), []byte("#!/bin/sh\nprintf '%s|' \"$@\" >args\n"+tc.zap+"\n"), 0o755)); err != nil {
				t.Fatal(err)
			}
			if tc.mounted != "" {
				if err := os.WriteFile(written, []byte(tc.mounted), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if err := os.Remove(filepath.Dir(written)); err != nil {
				t.Fatal(err)
			}
			command := podOf(t, "zap-automation-framework-cluster", "zap-automation-framework").Containers[0].Command
			script := strings.NewReplacer(executionv1.ResultsDir, home+"/", "cd /zap ", "cd "+zap+" ").Replace(command[2])
			cmd := exec.CommandContext(t.Context(), command[0], command[1], script, command[3], "-autorun", "a b")
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "BASELINE_PLAN=the plan"}
			out, err := cmd.CombinedOutput()
			if got := errorText(err); got != tc.want {
				t.Errorf("the scanner ends with %q, want %q\n%s", got, tc.want, out)
			}
			if args, err := os.ReadFile(filepath.Join(zap, "args")); err != nil || string(args) != "-cmd|-autorun|a b|" {
				t.Errorf("ZAP gets %q, %v", args, err)
			}
			if plan, err := os.ReadFile(written); err != nil || strings.TrimSpace(string(plan)) != tc.planned {
				t.Errorf("the plan is %q, want %q (%v)", plan, tc.planned, err)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
