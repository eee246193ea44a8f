// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha1 "github.com/scanyard/scanyard/apis/settings/v1alpha1"
	"github.com/scanyard/scanyard/operator/internal/jobs"
)

// allPhases are those of a target that names none.
var allPhases = []settingsv1alpha1.Phase{settingsv1alpha1.PhaseScanner, settingsv1alpha1.PhaseParser, settingsv1alpha1.PhaseHook}

// patches tries every patch on Jobs such as it will meet: one with the least and one with much
// of what a Job can have, of each phase. What breaks a rule on any of them is refused, and so is
// what changes none.
func (p *problems) patches(all []settingsv1alpha1.JobPatch, path *field.Path, r rules) {
	for i, patch := range all {
		at := path.Index(i)
		phases := allPhases
		if t := patch.Target; t != nil {
			if t.LabelSelector != nil {
				p.invalid = append(p.invalid, checkSelector(t.LabelSelector, at.Child("target", "labelSelector"))...)
			}
			if len(t.Phases) > 0 {
				phases = t.Phases
			}
			if len(t.Hooks) > 0 {
				if !slices.Contains(phases, settingsv1alpha1.PhaseHook) {
					p.matches = append(p.matches, field.Invalid(at.Child("target", "hooks"), strings.Join(t.Hooks, ", "),
						"matches nothing: only Jobs of phase Hook have a hook, and target.phases leaves it out. Add Hook there, or remove hooks"))
					continue
				}
				phases = []settingsv1alpha1.Phase{settingsv1alpha1.PhaseHook}
			}
		}
		p.try(patch.Patch, phases, at.Child("patch"), r)
	}
}

func (p *problems) try(text string, phases []settingsv1alpha1.Phase, path *field.Path, r rules) {
	parsed, err := parsePatch(text)
	if err != nil {
		p.note(path, text, err)
		return
	}
	changed := false
	var missing error
	for _, phase := range phases {
		for _, job := range samples(phase, parsed.containers()) {
			after, err := parsed.apply(job, r)
			if l, ok := errors.AsType[*lineError](err); ok && l.missing {
				missing = err
				continue
			}
			if err != nil {
				p.note(path, text, err)
				return
			}
			changed = changed || !equality.Semantic.DeepEqual(job, after)
		}
	}
	switch {
	case changed:
	case missing != nil:
		p.note(path, text, missing)
	default:
		p.note(path, text, &lineError{line: 1, missing: true, message: fmt.Sprintf(
			"matches nothing: it changes no Job of phase %s; containers are called parser in parser Jobs, hook in hook Jobs, and in scanner Jobs as the ScanType says", phaseNames(phases))})
	}
}

func phaseNames(phases []settingsv1alpha1.Phase) string {
	names := make([]string, 0, len(phases))
	for _, p := range phases {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// shown is how much of a patch a message repeats.
const shown = 40

func (p *problems) note(path *field.Path, text string, err error) {
	first, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(first); len(runes) > shown {
		first, more = string(runes[:shown]), true
	}
	if more {
		first += "…"
	}
	problem := field.Invalid(path, first, err.Error())
	if l, ok := errors.AsType[*lineError](err); ok && l.missing {
		p.matches = append(p.matches, problem)
		return
	}
	p.invalid = append(p.invalid, problem)
}

// containers are the names of the containers that a merge patch means: those of its entries
// that bring no image.
func (p *parsedPatch) containers() []string {
	if p.merge == nil {
		return nil
	}
	entries, err := p.merge.Pipe(kyaml.Lookup("spec", "template", "spec", "containers"))
	if err != nil || entries == nil || entries.YNode().Kind != kyaml.SequenceNode {
		return nil // apply says what is wrong with it
	}
	var names []string
	for _, e := range entries.YNode().Content {
		_, name := child(e, "name")
		_, image := child(e, "image")
		if name != nil && image == nil && !slices.Contains([]string{lurkerContainer, "parser", "hook"}, name.Value) {
			names = append(names, name.Value)
		}
	}
	return names
}

// samples are two Jobs of a phase. The containers of a scanner Job are called as its ScanType
// says, so they get the names that a patch uses.
func samples(phase settingsv1alpha1.Phase, containers []string) []*batchv1.Job {
	scan := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: "sample", Namespace: "sample", UID: "00000000-0000-0000-0000-000000000000"}}
	rich := scan.DeepCopy()
	rich.Labels = map[string]string{"team": "sample"}
	rich.Spec = executionv1.ScanSpec{
		NodeSelector: map[string]string{"kubernetes.io/os": "linux"},
		Affinity:     &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
		Tolerations:  []corev1.Toleration{{Key: "sample", Operator: corev1.TolerationOpExists}},
		Env:          []corev1.EnvVar{{Name: "SAMPLE", Value: "sample"}},
		Volumes:      []corev1.Volume{{Name: "sample", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		VolumeMounts: []corev1.VolumeMount{{Name: "sample", MountPath: "/sample"}},
		Resources:    corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}},
	}
	return []*batchv1.Job{sample(phase, scan, containers, false), sample(phase, rich, containers, true)}
}

func sample(phase settingsv1alpha1.Phase, scan *executionv1.Scan, containers []string, rich bool) *batchv1.Job {
	cfg := jobs.Config{Lurker: jobs.Lurker{Image: lurkerContainer}, UploadEndpoint: jobs.UploadEndpoint{URL: "https://sample"}}
	var pull []corev1.LocalObjectReference
	if rich {
		pull = []corev1.LocalObjectReference{{Name: "sample"}}
		cfg.CustomCA = jobs.CustomCA{ConfigMap: "sample", Key: "ca.crt"}
	}
	switch phase {
	case settingsv1alpha1.PhaseParser:
		return jobs.NewParser(jobs.Parser{
			Scan: scan, ServiceAccount: "sample", Attempt: 1,
			Definition: &executionv1.ParseDefinitionSpec{Image: "parser", ImagePullSecrets: pull, Volumes: scan.Spec.Volumes, VolumeMounts: scan.Spec.VolumeMounts},
		}, cfg)
	case settingsv1alpha1.PhaseHook:
		return jobs.NewHook(jobs.Hook{
			Scan: scan, Name: "sample", Type: executionv1.ReadOnly, ServiceAccount: "sample", Attempt: 1,
			Spec: &executionv1.ScanCompletionHookSpec{Image: "hook", Type: executionv1.ReadOnly, ImagePullSecrets: pull, Volumes: scan.Spec.Volumes, VolumeMounts: scan.Spec.VolumeMounts},
		}, cfg)
	default:
		return scannerSample(scan, containers, pull, cfg)
	}
}

func scannerSample(scan *executionv1.Scan, containers []string, pull []corev1.LocalObjectReference, cfg jobs.Config) *batchv1.Job {
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
	job, err := jobs.NewScanner(jobs.Scanner{Scan: scan, ScanType: kind, UploadURL: "https://sample", Attempt: 1}, cfg)
	if err != nil {
		return &batchv1.Job{} // it has a container, so there is no error
	}
	return job
}
