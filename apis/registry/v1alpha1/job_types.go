// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LabelTrigger on a job tells what made it: a Trigger. Absent: by hand.
const LabelTrigger = "registry.scanyard.io/trigger"

// Trigger is what made a job.
type Trigger string

// What makes jobs.
const (
	TriggerManual         Trigger = "Manual"
	TriggerSchedule       Trigger = "Schedule"
	TriggerDatabaseChange Trigger = "DatabaseChange"
)

// StopAfter says how far new images are taken.
// +kubebuilder:validation:Enum=Discovery;SBOM;Match
type StopAfter string

// How far new images are taken.
const (
	StopAfterDiscovery StopAfter = "Discovery"
	StopAfterSBOM      StopAfter = "SBOM"
	StopAfterMatch     StopAfter = "Match"
)

// Mode says which images a ScanJob looks at.
// +kubebuilder:validation:Enum=Changed;Full
type Mode string

// Which images a ScanJob looks at.
const (
	// ModeChanged takes images that new data touches.
	ModeChanged Mode = "Changed"
	// ModeFull takes every image with an SBOM.
	ModeFull Mode = "Full"
)

// Retry names states of items that begin anew.
// +kubebuilder:validation:Enum=Failed;Quarantined
type Retry string

// The states of items that may begin anew.
const (
	RetryFailed      Retry = "Failed"
	RetryQuarantined Retry = "Quarantined"
)

// JobPriority orders the work of one namespace.
// +kubebuilder:validation:Enum=Interactive;Scheduled
type JobPriority string

// The priorities of jobs.
const (
	// Interactive is for jobs that somebody waits for.
	Interactive JobPriority = "Interactive"
	// Scheduled is for jobs that nobody waits for.
	Scheduled JobPriority = "Scheduled"
)

// JobSpec is what both kinds of jobs have.
type JobSpec struct {
	// registry is the name of a Registry of the namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; make another job"
	Registry string `json:"registry"`

	// repositories narrow what the Registry selects; they never widen it. Patterns as those of the Registry.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; make another job"
	Repositories []string `json:"repositories,omitempty"`

	// retry has items in these states begin anew, with no attempt counted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; make another job"
	Retry []Retry `json:"retry,omitempty"`

	// retryOnly does nothing else than retry says.
	// +optional
	RetryOnly bool `json:"retryOnly,omitempty"`

	// priority puts Interactive jobs of a namespace before its Scheduled ones.
	// +optional
	// +kubebuilder:default=Interactive
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; make another job"
	Priority JobPriority `json:"priority,omitempty"`

	// suspend lets no further item in. It may be changed at any time.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// cancel ends the job, for good. What was made is kept.
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// deadlineSeconds from the start is when the job ends in any case; time suspended counts.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:default=86400
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; make another job"
	DeadlineSeconds *int64 `json:"deadlineSeconds,omitempty"`

	// ttlSecondsAfterFinished deletes the job that long after its end. Absent: the limits of the Registry decide for scheduled
	// jobs, and those made by hand are kept. It may be changed at any time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// JobStatus is what both kinds of jobs have. The registry controller writes it.
type JobStatus struct {
	// conditions: Progressing, and Completed, which is Unknown until the end, True after an end that gave something, else False.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// state is the reason of Completed where the job has ended, else that of Progressing. It is for people.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	State string `json:"state,omitempty"`

	// progress sums up the items, for people.
	// +optional
	Progress *Progress `json:"progress,omitempty"`

	// startTime is when the work began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the job ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// registryGeneration is the metadata.generation of the Registry when the work began.
	// +optional
	RegistryGeneration int64 `json:"registryGeneration,omitempty"`

	// registryUID is the UID of the Registry when the work began.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RegistryUID string `json:"registryUID,omitempty"`

	// warnings of the job.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Warnings []Warning `json:"warnings,omitempty"`

	// errors are items that failed, some of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Errors []ItemError `json:"errors,omitempty"`

	// errorsTotal is how many items failed.
	// +optional
	ErrorsTotal int64 `json:"errorsTotal,omitempty"`
}

// Progress sums up the items of a job.
type Progress struct {
	// done items need no more work.
	// +optional
	Done int64 `json:"done"`
	// total is how many items there are.
	// +optional
	Total int64 `json:"total"`
	// failed items.
	// +optional
	Failed int64 `json:"failed"`
	// duration from start to end, such as 3m12s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Duration string `json:"duration,omitempty"`
}

// Types of the conditions of jobs.
const (
	// ConditionProgressing is True while the job works.
	ConditionProgressing = "Progressing"
	// ConditionCompleted is Unknown until the job ends.
	ConditionCompleted = "Completed"
)

// Reasons of the condition Progressing.
const (
	// ReasonPlanning is set while it is asked what there is to do.
	ReasonPlanning = "Planning"
	// ReasonListing is set while repositories are listed.
	ReasonListing = "Listing"
	// ReasonWorking is set while items are worked on.
	ReasonWorking = "Working"
	// ReasonFinished is set at the end.
	ReasonFinished = "Finished"
	// ReasonQueued is set while an older job of the kind works for the same Registry.
	ReasonQueued = "Queued"
	// ReasonWindowClosed is set while a window of the Registry is open in which no job may start.
	ReasonWindowClosed = "WindowClosed"
	// ReasonRegistryNotReady is set while the Registry is not Ready; its condition says why.
	ReasonRegistryNotReady = "RegistryNotReady"
)

// Reasons of the condition Completed.
const (
	// ReasonSucceeded is set where every item was done.
	ReasonSucceeded = "Succeeded"
	// ReasonCompletedWithErrors is set where some items failed; status.errors names them.
	ReasonCompletedWithErrors = "CompletedWithErrors"
	// ReasonNothingToDo is set where nothing was wanted.
	ReasonNothingToDo = "NothingToDo"
	// ReasonFailed is set where every item failed.
	ReasonFailed = "Failed"
	// ReasonCancelled is set after spec.cancel.
	ReasonCancelled = "Cancelled"
	// ReasonDeadlineExceeded is set where the job took too long; the next job takes what is left.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonRegistryNotFound is set where there was no such Registry 30 s after the job was made.
	ReasonRegistryNotFound = "RegistryNotFound"
	// ReasonRegistryGone is set where the Registry was deleted or replaced meanwhile.
	ReasonRegistryGone = "RegistryGone"
)
