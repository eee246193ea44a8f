// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"maps"
	"path"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/exitcode"
)

// ownedBy is the owner reference of everything that lives and dies with the Scan.
func ownedBy(scan *executionv1.Scan) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(scan, executionv1.SchemeGroupVersion.WithKind("Scan"))}
}

// overlay copies base and sets over's keys in the copy; nil when both are empty.
func overlay(base, over map[string]string) map[string]string {
	if len(base) == 0 && len(over) == 0 {
		return nil
	}
	out := make(map[string]string, len(base)+len(over))
	maps.Copy(out, base)
	maps.Copy(out, over)
	return out
}

// number says on a Job which run it belongs to and what it was made for. The first run has
// no number; a label of the Scan's own is not a number.
func number(job *batchv1.Job, attempt int, rerun string) {
	if attempt <= 1 {
		delete(job.Labels, executionv1.LabelAttempt)
		return
	}
	job.Labels = overlay(job.Labels, map[string]string{executionv1.LabelAttempt: strconv.Itoa(attempt)})
	if rerun != "" {
		job.Annotations = overlay(job.Annotations, map[string]string{executionv1.AnnotationRerun: rerun})
	}
}

// Result is how the raw result of a Scan is called in storage, and of which type it is.
type Result struct{ File, Type string }

// ResultOf is the result that a ScanType makes.
func ResultOf(t *executionv1.ScanTypeSpec) Result {
	return Result{File: path.Base(t.ExtractResults.Location), Type: t.ExtractResults.Type}
}

// OnJob reads from a Job what note has written on it; the zero Result where that is nothing.
func OnJob(annotations map[string]string) Result {
	return Result{File: annotations[executionv1.AnnotationRawResultFile], Type: annotations[executionv1.AnnotationRawResultType]}
}

// note says on a Job which result it is about: the ScanType may change while the Scan runs.
func (r Result) note(job *batchv1.Job) {
	if r != (Result{}) {
		job.Annotations = overlay(job.Annotations, map[string]string{
			executionv1.AnnotationRawResultFile: r.File, executionv1.AnnotationRawResultType: r.Type,
		})
	}
}

// podAnnotations are those of every pod of a Scan.
func podAnnotations(cfg Config) map[string]string {
	return map[string]string{
		executionv1.AnnotationDiscoveryIgnore: "true",
		executionv1.AnnotationIstioInject:     cfg.istio(),
	}
}

// worker is what parser and hook Jobs have in common: one container that gets
// presigned URLs as arguments and reaches its Scan through the API.
type worker struct {
	name        string
	image       string
	pullPolicy  corev1.PullPolicy
	pullSecrets []corev1.LocalObjectReference
	args        []string
	env         []corev1.EnvVar
	volumes     []corev1.Volume
	mounts      []corev1.VolumeMount
	resources   corev1.ResourceRequirements
	nodes       map[string]string
	affinity    *corev1.Affinity
	tolerations []corev1.Toleration
	account     string
	automount   *bool
	podLabels   map[string]string
	ttl         *int32
	// defaults hold for what the kind does not say.
	defaults Defaults
}

// workerBackoff is how often a parser or hook pod is tried again.
const workerBackoff = 3

// placed is the worker on the nodes that the Scan chooses, too.
func (w worker) placed(scan *executionv1.Scan) worker {
	w.nodes = overlay(w.nodes, scan.Spec.NodeSelector)
	if scan.Spec.Tolerations != nil {
		w.tolerations = scan.Spec.Tolerations
	}
	if scan.Spec.Affinity != nil {
		w.affinity = scan.Spec.Affinity
	}
	return w
}

func (w worker) job(cfg Config) *batchv1.Job {
	resources := w.resources
	if len(resources.Requests) == 0 && len(resources.Limits) == 0 {
		resources = w.defaults.resources()
	}
	job := &batchv1.Job{Spec: batchv1.JobSpec{
		BackoffLimit:            ptr.To[int32](workerBackoff),
		PodFailurePolicy:        finalCodes(w.name),
		TTLSecondsAfterFinished: w.ttl,
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: w.podLabels, Annotations: podAnnotations(cfg)},
			Spec: corev1.PodSpec{
				RestartPolicy:                corev1.RestartPolicyNever,
				ServiceAccountName:           w.account,
				AutomountServiceAccountToken: w.automount,
				ImagePullSecrets:             w.pullSecrets,
				Containers: []corev1.Container{{
					Name:            w.name,
					Image:           w.image,
					ImagePullPolicy: w.pullPolicy,
					Args:            w.args,
					Env:             w.env,
					VolumeMounts:    w.mounts,
					Resources:       resources,
					SecurityContext: w.defaults.security(),
				}},
				Volumes:      w.volumes,
				NodeSelector: w.nodes,
				Affinity:     w.affinity,
				Tolerations:  w.tolerations,
			},
		},
	}}
	tellLastWords(&job.Spec.Template.Spec)
	w.defaults.applyPod(&job.Spec.Template.Spec)
	cfg.Additions.add(&job.Spec.Template.Spec, cfg.CustomCA)
	return job
}

// finalCodes ends a Job at once when its container says by its exit code that trying again
// cannot help. Sidecars have codes of their own: they decide nothing here.
func finalCodes(container string) *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: &container, Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: exitcode.Final(),
		},
	}}}
}

// tellLastWords has kubelet take the end of a container's log for its last words where it
// failed and wrote none: many tools say what is wrong on stderr only. What a template sets
// stays.
func tellLastWords(pod *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			if list[i].TerminationMessagePolicy == "" {
				list[i].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			}
		}
	}
}

// workerEnv is the environment of a parser or hook: who it works for, its own, and
// the certificate to trust.
func workerEnv(namespace corev1.EnvVar, scan *executionv1.Scan, own []corev1.EnvVar, ca CustomCA) []corev1.EnvVar {
	env := append([]corev1.EnvVar{namespace, {Name: "SCAN_NAME", Value: scan.Name}}, own...)
	if ca.set() {
		// Node.js reads this variable; our own SDKs do so too.
		env = append(env, corev1.EnvVar{Name: "NODE_EXTRA_CA_CERTS", Value: ca.path()})
	}
	return env
}

func defaultResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("100Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("400m"), corev1.ResourceMemory: resource.MustParse("200Mi")},
	}
}

// restricted is the security context of every container that we bring. With the
// seccomp profile, which secureCodeBox leaves out, it passes the restricted level
// of the Pod Security Standards.
func restricted(seccomp corev1.SeccompProfile) *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsNonRoot:             new(true),
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Privileged:               new(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile:           &seccomp,
	}
}
