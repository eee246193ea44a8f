// SPDX-License-Identifier: Apache-2.0

package v1alpha2

// DefaultMaxExceptions is maxPerNamespace where no setting says otherwise.
const DefaultMaxExceptions = 1000

// ExceptionLimits bound what exceptions may say. They are asked when an exception is made or its spec is changed: what is
// stored already goes on to hold.
type ExceptionLimits struct {
	// maxDuration is the longest time from the creation of an exception to its expiresAt: days or
	// hours, such as 90d or 36h. Every exception that suppresses findings then needs an end. A later
	// end may be set as long after the change.
	// +optional
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,4}[dh]$`
	// +kubebuilder:validation:MaxLength=6
	MaxDuration string `json:"maxDuration,omitempty"`

	// requireSecondPerson lets only somebody else than who made an exception set a later end, and
	// nobody where who made it is not known.
	// +optional
	RequireSecondPerson *bool `json:"requireSecondPerson,omitempty"`

	// allowedStatuses are the values that spec.status may have. Absent: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	AllowedStatuses []ExceptionStatus `json:"allowedStatuses,omitempty"`

	// maxSeverity is the highest severity that a FindingException may suppress: each of its entries
	// has to name severities up to it. ClusterFindingExceptions are not bound.
	// +optional
	// +kubebuilder:validation:Enum=INFORMATIONAL;LOW;MEDIUM;HIGH
	MaxSeverity string `json:"maxSeverity,omitempty"`

	// maxPerNamespace is how many FindingExceptions a namespace may have. Absent: 1000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=5000
	MaxPerNamespace *int32 `json:"maxPerNamespace,omitempty"`
}
