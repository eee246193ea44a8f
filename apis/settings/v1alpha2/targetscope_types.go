// SPDX-License-Identifier: Apache-2.0

package v1alpha2

// TargetScope says which targets the parameters of Scans may name: addresses, networks and names of hosts. A namespace may
// only tighten: what either its setting or the cluster's refuses is refused. The rule looks at what a Scan says, before it
// starts; what a scanner reads from files or follows by itself a NetworkPolicy bounds.
type TargetScope struct {
	// allowed are the targets that may be named: an address, a network such as 192.0.2.0/24, a host such as
	// shop.example.com, or *.example.com for all hosts below a domain. A Scan that names no target is refused then.
	// Absent: all that are not denied.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Allowed []string `json:"allowed,omitempty"`

	// denied are targets that may not be named, whatever is allowed. A network is denied as soon as it overlaps one of
	// them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Denied []string `json:"denied,omitempty"`

	// scanTypes are those whose Scans are looked at, by their names or as in nmap*. Absent: all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ScanTypes []string `json:"scanTypes,omitempty"`
}
