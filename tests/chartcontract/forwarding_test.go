// SPDX-License-Identifier: Apache-2.0

package chartcontract

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// forwardingRenderings are those of the chart forwarding, without the one that has nothing on.
func forwardingRenderings(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(golden, "forwarding-*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d renderings in %s: %v", len(files), golden, err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".yaml"))
	}
	return names
}

// TestForwardingIsOffUntilAskedFor: the defaults make no object at all.
func TestForwardingIsOffUntilAskedFor(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(golden, "forwarding.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range separator.Split(string(raw), -1) {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil || len(o) > 0 {
			t.Errorf("the defaults render %v (%v)", o, err)
		}
	}
}

// forwardingPods are the pods of all parts in all renderings, by rendering and part.
func forwardingPods(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	all := map[string]corev1.PodTemplateSpec{}
	for _, rendering := range forwardingRenderings(t) {
		add := func(template corev1.PodTemplateSpec) {
			all[rendering+"/"+template.Labels["app.kubernetes.io/component"]] = template
		}
		for _, d := range objectsOf[appsv1.Deployment](t, rendering, "Deployment") {
			add(d.Spec.Template)
		}
		for _, s := range objectsOf[appsv1.StatefulSet](t, rendering, "StatefulSet") {
			add(s.Spec.Template)
		}
		for _, j := range objectsOf[batchv1.Job](t, rendering, "Job") {
			add(j.Spec.Template)
		}
	}
	for _, want := range []string{"forwarding-full/forwarder", "forwarding-full/exporter", "forwarding-exporter/cluster-id", "forwarding-receiver/receiver"} {
		if _, ok := all[want]; !ok {
			t.Errorf("there is no pod %s", want)
		}
	}
	return all
}

// fleet is a receiver that writes reports of other clusters.
const fleet = "forwarding-fleet"

// TestFleetWritesReportsOfItsNamespacesOnly: a Role in each namespace that rules lead to, once, and nothing for the whole cluster.
func TestFleetWritesReportsOfItsNamespacesOnly(t *testing.T) {
	if wide := objectsOf[rbacv1.ClusterRole](t, fleet, "ClusterRole"); len(wide) > 0 {
		t.Errorf("the receiver has rights in all namespaces: %v", wide)
	}
	want := []rbacv1.PolicyRule{{APIGroups: []string{"wgpolicyk8s.io"}, Resources: []string{"policyreports"}, Verbs: []string{"list", "create", "patch", "delete"}}}
	var namespaces []string
	for _, role := range objectsOf[rbacv1.Role](t, fleet, "Role") {
		namespaces = append(namespaces, role.Namespace)
		if !reflect.DeepEqual(role.Rules, want) {
			t.Errorf("the receiver may %v in %s", role.Rules, role.Namespace)
		}
	}
	var bound []string
	for _, binding := range objectsOf[rbacv1.RoleBinding](t, fleet, "RoleBinding") {
		bound = append(bound, binding.Namespace)
	}
	if led := []string{"edge-1-shop", "edge-2"}; !slices.Equal(namespaces, led) || !slices.Equal(bound, led) {
		t.Errorf("Roles are in %v, RoleBindings in %v, want both in %v", namespaces, bound, led)
	}
}

// TestForwardingPodsAreRestricted: the level restricted, uid 65532 and a root that nobody writes to; exporter and
// receiver have no token. That the real admission lets them in is tried end to end.
func TestForwardingPodsAreRestricted(t *testing.T) {
	for name, template := range forwardingPods(t) {
		pod := template.Spec
		c := pod.SecurityContext
		if c == nil || !*c.RunAsNonRoot || *c.RunAsUser != 65532 || *c.FSGroup != 65532 || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: security context %v", name, c)
		}
		part := template.Labels["app.kubernetes.io/component"]
		token := pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken
		if token != (slices.Contains([]string{"forwarder", "cluster-id"}, part) || name == fleet+"/receiver") {
			t.Errorf("%s: has a token: %v", name, token)
		}
		for _, c := range pod.Containers {
			wantRestricted(t, name, c)
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
				t.Errorf("%s: %s requests nothing", name, c.Name)
			}
		}
	}
}

func wantRestricted(t *testing.T, name string, c corev1.Container) {
	t.Helper()
	s := c.SecurityContext
	all := []corev1.Capability{"ALL"}
	if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !*s.RunAsNonRoot || !slices.Equal(s.Capabilities.Drop, all) {
		t.Errorf("%s: %s keeps privileges: %v", name, c.Name, s)
	}
}

// TestForwarderReadsNamedSecretsOnly: what the forwarder may read, write and delete is named, or stands in the list.
func TestForwarderReadsNamedSecretsOnly(t *testing.T) {
	for _, rendering := range []string{"forwarding-forwarder", "forwarding-full"} {
		for _, role := range objectsOf[rbacv1.ClusterRole](t, rendering, "ClusterRole", "Role") {
			for _, r := range role.Rules {
				for _, resource := range r.Resources {
					wantRight(t, rendering, role.Name, resource, r)
				}
			}
		}
	}
	names := secretsOf(t, "forwarding-full")
	if !slices.Equal(names, []string{"scanyard-forwarding-seal", "siem-token"}) {
		t.Errorf("the forwarder reads the Secrets %v", names)
	}
}

func secretsOf(t *testing.T, rendering string) (names []string) {
	t.Helper()
	for _, role := range objectsOf[rbacv1.Role](t, rendering, "Role") {
		for _, r := range role.Rules {
			if slices.Contains(r.Resources, "secrets") {
				names = append(names, r.ResourceNames...)
			}
		}
	}
	return names
}

// wantRight refuses what the specification of the forwarder's rights does not have.
func wantRight(t *testing.T, rendering, role, resource string, r rbacv1.PolicyRule) {
	t.Helper()
	unnamed := map[string][]string{
		"scans": {"get", "list", "watch"}, "scans/status": {"get", "patch"}, "scans/results": {"get", "delete"}, "namespaces": {"get", "list", "watch"},
		"scansettings": {"get", "list", "watch"}, "clusterscansettings": {"get", "list", "watch"},
		"scansettings/status": {"patch"}, "clusterscansettings/status": {"patch"},
		"events": {"create", "patch"}, "leases": {"create"}, "configmaps": {"create"}, "secrets": {"create"},
		"policyreports": {"list", "deletecollection"}, "clusterpolicyreports": {"list", "deletecollection"}, "reports": {"list", "deletecollection"},
		"clusterreports": {"list", "deletecollection"}, "images": {"list", "deletecollection"}, "sboms": {"list", "deletecollection"},
		"vulnerabilityreports": {"list", "deletecollection"},
	}
	named := map[string][]string{"leases": {"get", "update", "patch"}, "configmaps": {"get"}, "secrets": {"get"}}
	allowed := unnamed[resource]
	if len(r.ResourceNames) > 0 {
		allowed = named[resource]
	}
	for _, verb := range r.Verbs {
		if !slices.Contains(allowed, verb) {
			t.Errorf("%s: %s lets the forwarder %s %s %v", rendering, role, verb, resource, r.ResourceNames)
		}
		if rendering == "forwarding-forwarder" && strings.HasPrefix(verb, "delete") {
			t.Errorf("%s: %s lets the forwarder %s %s while the storage switch is off", rendering, role, verb, resource)
		}
	}
}

// gatekeeper is a Deployment as others have it.
const gatekeeper = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "gatekeeper-audit"}, "spec": {"template": {"spec": {
  "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
  "containers": [{"name": "webhook", "image": "gatekeeper",
    "env": [{"name": "POD_NAME", "value": "x"}], "volumeMounts": [{"name": "cert", "mountPath": "/certs"}]}],
  "volumes": [{"name": "cert", "emptyDir": {}}]}}}}`

// TestForwardingSnippetIsAPatch applies the snippet to a Deployment of others: what was there stays, and the exporter is beside it.
func TestForwardingSnippetIsAPatch(t *testing.T) {
	snippet := one[corev1.ConfigMap](t, "forwarding-snippet", "ConfigMap").Data["patch.yaml"]
	patch, err := yaml.YAMLToJSONStrict([]byte(snippet))
	if err != nil {
		t.Fatalf("%v\n%s", err, snippet)
	}
	raw, err := strategicpatch.StrategicMergePatch([]byte(gatekeeper), patch, appsv1.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	var patched appsv1.Deployment
	if err := json.Unmarshal(raw, &patched); err != nil {
		t.Fatal(err)
	}
	pod := patched.Spec.Template.Spec
	kept := len(pod.Containers) == 1 && len(pod.Containers[0].Env) == 2 && len(pod.Containers[0].VolumeMounts) == 2
	if !kept || len(pod.Volumes) != 2 || pod.SecurityContext.SeccompProfile == nil {
		t.Errorf("the patch has replaced what was there: %s", raw)
	}
	if len(pod.InitContainers) != 1 {
		t.Fatalf("%d init containers, want the exporter: %s", len(pod.InitContainers), raw)
	}
	exporter := pod.InitContainers[0]
	wantRestricted(t, "snippet", exporter)
	if exporter.RestartPolicy == nil || *exporter.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("the exporter is not a side car: %v", exporter.RestartPolicy)
	}
	socket := slices.IndexFunc(pod.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "DECISIONS" })
	if socket < 0 || !slices.Contains(exporter.Args, "--socket="+strings.TrimPrefix(pod.Containers[0].Env[socket].Value, "unix://")) {
		t.Errorf("the container learns of another socket than that of the exporter: %v, %v", pod.Containers[0].Env, exporter.Args)
	}
	if !slices.Contains(exporter.Args, "--socket-allow-uid=0") || !slices.Contains(exporter.Args, "--sink=hub=grpcs://hub.example.com:9443") {
		t.Errorf("the values are not in the arguments: %v", exporter.Args)
	}
}

// TestForwarderKnowsItsProxy: by its URL or by a Secret; what is in the cluster is reached without it, and its password is in no manifest.
func TestForwarderKnowsItsProxy(t *testing.T) {
	const inside = "$(KUBERNETES_SERVICE_HOST),.svc,.cluster.local"
	for rendering, want := range map[string][]corev1.EnvVar{
		"forwarding-forwarder": nil,
		"forwarding-proxy": {
			{Name: "HTTPS_PROXY", Value: "https://proxy.example.com:3128"},
			{Name: "NO_PROXY", Value: inside + ",127.0.0.1,storage.example.com,10.0.0.0/8"},
			{Name: "SSL_CERT_DIR", Value: "/etc/ssl/certs:/etc/scanyard/proxy-ca"},
		},
		"forwarding-proxy-secret": {
			{Name: "HTTPS_PROXY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "proxy"}, Key: "url",
			}}},
			{Name: "NO_PROXY", Value: inside},
		},
	} {
		pod := objectsOf[appsv1.Deployment](t, rendering, "Deployment")[0].Spec.Template.Spec
		var got []corev1.EnvVar
		for _, v := range pod.Containers[0].Env {
			if v.Name != "POD_NAMESPACE" && v.Name != "GOMEMLIMIT" {
				got = append(got, v)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", rendering, got, want)
		}
		trusts := slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/scanyard/proxy-ca" && m.ReadOnly })
		named := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == "proxy-ca" })
		if proxy := rendering == "forwarding-proxy"; trusts != proxy || named != proxy {
			t.Errorf("%s: the authority of the proxy is mounted: %t, of the ConfigMap: %t", rendering, trusts, named)
		}
	}
}
