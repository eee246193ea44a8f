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
	// interval is the time between two runs as a Go duration, such as "12h" or "30m".
	// "0s" and "" mean unset. It is ignored where schedule is set.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self == '0' || self.matches('^([0-9]+([.][0-9]*)?(ns|us|µs|ms|s|m|h))+$')",message="must be a duration of numbers with units, such as 12h, 30m or 1h30m; days are written in hours"
	Interval string `json:"interval,omitempty"`

	// schedule is a cron expression of five fields, such as "0 3 * * *", or a
	// descriptor such as "@daily". "" means unset.
	// +optional
	Schedule string `json:"schedule,omitempty"`

	// successfulJobsHistoryLimit is how many Done Scans are kept; 3 where absent.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is how many Errored Scans are kept.
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

// ScheduledScanStatus is where a ScheduledScan stands.
type ScheduledScanStatus struct {
	// lastScheduleTime is when the last run was started. Clients write a time in the
	// past to have a run at once.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// findings are those of the newest Done Scan.
	// +optional
	Findings FindingStats `json:"findings,omitempty"`

	// scanTypeHash is a digest of the ScanType at the last run.
	// +optional
	ScanTypeHash string `json:"scanTypeHash,omitempty"`
}

// ScheduledScan starts Scans again and again.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=scheduledscans,singular=scheduledscan,scope=Namespaced
// +kubebuilder:printcolumn:name="UID",type=string,JSONPath=`.metadata.uid`,description="K8s Resource UID",priority=1
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.scanSpec.scanType`,description="Scan Type"
// +kubebuilder:printcolumn:name="Interval",type=string,JSONPath=`.spec.interval`,description="Interval of the schedule"
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`,description="Cron expression of the schedule"
// +kubebuilder:printcolumn:name="Findings",type=string,JSONPath=`.status.findings.count`,description="Total Finding Count"
// +kubebuilder:printcolumn:name="Parameters",type=string,JSONPath=`.spec.scanSpec.parameters`,description="Arguments passed to the Scanner",priority=1
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

// ScheduledScanList is a list of ScheduledScans.
// +kubebuilder:object:root=true
type ScheduledScanList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ScheduledScan `json:"items"`
}
