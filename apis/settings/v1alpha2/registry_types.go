// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import "k8s.io/apimachinery/pkg/api/resource"

// RegistryScanning bounds what is done for the Registries of a namespace. What is wider than the bounds of the installation, or of
// the cluster's settings, counts as those.
type RegistryScanning struct {
	// quotas bound each namespace.
	// +optional
	Quotas *RegistryQuotas `json:"quotas,omitempty"`

	// allowedHosts are globs on the hosts of registries that may be asked, such as *.example.com. Absent: all that the
	// installation allows.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	AllowedHosts []string `json:"allowedHosts,omitempty"`

	// denied lets nothing be done for Registries.
	// +optional
	Denied *bool `json:"denied,omitempty"`
}

// RegistryQuotas are the bounds of a namespace.
type RegistryQuotas struct {
	// registries is how many are worked for; the youngest ones are over it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Registries *int32 `json:"registries,omitempty"`

	// repositories is how many are kept, of all Registries together.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Repositories *int32 `json:"repositories,omitempty"`

	// images is how many are kept of those that registries have now. What is there already stays.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Images *int32 `json:"images,omitempty"`

	// concurrent is how many items are worked on at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Concurrent *int32 `json:"concurrent,omitempty"`

	// bytesPerDay are fetched in 24 hours, compressed as registries have them.
	// +optional
	BytesPerDay *resource.Quantity `json:"bytesPerDay,omitempty"`
}
