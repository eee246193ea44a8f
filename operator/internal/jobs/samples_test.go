// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/settings"
)

// TestSamplesOfSettings holds the Jobs on which settings try patches against those that are built here. UPDATE=1 writes them.
func TestSamplesOfSettings(t *testing.T) {
	phases := []settingsv1alpha2.Phase{settingsv1alpha2.PhaseScanner, settingsv1alpha2.PhaseParser, settingsv1alpha2.PhaseHook}
	for _, phase := range phases {
		for i, of := range []string{"least", "much"} {
			if update {
				writeSample(t, settings.SampleFile(phase, of), sample(phase, of == "much", "scanner", "other"))
				continue
			}
			for _, names := range [][]string{nil, {"nmap"}, {"nmap", "extra"}, {"a", "b", "c"}} {
				got, err := settings.Samples(phase, names)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(sample(phase, of == "much", names...), got[i]); diff != "" {
					t.Errorf("%s, containers %v: UPDATE=1 go test ./internal/jobs -run TestSamplesOfSettings writes it (-want +got):\n%s",
						settings.SampleFile(phase, of), names, diff)
				}
			}
		}
	}
}

func writeSample(t *testing.T, file string, job *batchv1.Job) {
	t.Helper()
	raw, err := yaml.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("..", "..", "..", "settings", file), raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

// sample is a Job of a phase: with the least that a Job can have, or with much.
func sample(phase settingsv1alpha2.Phase, much bool, containers ...string) *batchv1.Job {
	scan := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "sample", UID: "00000000-0000-0000-0000-000000000000"}}
	cfg := Config{Lurker: Lurker{Image: executionv1.ContainerLurker}, UploadEndpoint: UploadEndpoint{URL: "https://sample"}}
	var pull []corev1.LocalObjectReference
	if much {
		scan.Labels = map[string]string{"team": "sample"}
		scan.Spec = executionv1.ScanSpec{
			NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
			Affinity:     &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
			Tolerations:  []corev1.Toleration{{Key: "sample", Operator: corev1.TolerationOpExists}},
			Env:          []corev1.EnvVar{{Name: "SAMPLE", Value: "sample"}},
			Volumes:      []corev1.Volume{{Name: "sample", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "sample", MountPath: "/sample"}},
			Resources:    corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
		}
		pull = []corev1.LocalObjectReference{{Name: "sample"}}
		cfg.CustomCA = CustomCA{ConfigMap: "sample", Key: "ca.crt"}
	}
	switch phase {
	case settingsv1alpha2.PhaseParser:
		return NewParser(Parser{
			Scan: scan, ServiceAccount: "sample", Attempt: 1,
			Definition: &executionv1.ParseDefinitionSpec{Image: "parser", ImagePullSecrets: pull, Volumes: scan.Spec.Volumes, VolumeMounts: scan.Spec.VolumeMounts},
		}, cfg)
	case settingsv1alpha2.PhaseHook:
		return NewHook(Hook{
			Scan: scan, Name: "sample", Type: executionv1.ReadOnly, ServiceAccount: "sample", Attempt: 1,
			Spec: &executionv1.ScanCompletionHookSpec{Image: "hook", Type: executionv1.ReadOnly, ImagePullSecrets: pull, Volumes: scan.Spec.Volumes, VolumeMounts: scan.Spec.VolumeMounts},
		}, cfg)
	default:
		return scannerSample(scan, containers, pull, cfg)
	}
}

func scannerSample(scan *executionv1.Scan, containers []string, pull []corev1.LocalObjectReference, cfg Config) *batchv1.Job {
	kind := &executionv1.ScanTypeSpec{}
	kind.ExtractResults.Location = executionv1.ResultsDir + "sample"
	pod := &kind.JobTemplate.Spec.Template.Spec
	pod.RestartPolicy, pod.ImagePullSecrets = corev1.RestartPolicyOnFailure, pull
	if len(containers) == 0 {
		containers = []string{"scanner"}
	}
	for _, name := range containers {
		pod.Containers = append(pod.Containers, corev1.Container{
			Name: name, Image: "scanner", Command: []string{"scanner"}, ImagePullPolicy: corev1.PullIfNotPresent,
			SecurityContext: &corev1.SecurityContext{
				RunAsUser: new(int64(1001)), RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Privileged: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
		})
	}
	job, err := NewScanner(Scanner{Scan: scan, ScanType: kind, UploadURL: "https://sample", Attempt: 1}, cfg)
	if err != nil {
		return &batchv1.Job{} // it has a container, so there is no error
	}
	return job
}
