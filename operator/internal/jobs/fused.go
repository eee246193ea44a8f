// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
)

// Separate returns why the parser of a Scan cannot run in the scanner's pod, for people; "" if it can. What is not known to be
// harmless for a second container keeps the phases separate.
func Separate(scan *executionv1.Scan, kind *executionv1.ScanTypeSpec, definition *executionv1.ParseDefinitionSpec, a Additions) string {
	if definition == nil {
		return "there is no ParseDefinition yet"
	}
	return cmp.Or(separateParser(kind, definition), separateJob(&kind.JobTemplate.Spec), separatePod(scan, &kind.JobTemplate.Spec.Template.Spec, a))
}

func separateParser(kind *executionv1.ScanTypeSpec, definition *executionv1.ParseDefinitionSpec) string {
	d := definition
	switch {
	case kind.Phases == executionv1.PhasesSeparate:
		return "spec.phases of the ScanType is Separate"
	case d.Phases != executionv1.PhasesFused:
		return "spec.phases of the ParseDefinition is not Fused"
	case d.ScanAccess != executionv1.ScanAccessHandover:
		return "spec.scanAccess of the ParseDefinition is not Handover"
	case len(d.Volumes) > 0 || len(d.VolumeMounts) > 0:
		return "the ParseDefinition has volumes, which are not for the scanner's pod"
	case len(d.NodeSelector) > 0 || d.Affinity != nil || len(d.Tolerations) > 0:
		return "the ParseDefinition chooses nodes"
	}
	return ""
}

// separateJob returns what a ScanType says of the Job that does not hold for two phases.
func separateJob(spec *batchv1.JobSpec) string {
	known := batchv1.JobSpec{
		Template: spec.Template, Suspend: spec.Suspend, BackoffLimit: spec.BackoffLimit, TTLSecondsAfterFinished: spec.TTLSecondsAfterFinished,
		ActiveDeadlineSeconds: spec.ActiveDeadlineSeconds,
	}
	if !equality.Semantic.DeepEqual(*spec, known) {
		return "the Job of the ScanType has settings of its own"
	}
	return ""
}

// separatePod returns what a ScanType or a Scan says of the pod that does not hold for two phases.
func separatePod(scan *executionv1.Scan, pod *corev1.PodSpec, a Additions) string {
	known := corev1.PodSpec{
		RestartPolicy: pod.RestartPolicy, Containers: pod.Containers, InitContainers: pod.InitContainers, Volumes: pod.Volumes,
		NodeSelector: pod.NodeSelector, Affinity: pod.Affinity, Tolerations: pod.Tolerations, ImagePullSecrets: pod.ImagePullSecrets,
		SecurityContext: pod.SecurityContext, TerminationGracePeriodSeconds: pod.TerminationGracePeriodSeconds,
		AutomountServiceAccountToken: pod.AutomountServiceAccountToken,
	}
	init := slices.Concat(pod.InitContainers, scan.Spec.InitContainers)
	switch {
	case pod.ServiceAccountName != "":
		return "the pod of the ScanType has an account of its own"
	case !equality.Semantic.DeepEqual(*pod, known):
		return "the pod of the ScanType has settings of its own"
	case len(pod.Containers) != 1:
		return "the pod of the ScanType has further containers"
	case slices.ContainsFunc(init, func(c corev1.Container) bool { return c.RestartPolicy != nil }):
		return "an init container runs on beside the scanner"
	case slices.ContainsFunc(slices.Concat(init, pod.Containers), func(c corev1.Container) bool { return c.Name == executionv1.ContainerParser }):
		return "a container is called " + executionv1.ContainerParser
	case isRoot(pod.SecurityContext) || isRoot(a.Scanner.PodSecurityContext):
		return "the pod runs as root"
	case a.Parser.PodSecurityContext != nil:
		return "the settings have a podSecurityContext for parsers"
	}
	return ""
}

func isRoot(s *corev1.PodSecurityContext) bool {
	return s != nil && s.RunAsUser != nil && *s.RunAsUser == 0
}

// addParser puts the parser between scanner and lurker. It waits until the lurker says that the scanner has ended, and reads the
// raw result from the folder that it shares with both, where it writes nothing.
func addParser(job *batchv1.Job, p *Parser, file string, cfg Config) {
	pod := &job.Spec.Template.Spec
	w := newParserWorker(*p, "file://"+file, cfg)
	w.env = append(w.env, corev1.EnvVar{Name: handover.EnvHandoff, Value: handover.HandoffDir})
	w.mounts = append(w.mounts,
		corev1.VolumeMount{Name: executionv1.VolumeResults, MountPath: executionv1.ResultsDir, ReadOnly: true},
		corev1.VolumeMount{Name: executionv1.VolumeHandoff, MountPath: handover.HandoffDir, ReadOnly: true})
	c := w.container()
	c.Resources.Requests = beyond(c.Resources.Requests, pod.Containers[0].Resources)
	pod.Containers = append(pod.Containers, c)
	pod.ImagePullSecrets = withPullSecrets(pod.ImagePullSecrets, w.pullSecrets)
	pod.Volumes = append(pod.Volumes, corev1.Volume{
		Name: executionv1.VolumeHandoff, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1Mi"))}},
	})
	if pod.RestartPolicy == corev1.RestartPolicyNever {
		// Another try would run the scanner again; the operator starts the parser by itself instead. Where containers are
		// restarted in place, the parser alone is.
		job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				ContainerName: new(executionv1.ContainerParser), Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: []int32{0},
			},
		}}}
	}
	job.Annotations = overlay(job.Annotations, map[string]string{
		executionv1.AnnotationPhases: string(executionv1.PhasesFused), executionv1.AnnotationHooks: strings.Join(p.Hooks, ","),
	})
	job.Spec.Template.Labels = overlay(job.Spec.Template.Labels, map[string]string{executionv1.LabelReports: "true"})
}

// waiting is what a parser asks for while it waits, which is what a lurker does: a LimitRange that lets one pass lets the other.
var waiting = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("20Mi")}

// beyond returns what a parser asks for beside a scanner that has ended before the parser works: what the scanner did not ask
// for, and enough to wait, but never more than the ParseDefinition says: its limit may be as low.
func beyond(parser corev1.ResourceList, scanner corev1.ResourceRequirements) corev1.ResourceList {
	left := corev1.ResourceList{}
	for name, all := range parser {
		want := all.DeepCopy()
		has, ok := scanner.Requests[name]
		if !ok {
			has = scanner.Limits[name] // Kubernetes takes the limit for a request that is absent
		}
		want.Sub(has)
		if least := waiting[name]; want.Cmp(least) < 0 {
			want = least
		}
		if want.Cmp(all) > 0 {
			want = all
		}
		left[name] = want
	}
	return left
}
