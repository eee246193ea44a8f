// SPDX-License-Identifier: Apache-2.0

package scanconfig

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// ScanConfig says how discovered targets are scanned. Fields marked T are templates.
type ScanConfig struct {
	// Name identifies the scanConfig: it is part of the names of the ScheduledScans.
	Name string `json:"name"`
	// ScanType is the name of the ScanType, or of the ClusterScanType where resourceMode
	// is clusterWide.
	ScanType string `json:"scanType"`
	// RepeatInterval is the time between two runs, such as 168h. It is needed unless
	// schedule is set.
	RepeatInterval metav1.Duration `json:"repeatInterval,omitzero"`
	// Parameters are the arguments of the scanner (T); those that render empty are dropped.
	Parameters []string `json:"parameters,omitempty"`
	// Labels of the ScheduledScan and of its Scans; values are T, empty ones are dropped.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the ScheduledScan and of its Scans; values are T, empty ones are dropped.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Volumes of the scanner pod; name, secret.secretName and configMap.name are T.
	Volumes []corev1.Volume `json:"volumes,omitempty"`
	// VolumeMounts of the scanner container; name, mountPath, subPath and subPathExpr are T.
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`
	// HookSelector selects the hooks that run; values of matchLabels, and keys and values
	// of matchExpressions are T, empty values are dropped.
	HookSelector *metav1.LabelSelector `json:"hookSelector,omitempty"`
	// Env of the scanner container; value is T and kept where it renders empty.
	Env []corev1.EnvVar `json:"env,omitempty"`

	Additions `json:",inline"`
}

// Additions are the fields of a scanConfig that secureCodeBox does not have. Each has the
// meaning of the field of the same name of a ScheduledScan or a Scan.
type Additions struct {
	// Schedule is a cron expression; it replaces repeatInterval.
	Schedule string `json:"schedule,omitempty"`
	// TimeZone is the zone of schedule and windows, such as Europe/Berlin.
	TimeZone string `json:"timeZone,omitempty"`
	// Jitter is the most by which a run may start late, so that not all start together.
	Jitter metav1.Duration `json:"jitter,omitzero"`
	// StartingDeadlineSeconds is how late a run may start.
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`
	// Windows are times in which no run starts.
	Windows []executionv1.BlackoutWindow `json:"windows,omitempty"`
	// ConcurrencyPolicy says what happens while an earlier run has not ended.
	ConcurrencyPolicy executionv1.ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// SuccessfulJobsHistoryLimit is how many Done Scans are kept.
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`
	// FailedJobsHistoryLimit is how many Errored Scans are kept.
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
	// RetriggerOnScanTypeChange starts a run when the ScanType changes; true where absent.
	RetriggerOnScanTypeChange *bool `json:"retriggerOnScanTypeChange,omitempty"`

	// ResourceMode is namespaceLocal or clusterWide.
	ResourceMode executionv1.ResourceMode `json:"resourceMode,omitempty"`
	// Resources of the scanner container.
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// NodeSelector of the pods.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Affinity of the pods.
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// Tolerations of the pods.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// InitContainers of the scanner pod; command, args and values of env are T.
	InitContainers []corev1.Container `json:"initContainers,omitempty"`
	// Cascades lets findings start further Scans.
	Cascades *executionv1.CascadeSpec `json:"cascades,omitempty"`
	// TTLSecondsAfterFinished deletes Scans after their end.
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// Priority of the Scans in the queue of their namespace.
	Priority *int32 `json:"priority,omitempty"`
	// Deadlines bound the phases of the Scans.
	Deadlines *executionv1.Deadlines `json:"deadlines,omitempty"`
}

// View is a scanConfig as templates see it: with the types that secureCodeBox's has, so that a duration prints as one and
// there always is a hookSelector to look into.
type View struct {
	ScanConfig

	RepeatInterval time.Duration
	HookSelector   metav1.LabelSelector
}

// View is for the arguments of templates.
func (c *ScanConfig) View() View {
	v := View{ScanConfig: *c, RepeatInterval: c.RepeatInterval.Duration}
	if c.HookSelector != nil {
		v.HookSelector = *c.HookSelector
	}
	return v
}

// IsClusterWide says whether the Scans use the Cluster* kinds.
func (c *ScanConfig) IsClusterWide() bool { return c.ResourceMode == executionv1.ClusterWide }
