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

// ownedBy is the owner reference of every object that is deleted with the Scan.
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

// number notes on a Job the number of its run and the annotation that asked for it. The first run has
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

// Result is the file name of the raw result in storage, and its type.
type Result struct{ File, Type string }

// ResultOf returns the result that a ScanType makes.
func ResultOf(t *executionv1.ScanTypeSpec) Result {
	return Result{File: path.Base(t.ExtractResults.Location), Type: t.ExtractResults.Type}
}

// OnJob reads the Result that note has written on a Job; the zero Result if there is none.
func OnJob(annotations map[string]string) Result {
	return Result{File: annotations[executionv1.AnnotationRawResultFile], Type: annotations[executionv1.AnnotationRawResultType]}
}

// note writes on a Job the result that it reads or makes: the ScanType may change while the Scan runs.
func (r Result) note(job *batchv1.Job) {
	if r != (Result{}) {
		job.Annotations = overlay(job.Annotations, map[string]string{
			executionv1.AnnotationRawResultFile: r.File, executionv1.AnnotationRawResultType: r.Type,
		})
	}
}

// podAnnotations are the annotations of every pod of a Scan.
func podAnnotations(cfg Config) map[string]string {
	return map[string]string{
		executionv1.AnnotationDiscoveryIgnore: "true",
		executionv1.AnnotationIstioInject:     cfg.istio(),
	}
}

// worker is the common part of parser and hook Jobs: one container that gets presigned URLs as
// arguments and reaches its Scan through the API.
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
	// defaults apply where the kind sets nothing.
	defaults Defaults
}

// workerBackoff is how often a parser or hook pod is retried.
const workerBackoff = 3

// placed is the worker with the node selection of the Scan.
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

// container is the worker's container.
func (w worker) container() corev1.Container {
	resources := *w.resources.DeepCopy()
	if len(resources.Requests) == 0 && len(resources.Limits) == 0 {
		resources = w.defaults.resources()
	}
	return corev1.Container{
		Name:            w.name,
		Image:           w.image,
		ImagePullPolicy: w.pullPolicy,
		Args:            w.args,
		Env:             w.env,
		VolumeMounts:    w.mounts,
		Resources:       resources,
		SecurityContext: w.defaults.security(),
	}
}

func (w worker) job(cfg Config) *batchv1.Job {
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
				Containers:                   []corev1.Container{w.container()},
				Volumes:                      w.volumes,
				NodeSelector:                 w.nodes,
				Affinity:                     w.affinity,
				Tolerations:                  w.tolerations,
			},
		},
	}}
	fallBackToLogs(&job.Spec.Template.Spec)
	w.defaults.applyPod(&job.Spec.Template.Spec)
	cfg.Additions.add(&job.Spec.Template.Spec, cfg.CustomCA)
	return job
}

// finalCodes fail a Job at once when the exit code of its container says that a retry cannot help.
// Sidecars have codes of their own, which have no effect here.
func finalCodes(container string) *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: &container, Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: exitcode.Final(),
		},
	}}}
}

// fallBackToLogs has kubelet take the end of a container's log as the termination message if the
// container failed and wrote none: many tools report errors on stderr only. A policy that a template
// sets stays.
func fallBackToLogs(pod *corev1.PodSpec) {
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range list {
			if list[i].TerminationMessagePolicy == "" {
				list[i].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			}
		}
	}
}

// workerEnv is the environment of a parser or hook: the Scan it works for, the kind's own variables,
// and the certificate to trust.
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

// restricted is the security context of every container of the operator's own. With the
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
