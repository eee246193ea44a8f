// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"os"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// TestDocumentedExporterOfHooks: the patch of docs/forwarding.md brings an exporter into the pod of a hook, for a team, too, whose cluster
// allows emptyDir.
func TestDocumentedExporterOfHooks(t *testing.T) {
	page, err := os.ReadFile("../docs/forwarding.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\njobPatches:")
	block, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/forwarding.md has no such patch")
	}
	var spec settingsv1alpha2.ScanSettingSpec
	if err := yaml.UnmarshalStrict([]byte("jobPatches:"+block), &spec); err != nil {
		t.Fatal(err)
	}
	cluster := &settingsv1alpha2.ClusterScanSetting{Spec: clusterSpec{Allowed: &settingsv1alpha2.Allowed{VolumeTypes: &[]settingsv1alpha2.VolumeType{"emptyDir"}}}}
	cluster.Name = settingsv1alpha2.Name
	own := &settingsv1alpha2.ScanSetting{Spec: spec}
	own.Name = settingsv1alpha2.Name
	if errs := ValidateScanSetting(cluster, own); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	job := &batchv1.Job{}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "hook", Image: "docker.io/scanyard/hook:0.1.0"}}
	e := Compute(Input{Cluster: &cluster.Spec, Setting: &own.Spec})
	patched, err := e.Patch(job, JobAttributes{Phase: settingsv1alpha2.PhaseHook, Hook: "cascading-scans"})
	if err != nil {
		t.Fatal(err)
	}
	pod := patched.Spec.Template.Spec
	if len(pod.InitContainers) != 1 || pod.InitContainers[0].RestartPolicy == nil || *pod.InitContainers[0].RestartPolicy != corev1.ContainerRestartPolicyAlways ||
		len(pod.Volumes) != 1 || pod.Volumes[0].EmptyDir == nil {
		t.Fatalf("no exporter beside the hook: %+v", pod)
	}
	socket := ""
	for _, arg := range pod.InitContainers[0].Args {
		if path, ok := strings.CutPrefix(arg, "--socket="); ok {
			socket = path
		}
	}
	hook := pod.Containers[0]
	if len(hook.Env) != 1 || hook.Env[0].Value != "unix://"+socket || len(hook.VolumeMounts) != 1 || !strings.HasPrefix(socket, hook.VolumeMounts[0].MountPath+"/") {
		t.Errorf("the hook does not find the socket %q: %+v", socket, hook)
	}
	if other, err := e.Patch(job, JobAttributes{Phase: settingsv1alpha2.PhaseHook, Hook: "notification"}); err != nil || len(other.Spec.Template.Spec.InitContainers) > 0 {
		t.Errorf("another hook has an exporter, too: %v %v", other, err)
	}
}
