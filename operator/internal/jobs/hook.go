// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"encoding/json"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// Hook is the input from which a hook Job is built.
type Hook struct {
	Scan *executionv1.Scan
	// Name of the hook.
	Name string
	Spec *executionv1.ScanCompletionHookSpec
	// Result is the stored raw result of the Scan.
	Result Result
	// Type is the hook's type when the hook was selected; its spec may have changed since.
	Type executionv1.HookType
	// ExecutionNamespace is the namespace the Job runs in; empty means the Scan's namespace.
	ExecutionNamespace string
	// ServiceAccount is the account of the pod. With a Handover it is the one that the hook names, or empty.
	ServiceAccount string
	// Handover hands the Scan over; nil if the image reads the Scan by the API.
	Handover *Handover
	URLs     HookURLs
	Attempt  int
	// Rerun is the annotation that asked for this run; "" in the first run.
	Rerun string
}

// HookURLs are the presigned URLs that a hook gets. The uploads are for ReadAndWrite
// hooks only.
type HookURLs struct {
	RawResult, Findings             string
	RawResultUpload, FindingsUpload string
	// PreviousFindings are the findings of the previous run, if there was one.
	PreviousFindings string
	// Outputs are the uploads of the files that the hook writes besides the results, by name.
	Outputs map[string]string
}

// Environment variables of hooks that are additions to the contract. Variables that the hook's own
// environment sets win.
const ()

// HookName returns the name of the Job of one hook of a Scan.
func HookName(scan *executionv1.Scan, hook string, attempt int) string {
	return names.Job(hook+"-"+scan.Name, scan.UID, "hook/"+hook, attempt)
}

// NewHook builds the Job that runs one hook over the results of a Scan.
func NewHook(in Hook, cfg Config) *batchv1.Job {
	scan, spec := in.Scan.DeepCopy(), in.Spec.DeepCopy()
	away := in.ExecutionNamespace != "" && in.ExecutionNamespace != scan.Namespace
	namespace := fieldEnv("NAMESPACE", "metadata.namespace")
	if away {
		// Hook images take the namespace of the Scan from this variable.
		namespace = corev1.EnvVar{Name: "NAMESPACE", Value: scan.Namespace}
	}
	w := worker{
		name:        "hook",
		image:       spec.Image,
		pullPolicy:  spec.ImagePullPolicy,
		pullSecrets: spec.ImagePullSecrets,
		args:        in.args(),
		env:         workerEnv(namespace, scan, in.Handover.env(in.env(spec.Env)), cfg.CustomCA),
		resources:   spec.Resources,
		nodes:       spec.NodeSelector,
		affinity:    spec.Affinity,
		tolerations: spec.Tolerations,
		account:     in.ServiceAccount,
		podLabels:   map[string]string{executionv1.LabelManagedBy: executionv1.ManagedBy, executionv1.LabelPhase: executionv1.PhaseHook},
		ttl:         spec.TTLSecondsAfterFinished,
		defaults:    cfg.Additions.Hook,
	}
	if cfg.CustomCA.set() {
		w.volumes = append(w.volumes, cfg.CustomCA.caVolume())
		w.mounts = append(w.mounts, cfg.CustomCA.caMount())
	}
	w.volumes = append(w.volumes, spec.Volumes...)
	w.mounts = append(w.mounts, spec.VolumeMounts...)

	in.Handover.apply(&w)
	labels := map[string]string{executionv1.LabelJobType: jobType(in.Type), executionv1.LabelHookName: names.LabelValue(in.Name)}
	if away {
		// The Scan adds nothing there: its author would choose the node that the hook's credentials go to,
		// and the controllers that take the Job for their own.
		labels[executionv1.LabelScanUID] = string(scan.UID)
	} else {
		w, labels = w.placed(scan), overlay(scan.Labels, labels)
	}
	job := w.job(cfg)
	job.Name = HookName(scan, in.Name, in.Attempt)
	job.Namespace = scan.Namespace
	job.Labels = labels
	if names.LabelValue(in.Name) != in.Name {
		job.Annotations = map[string]string{executionv1.AnnotationHookName: in.Name}
	}
	number(job, in.Attempt, in.Rerun)
	in.Result.note(job)
	in.Handover.mark(job)
	if !away {
		job.OwnerReferences = ownedBy(scan)
		return job
	}
	// A Job with an owner in another namespace would be collected at once: the Scan is found by label
	// and annotation, and cleans up by its finalizer.
	job.Namespace = in.ExecutionNamespace
	job.Annotations = overlay(job.Annotations, map[string]string{executionv1.AnnotationScan: scan.Namespace + "/" + scan.Name})
	return job
}

// outputs returns the JSON of the uploads of outputs, or "".
func (u HookURLs) outputs() string {
	if len(u.Outputs) == 0 {
		return ""
	}
	text, err := json.Marshal(u.Outputs)
	if err != nil {
		return "" // a map of strings can always be written
	}
	return string(text)
}

// env returns the hook's own environment with our additions.
func (in Hook) env(own []corev1.EnvVar) []corev1.EnvVar {
	for _, added := range []corev1.EnvVar{
		{Name: executionv1.EnvHookName, Value: in.Name},
		{Name: executionv1.EnvPreviousFindings, Value: in.URLs.PreviousFindings},
		{Name: executionv1.EnvOutputs, Value: in.URLs.outputs()},
	} {
		set := slices.ContainsFunc(own, func(e corev1.EnvVar) bool { return e.Name == added.Name })
		if added.Value != "" && !set {
			own = append(own, added)
		}
	}
	return own
}

func (in Hook) args() []string {
	args := []string{in.URLs.RawResult, in.URLs.Findings}
	if in.Type == executionv1.ReadAndWrite {
		args = append(args, in.URLs.RawResultUpload, in.URLs.FindingsUpload)
	}
	return args
}

func jobType(t executionv1.HookType) string {
	if t == executionv1.ReadAndWrite {
		return executionv1.JobTypeReadAndWriteHook
	}
	return executionv1.JobTypeReadOnlyHook
}
