// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConcurrencyPolicy says what a ScheduledScan does when a run is due and an earlier
// one has not finished.
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

const (
	// AllowConcurrent starts the new run beside the old one.
	AllowConcurrent ConcurrencyPolicy = "Allow"
	// ForbidConcurrent waits for the old run to finish.
	ForbidConcurrent ConcurrencyPolicy = "Forbid"
	// ReplaceConcurrent deletes the old run and starts the new one.
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// ScheduledScanSpec says what to scan and when. One of interval and schedule is needed.
// +kubebuilder:validation:XValidation:rule="(has(self.schedule) && size(self.schedule) > 0) || (has(self.interval) && self.interval.matches('[1-9]'))",message="one of spec.interval (a duration such as 12h) and spec.schedule (a cron expression such as \"0 3 * * *\") must be set"
type ScheduledScanSpec struct {
	// interval is the time between two runs as a Go duration, such as "12h" or "30m", at
	// least 1s. Where it is less than the cluster's schedules.minIntervalSeconds, which is 10
	// unless set, that counts. "0s" and "" mean unset. It is ignored where schedule is set.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self == '0' || self.matches('^([0-9]+([.][0-9]*)?(ns|us|µs|ms|s|m|h))+$')",message="must be a duration of numbers with units, such as 12h, 30m or 1h30m; days are written in hours"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[1-9]') || !self.matches('^([0-9]+([.][0-9]*)?(ns|us|µs|ms|s|m|h))+$') || duration(self) >= duration('1s')",message="must be at least 1s; the cluster's settings may ask for more"
	Interval string `json:"interval,omitempty"`

	// schedule is a cron expression of five fields (minute, hour, day of month, month,
	// day of week), such as "0 3 * * *", or a descriptor such as "@daily". It is read
	// in timeZone. "" means unset.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('TZ=') && !self.startsWith('CRON_TZ=')",message="must not begin with a time zone; name it in spec.timeZone"
	// +kubebuilder:validation:XValidation:rule="self.startsWith('TZ=') || self.startsWith('CRON_TZ=') || self.matches('^\\\\s*$') || self.matches('^\\\\s*(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every\\\\s+[0-9a-zµ.]+|[^@\\\\s]+(\\\\s+[^\\\\s]+){4})\\\\s*$')",message="must be five fields (minute, hour, day of month, month, day of week) such as \"0 3 * * 1-5\", or one of @yearly, @monthly, @weekly, @daily, @hourly and @every with a duration"
	Schedule string `json:"schedule,omitempty"`

	// timeZone is the IANA name of the zone in which schedule and windows are read, such
	// as "Europe/Berlin". Absent: the zone of the operator, which is UTC in its image.
	// Where clocks change, each time of the schedule runs once: one that is skipped runs
	// right after the change, one that comes twice runs the first time. A schedule whose
	// hour is * goes by elapsed time instead.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || (self != 'Local' && self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$'))",message="must be the IANA name of a time zone, such as Europe/Berlin or UTC"
	TimeZone string `json:"timeZone,omitempty"`

	// jitter is the most by which each run may start later than planned, as a duration
	// such as "10m". How much it is depends on the object and on the planned time only.
	// It keeps many schedules of one time from starting at once. An interval counts from
	// the start of the last run, so it is the least time between two.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self == '0' || self.matches('^([0-9]+([.][0-9]*)?(ns|us|µs|ms|s|m|h))+$')",message="must be a duration of numbers with units, such as 10m or 1h30m"
	Jitter string `json:"jitter,omitempty"`

	// startingDeadlineSeconds is how late a planned run may start: one that could not
	// start in time, since no operator was there, an earlier run had to end or a window
	// was closed, is passed over. Absent: it starts whenever it can, and runs missed
	// together start one.
	// An addition to the secureCodeBox contract.
	// +optional
	// +kubebuilder:validation:Minimum=10
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// windows are times in which no run starts. A run that comes due in one starts
	// when it ends. Runs that have started go on.
	// An addition to the secureCodeBox contract.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Windows []BlackoutWindow `json:"windows,omitempty"`

	// successfulJobsHistoryLimit is how many Done Scans are kept; 3 where absent, and at most
	// the cluster's schedules.maxHistory, which is 1000 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is how many Errored Scans are kept; 3 where absent, and at most
	// the cluster's schedules.maxHistory, which is 1000 unless set.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`

	// concurrencyPolicy says what happens when a run is due and an earlier one has not
	// finished; Allow where absent.
	// +optional
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// scanSpec is the spec of the Scans that are created.
	// +required
	ScanSpec *ScanSpec `json:"scanSpec"`

	// retriggerOnScanTypeChange starts a run when the ScanType changes.
	// +optional
	// +kubebuilder:default=false
	RetriggerOnScanTypeChange bool `json:"retriggerOnScanTypeChange,omitempty"`

	// suspend keeps new runs from being started.
	// +optional
	// +kubebuilder:default=false
	Suspend *bool `json:"suspend,omitempty"`
}

// BlackoutWindow is a time that comes again and again in which no run starts.
type BlackoutWindow struct {
	// schedule says when the window begins: a cron expression as in spec.schedule, read
	// in spec.timeZone. Example: "0 8 * * 1-5".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^\\\\s*(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^@\\\\s=]+(\\\\s+[^\\\\s]+){4})\\\\s*$')",message="must be five fields (minute, hour, day of month, month, day of week) such as \"0 8 * * 1-5\", or one of @yearly, @monthly, @weekly, @daily and @hourly"
	Schedule string `json:"schedule"`

	// duration is how long the window lasts, such as "10h"; at most 744h.
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]*)?(ns|us|µs|ms|s|m|h))+$') && self.matches('[1-9]')",message="must be a duration of numbers with units, such as 10h or 1h30m"
	Duration string `json:"duration"`
}

// ScheduledScanStatus is where a ScheduledScan stands. The operator writes it; clients
// may write lastScheduleTime. Whatever else another client removes is written again.
type ScheduledScanStatus struct {
	// lastScheduleTime is when the last run was started. Clients set it back, by any
	// amount, to have a run at once.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// findings are those of the newest Done Scan.
	// +optional
	Findings FindingStats `json:"findings,omitempty"`

	// scanTypeHash is a digest of the ScanType at the last run, with the time of that
	// run. Only the operator that wrote it can read it; one written by secureCodeBox is
	// replaced at the next occasion and starts nothing.
	// +optional
	ScanTypeHash string `json:"scanTypeHash,omitempty"`

	// nextScheduleTime is when the next run is going to start, jitter and windows
	// included. Absent where none is planned, as while suspended.
	// An addition to the secureCodeBox contract.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`

	// findingsFrom is the name of the Scan that status.findings are those of.
	// An addition to the secureCodeBox contract.
	// +optional
	FindingsFrom string `json:"findingsFrom,omitempty"`

	// conditions say how the schedule stands. Type Ready is True where runs are started
	// as planned, Unknown where something is waited for, False where something has to be
	// corrected; reason and message say what.
	// An addition to the secureCodeBox contract.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status speaks of.
	// An addition to the secureCodeBox contract.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Reasons of the condition Ready of a ScheduledScan, beside ReasonSuspended,
// ReasonInvalidSpec and ReasonScanTypeNotFound. Events on it have the same reasons; those
// that secureCodeBox has too are called as there.
const (
	// ReasonScheduled is set while runs are started as planned.
	ReasonScheduled = "Scheduled"
	// ReasonConcurrencyPolicyBlocks is set while a run is due and waits, since an earlier
	// one has not ended and concurrencyPolicy is Forbid. It starts when that ends.
	ReasonConcurrencyPolicyBlocks = "ConcurrencyPolicyBlocks"
	// ReasonReplacingScans is set while a run is due and waits for the deletion of an
	// earlier one, since concurrencyPolicy is Replace. It starts when that is gone.
	ReasonReplacingScans = "ReplacingScans"
	// ReasonInBlackoutWindow is set while a run is due and waits for a window of
	// spec.windows to end.
	ReasonInBlackoutWindow = "InBlackoutWindow"
	// ReasonNoScheduleOrInterval is set when neither schedule nor interval is; set one.
	ReasonNoScheduleOrInterval = "NoScheduleOrInterval"
	// ReasonScheduleParseError is set when schedule is not a cron expression; the message
	// says what is wrong with it.
	ReasonScheduleParseError = "ScheduleParseError"
	// ReasonUnknownTimeZone is set when there means no zone called like timeZone; correct it.
	ReasonUnknownTimeZone = "UnknownTimeZone"
	// ReasonScheduleNeverFires is set when no run can ever start: the schedule names a
	// date that does not exist, or the windows leave no time. Correct what the message names.
	ReasonScheduleNeverFires = "ScheduleNeverFires"
	// ReasonScanRejected is set while the API server, a policy or a quota refuses the Scan
	// of a run that is due; the message quotes it. It is tried again.
	ReasonScanRejected = "ScanRejected"
)

// Further reasons of Events on a ScheduledScan, called as in secureCodeBox.
const (
	// EventRetriggered tells that a run was started since the ScanType has changed.
	EventRetriggered = "Retriggered"
	// EventScanReplaced tells that an unfinished Scan was deleted for a new run.
	EventScanReplaced = "JobReplaced"
)

// AnnotationScheduledFor on a Scan that a ScheduledScan has started is the time for which
// it was planned. For a run that was asked for, or that a changed ScanType has started,
// it is one second after the run before.
const AnnotationScheduledFor = "scanyard.io/scheduled-for"

// ScheduledScan starts Scans again and again.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=scheduledscans,singular=scheduledscan,scope=Namespaced,shortName=sscan,categories=scanyard
// +kubebuilder:printcolumn:name="UID",type=string,JSONPath=`.metadata.uid`,description="K8s Resource UID",priority=1
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.scanSpec.scanType`,description="Scan Type"
// +kubebuilder:printcolumn:name="Interval",type=string,JSONPath=`.spec.interval`,description="Interval of the schedule"
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`,description="Cron expression of the schedule"
// +kubebuilder:printcolumn:name="Findings",type=string,JSONPath=`.status.findings.count`,description="Total Finding Count"
// +kubebuilder:printcolumn:name="Parameters",type=string,JSONPath=`.spec.scanSpec.parameters`,description="Arguments passed to the Scanner",priority=1
// +kubebuilder:printcolumn:name="Next",type=string,JSONPath=`.status.nextScheduleTime`,description="When the next run starts",priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="How the schedule stands",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScheduledScan struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what to scan and when.
	// +optional
	Spec ScheduledScanSpec `json:"spec,omitzero"`
	// status is where the ScheduledScan stands.
	// +optional
	Status ScheduledScanStatus `json:"status,omitempty"`
}

// Suspended says whether spec.suspend keeps runs from being started.
func (s *ScheduledScan) Suspended() bool { return s.Spec.Suspend != nil && *s.Spec.Suspend }

// ScheduledScanList is a list of ScheduledScans.
// +kubebuilder:object:root=true
type ScheduledScanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ScheduledScan `json:"items"`
}

// ScheduleOf returns the reference of a Scan to the ScheduledScan that it is a run of, or nil.
func ScheduleOf(scan metav1.Object) *metav1.OwnerReference {
	c := metav1.GetControllerOf(scan)
	if c == nil || c.Kind != "ScheduledScan" || c.APIVersion != SchemeGroupVersion.String() {
		return nil
	}
	return c
}
