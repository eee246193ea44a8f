// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ReportImportSpec holds reports that are moved from CRDs, and how the move goes on. Objects are written first,
// then those removed, then the counter is raised.
type ReportImportSpec struct {
	// objects are whole reports of wgpolicyk8s.io or openreports.io. Their uid, creationTimestamp, generation,
	// finalizers, ownerReferences and managedFields are kept.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Objects []runtime.RawExtension `json:"objects,omitempty"`

	// removed are reports that were imported and have been deleted since where they come from. They are deleted here
	// without waiting for their finalizers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Removed []RemovedReport `json:"removed,omitempty"`

	// minResourceVersion raises the server's counter to at least this number, and makes all earlier numbers too old, so that
	// clients that come with numbers of etcd list anew. Where the counter was raised to it before, nothing is changed.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MinResourceVersion *int64 `json:"minResourceVersion,omitempty"`

	// freezeSeconds has the server refuse writes of reports for this long from now on, before anything else is done; 0 lets
	// them through again. Meanwhile the last reports are moved back to CRDs.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=20
	FreezeSeconds *int32 `json:"freezeSeconds,omitempty"`
}

// RemovedReport names a report that is to be deleted.
type RemovedReport struct {
	// apiVersion of the report, as wgpolicyk8s.io/v1alpha2.
	// +required
	APIVersion string `json:"apiVersion"`

	// kind of the report.
	// +required
	Kind string `json:"kind"`

	// namespace of the report.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name of the report.
	// +required
	Name string `json:"name"`

	// uid of the report. Another one under the name is left alone.
	// +required
	UID string `json:"uid"`
}

// ImportResult says what became of one object.
// +kubebuilder:validation:Enum=Created;Updated;Unchanged;Conflict;Invalid;Removed;Absent
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
	// ImportRemoved says that the object was deleted.
	ImportRemoved ImportResult = "Removed"
	// ImportAbsent says that an object to be deleted was not there.
	ImportAbsent ImportResult = "Absent"
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

	// removed are those of the spec, in the same order.
	// +optional
	// +listType=atomic
	Removed []ImportedObject `json:"removed,omitempty"`

	// resourceVersion is the server's counter after the import.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// freeBytes is the space that the database has left, where the server can tell.
	// +optional
	FreeBytes *int64 `json:"freeBytes,omitempty"`
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
