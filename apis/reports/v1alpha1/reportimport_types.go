// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ReportImportSpec holds reports that are moved from CRDs.
type ReportImportSpec struct {
	// objects are whole reports of wgpolicyk8s.io or openreports.io. Their uid, creationTimestamp, generation,
	// finalizers, ownerReferences and managedFields are kept.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=500
	Objects []runtime.RawExtension `json:"objects"`
}

// ImportResult says what became of one object.
// +kubebuilder:validation:Enum=Created;Updated;Unchanged;Conflict;Invalid
// +enum
type ImportResult string

// What became of an object.
const (
	// ImportCreated says that the object was not there.
	ImportCreated ImportResult = "Created"
	// ImportUpdated says that the object was there with this uid, and older.
	ImportUpdated ImportResult = "Updated"
	// ImportUnchanged says that the object was there with this uid, and is not older.
	ImportUnchanged ImportResult = "Unchanged"
	// ImportConflict says that another object has the name. Nothing was written.
	ImportConflict ImportResult = "Conflict"
	// ImportInvalid says that the object is not valid. Nothing was written.
	ImportInvalid ImportResult = "Invalid"
)

// ImportedObject says what became of one object of the spec, in the same order.
type ImportedObject struct {
	// kind of the object.
	// +optional
	Kind string `json:"kind,omitempty"`

	// namespace of the object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name of the object.
	// +optional
	Name string `json:"name,omitempty"`

	// uid of the object.
	// +optional
	UID string `json:"uid,omitempty"`

	// result says what became of the object.
	// +required
	Result ImportResult `json:"result"`

	// message explains a Conflict or Invalid to people.
	// +optional
	Message string `json:"message,omitempty"`
}

// ReportImportStatus says what became of the objects. The server writes it.
type ReportImportStatus struct {
	// objects are those of the spec, in the same order.
	// +optional
	// +listType=atomic
	Objects []ImportedObject `json:"objects,omitempty"`
}

// ReportImport moves reports from CRDs into the reports API server. It is served only while a
// migration goes on, for administrators; to create one is to write the reports.
// +kubebuilder:object:root=true
type ReportImport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the reports.
	// +required
	Spec ReportImportSpec `json:"spec"`

	// status says what became of them.
	// +optional
	Status ReportImportStatus `json:"status,omitempty"`
}
