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
	// JobType is one of the JobType constants; both hook types read as JobTypeReadOnlyHook,
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
	// Running means that it has not ended.
	Running Outcome = iota
	// Complete means that all it was to do is done.
	Complete
	// Failed means that it will not be tried again.
	Failed
)

// Job is what matters of a Job.
type Job struct {
	Name, Namespace string
	Role            Role
	// Attempt is the number of the run that it belongs to, from 1.
	Attempt int
	// Rerun is the annotation that it was made for; "" in the first run.
	Rerun string
	// Result is what the Scan has stored; zero on Jobs of other operators.
	Result   jobs.Result
	Created  time.Time
	Started  time.Time // zero: the Job controller has not started it
	Finished time.Time // zero: it has not ended
	Outcome  Outcome
	// Failure says why it failed: the Job's own words and those of its pods.
	Failure string
	// Explained means that its pods have told how it failed.
	Explained bool
	// Deleted is when it was asked to go; zero while nobody has.
	Deleted time.Time
	// Suspended means that spec.suspend of the Job is true.
	Suspended bool
	// PendingSince is set while the Job waits for its containers to start.
	PendingSince time.Time
	// Trouble is why its containers do not start; nil while nothing is wrong.
	Trouble *Cause
	// NoPod means that the Job has no pod yet.
	NoPod bool
	// PodGone means that the Job has had a pod and has none.
	PodGone bool
	// Handed means that its Scan was handed over, so that its pod tells what it has done; of a scanner's, that no
	// account was made for the parser.
	Handed bool
	// Passing means that its TTL removes it some time after it has ended.
	Passing bool
	// Hooks are, of a parser's that lists them, those that were to run when it was made.
	Hooks []string
	Lists bool
	// Report is what its pod has told, of Jobs that have ended well.
	Report Report
	// Ended is how a container of its pods has ended that failed; nil where none has, or where that is not known.
	Ended *executionv1.ContainerFailure
	// FailedPods is how many of its pods have failed so far, lastTry what the last of them ended
	// with; "" where that is not known.
	FailedPods int32
	LastTry    string
}

// NewJob takes from a Job what needs no further read.
func NewJob(b *batchv1.Job) Job {
	j := Job{
		Name: b.Name, Namespace: b.Namespace, Created: b.CreationTimestamp.Time,
		Role:      Role{JobType: b.Labels[executionv1.LabelJobType], Hook: b.Labels[executionv1.LabelHookName]},
		Suspended: b.Spec.Suspend != nil && *b.Spec.Suspend,
		Attempt:   1, FailedPods: b.Status.Failed,
		Rerun: b.Annotations[executionv1.AnnotationRerun], Result: jobs.OnJob(b.Annotations),
		Handed: b.Annotations[executionv1.AnnotationScanAccess] == string(executionv1.ScanAccessHandover),
	}
	j.Passing = b.Spec.TTLSecondsAfterFinished != nil
	if list, ok := b.Annotations[executionv1.AnnotationHooks]; ok {
		j.Lists, j.Hooks = true, strings.FieldsFunc(list, func(c rune) bool { return c == ',' })
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

// IsFinal says whether a Job has failed by an exit code after which nothing is tried again.
func IsFinal(b *batchv1.Job) bool {
	return slices.ContainsFunc(b.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue && c.Reason == batchv1.JobReasonPodFailurePolicy
	})
}

// OwnedPods are those of the pods that a Job controls.
func OwnedPods(pods []corev1.Pod, job types.UID) []corev1.Pod {
	var own []corev1.Pod
	for i := range pods {
		if c := metav1.GetControllerOf(&pods[i]); c != nil && c.UID == job {
			own = append(own, pods[i])
		}
	}
	return own
}

// HasTried says whether pods of a Job have ended already.
func HasTried(b *batchv1.Job) bool {
	u := b.Status.UncountedTerminatedPods
	return b.Status.Failed > 0 || b.Status.Succeeded > 0 || u != nil && len(u.Succeeded)+len(u.Failed) > 0
}

// Serves says whether a Job works for a Scan: by owner in its namespace, by label in
// an execution namespace. The UID counts, never the name.
func Serves(b *batchv1.Job, scan *executionv1.Scan) bool {
	return ScanUID(b) == string(scan.UID)
}

// ScanUID is the UID of the Scan that a Job claims to work for, or "". In the Scan's
// namespace the owner reference says so; elsewhere a label does, which
// observing compares with where the hook is to run.
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

// tries says how often a running Job was tried and why the last try failed; "" while none has.
func (j *Job) tries() string {
	if j.FailedPods == 0 {
		return ""
	}
	why := ""
	if j.LastTry != "" {
		why = " (the last one: " + j.LastTry + ")"
	}
	return fmt.Sprintf("Tries that failed: %d%s; the next one follows (Job %s).", j.FailedPods, why, j.Name)
}
