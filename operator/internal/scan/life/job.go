// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/jobs"
)

// Role is what a Job does for a Scan.
type Role struct {
	// JobType is one of the JobType constants; it is JobTypeReadOnlyHook for both types of hooks,
	// since the type of a hook may change while its Job runs.
	JobType string
	// Hook is the name of the hook, as a label value.
	Hook string
}

// Roles of the Jobs of which a run has one each.
var (
	ScannerRole = Role{JobType: executionv1.JobTypeScanner}
	ParserRole  = Role{JobType: executionv1.JobTypeParser}
)

// Outcome is how a Job ended.
type Outcome int

const (
	// Running means that the Job has not ended.
	Running Outcome = iota
	// Complete means that the Job has succeeded.
	Complete
	// Failed means that the Job has failed and is not tried again.
	Failed
)

// Job is what the decision needs of a Job.
type Job struct {
	Name, Namespace string
	Role            Role
	// Attempt is the number of the run that the Job belongs to, from 1.
	Attempt int
	// Rerun is the value of the annotation that requested the run; "" in the first run.
	Rerun string
	// Result is where the Scan stores its result; zero on Jobs of other operators.
	Result   jobs.Result
	Created  time.Time
	Started  time.Time // zero: the Job controller has not started it
	Finished time.Time // zero: the Job has not ended
	Outcome  Outcome
	// Failure says why the Job failed: the messages of the Job and of its pods.
	Failure string
	// Explained means that Failure has the messages of the pods.
	Explained bool
	// Deleted is the deletion timestamp; zero for none.
	Deleted time.Time
	// Suspended means that spec.suspend of the Job is true.
	Suspended bool
	// PendingSince is set while the Job waits for its containers to start.
	PendingSince time.Time
	// Trouble is why the containers of the Job do not start; nil if nothing is wrong.
	Trouble *Cause
	// NoPod means that the Job has no pod yet.
	NoPod bool
	// PodGone means that the Job had a pod and has none any more.
	PodGone bool
	// Handover means that the Scan was handed over to the pod, which reports its outcome. On a scanner's Job it means that
	// no account was created for the parser.
	Handover bool
	// Fused means that the parser runs in the scanner's pod.
	Fused bool
	// ScannerEnded is when the scanner of a fused Job has ended with 0; zero: it has not, or that is not known.
	ScannerEnded time.Time
	// HasTTL means that Kubernetes deletes the Job some time after its end.
	HasTTL bool
	// Hooks are the hooks that were to run when the parser's Job was created; they are known if ListsHooks.
	Hooks      []string
	ListsHooks bool
	// Report is what the pod of a Job that succeeded reported.
	Report Report
	// Ended is the end of a failed container of the Job's pods; nil if none has failed, or if that is not known.
	Ended *executionv1.ContainerFailure
	// FailedPods is how many pods of the Job have failed so far; LastTry is how the last of them ended,
	// "" if that is not known.
	FailedPods int32
	LastTry    string
}

// NewJob returns the fields that follow from the Job alone.
func NewJob(b *batchv1.Job) Job {
	j := Job{
		Name: b.Name, Namespace: b.Namespace, Created: b.CreationTimestamp.Time,
		Role:      Role{JobType: b.Labels[executionv1.LabelJobType], Hook: b.Labels[executionv1.LabelHookName]},
		Suspended: b.Spec.Suspend != nil && *b.Spec.Suspend,
		Attempt:   1, FailedPods: b.Status.Failed,
		Rerun: b.Annotations[executionv1.AnnotationRerun], Result: jobs.OnJob(b.Annotations),
		Handover: b.Annotations[executionv1.AnnotationScanAccess] == string(executionv1.ScanAccessHandover),
	}
	j.Fused = j.Role == ScannerRole && executionv1.IsFused(b)
	j.HasTTL = b.Spec.TTLSecondsAfterFinished != nil
	if list, ok := b.Annotations[executionv1.AnnotationHooks]; ok {
		j.ListsHooks, j.Hooks = true, strings.FieldsFunc(list, func(c rune) bool { return c == ',' })
	}
	if b.DeletionTimestamp != nil {
		j.Deleted = b.DeletionTimestamp.Time
	}
	if n, err := strconv.Atoi(b.Labels[executionv1.LabelAttempt]); err == nil && n > 1 {
		j.Attempt = n
	}
	if j.Role.Hook != "" {
		j.Role = hookRole(j.Role.Hook)
	}
	if b.Status.StartTime != nil {
		j.Started = b.Status.StartTime.Time
	}
	for _, c := range b.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			j.Outcome, j.Finished = Complete, c.LastTransitionTime.Time
		case batchv1.JobFailed:
			j.Outcome, j.Finished, j.Failure = Failed, c.LastTransitionTime.Time, jobFailure(b)
		default: // not terminal: the pods may still run
		}
	}
	return j
}

// IsFinal reports whether a Job failed with an exit code that excludes another try.
func IsFinal(b *batchv1.Job) bool {
	return slices.ContainsFunc(b.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue && c.Reason == batchv1.JobReasonPodFailurePolicy
	})
}

// OwnedPods returns the pods that a Job controls.
func OwnedPods(pods []corev1.Pod, job types.UID) []corev1.Pod {
	var own []corev1.Pod
	for i := range pods {
		if c := metav1.GetControllerOf(&pods[i]); c != nil && c.UID == job {
			own = append(own, pods[i])
		}
	}
	return own
}

// HasTried reports whether a pod of the Job has ended.
func HasTried(b *batchv1.Job) bool {
	u := b.Status.UncountedTerminatedPods
	return b.Status.Failed > 0 || b.Status.Succeeded > 0 || u != nil && len(u.Succeeded)+len(u.Failed) > 0
}

// Serves reports whether a Job belongs to a Scan: by its owner in the Scan's namespace, by a label in
// an execution namespace. The UID is compared, never the name.
func Serves(b *batchv1.Job, scan *executionv1.Scan) bool {
	return ScanUID(b) == string(scan.UID)
}

// ScanUID returns the UID of the Scan that a Job claims to belong to, or "". In the Scan's
// namespace the owner reference has the UID. Elsewhere a label has it; observe accepts the label
// only in the namespace where the hook must run.
func ScanUID(b *batchv1.Job) string {
	if c := metav1.GetControllerOf(b); c != nil {
		if c.Kind == "Scan" && strings.HasPrefix(c.APIVersion, executionv1.SchemeGroupVersion.Group+"/") {
			return string(c.UID)
		}
		return ""
	}
	if namespace, _, ok := strings.Cut(b.Annotations[executionv1.AnnotationScan], "/"); ok && namespace != b.Namespace {
		return b.Labels[executionv1.LabelScanUID]
	}
	return ""
}

func hookRole(label string) Role {
	return Role{JobType: executionv1.JobTypeReadOnlyHook, Hook: label}
}

// failedTries says how often a running Job has failed, and why the last try failed; "" if no try failed.
func (j *Job) failedTries() string {
	if j.FailedPods == 0 {
		return ""
	}
	why := ""
	if j.LastTry != "" {
		why = " (the last one: " + j.LastTry + ")"
	}
	return fmt.Sprintf("Tries that failed: %d%s; the next one follows (Job %s).", j.FailedPods, why, j.Name)
}
