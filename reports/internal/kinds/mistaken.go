// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// Mistaken stands for an object that has a value of a wrong type, such as a text for a number. Clients are told so in the
// way of all mistakes, with the field, and not as if the body could not be read at all.
type Mistaken struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Mistakes field.ErrorList
}

// DeepCopyObject implements runtime.Object.
func (m *Mistaken) DeepCopyObject() runtime.Object {
	copied := &Mistaken{TypeMeta: m.TypeMeta, Mistakes: m.Mistakes}
	m.DeepCopyInto(&copied.ObjectMeta)
	return copied
}

// ToleratesMistakes makes a decoder that returns a Mistaken where a value is of a wrong type.
func ToleratesMistakes(decoder runtime.Decoder) runtime.Decoder { return tolerant{decoder} }

// isStored tells an object of the table from one that is only answered.
func isStored(obj runtime.Object) bool {
	switch obj.(type) {
	case *Report, *ClusterReport, *reportsv1.Image, *reportsv1.SBOM, *reportsv1.VulnerabilityReport, *reportsv1.Repository, *reportsv1.VulnerabilityDatabase:
		return true
	}
	return false
}

type tolerant struct{ runtime.Decoder }

// Decode implements runtime.Decoder.
func (t tolerant) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := t.Decoder.Decode(data, defaults, into)
	var wrong *json.UnmarshalTypeError
	if kind == nil || !isStored(into) || !errors.As(err, &wrong) || wrong.Field == "" {
		return obj, kind, err
	}
	var known struct {
		Metadata struct{ Name, Namespace, GenerateName string }
	}
	if json.Unmarshal(data, &known) != nil {
		return obj, kind, err // the metadata is wrong, or this is not JSON
	}
	message := fmt.Sprintf("must be of type %s", wrong.Type)
	made := &Mistaken{Mistakes: field.ErrorList{field.Invalid(field.NewPath(wrong.Field), wrong.Value, message)}}
	made.Name, made.Namespace, made.GenerateName = known.Metadata.Name, known.Metadata.Namespace, known.Metadata.GenerateName
	return made, kind, nil
}
